"""Answers by the bytes of their requests, for as long as they cannot have changed.

An answer is kept for one snapshot, and if it used groups, for as long as the
cache entry they came from is fresh: the cache sets `refresh_at` of an entry back
the moment it is replaced, invalidated or evicted, and up to the moment at which a
refresh is due otherwise, so that the cache sees the traffic it needs to refresh.
Errors are never kept.
"""

from typing import Final, NamedTuple

from queuegate_server.identity.cache import CacheEntry
from queuegate_server.snapshot import Snapshot

MAX_ANSWERS: Final = 32_768
"""So many answers make a generation. The newest two are kept: what was asked for again in
the last one lives on, which is cheaper than keeping account of each use."""
MAX_REQUEST_BYTES: Final = 512
"""Longer requests are not kept, which bounds the memo at about 60 MiB."""

_ALWAYS: Final = float("inf")


class _Timeless:
    """Stands for the cache entry of an answer that used no groups of the cache."""

    refresh_at: Final = _ALWAYS


TIMELESS: Final = _Timeless()


class CachedResponse(NamedTuple):
    """An answer as bytes: alone, and framed as a result of a batch."""

    response: bytes
    batch_result: bytes
    source: CacheEntry | _Timeless
    """Where its groups came from; TIMELESS if it used none."""
    reason: int
    """The number of the decision's reason in the contract."""


class ResponseCache:
    """Answers of one snapshot at a time. Used from one event loop."""

    def __init__(self, max_answers: int = MAX_ANSWERS) -> None:
        """Start empty, with generations of so many answers."""
        self._max_answers = max_answers
        self._snapshot: Snapshot | None = None
        self._answers: dict[bytes, CachedResponse] = {}
        self._older: dict[bytes, CachedResponse] = {}

    def forget(self) -> None:
        """Let go of the snapshot and its answers."""
        self._snapshot = None
        self._answers = {}
        self._older = {}

    def answers(self, snapshot: Snapshot) -> dict[bytes, CachedResponse]:
        """Return the newest answers of a snapshot by request, not to be changed. An answer
        holds only while `source.refresh_at` is later than now.
        """
        if snapshot is not self._snapshot:
            self.forget()
            self._snapshot = snapshot
        return self._answers

    def older(self, snapshot: Snapshot, request: bytes) -> CachedResponse | None:
        """Return an answer that is not among the newest, and put it there."""
        if snapshot is not self._snapshot:
            return None
        kept = self._older.pop(request, None)
        if kept is not None:
            self.keep(snapshot, request, kept)
        return kept

    def keep(self, snapshot: Snapshot, request: bytes, kept: CachedResponse) -> None:
        """Keep an answer, unless another snapshot is being served by now."""
        if snapshot is self._snapshot and len(request) <= MAX_REQUEST_BYTES:
            if len(self._answers) >= self._max_answers:
                self._older = self._answers
                self._answers = {}
            self._answers[request] = kept
