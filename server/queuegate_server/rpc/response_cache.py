"""The server's only decision cache. It stores serialized responses, keyed by serialized requests.

A response is valid for one snapshot and one level of trust in the caller. A response based on
cached groups expires when the group-cache entry needs a refresh or is replaced, invalidated or
evicted (`fresh_until`). The next check then reaches the group cache, which can refresh the entry
before it expires. Errors are never cached.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from queuegate.policy.decision import Decision
from queuegate.v1 import access_pb2
from queuegate_server.decisions.log import NUMBERS
from queuegate_server.engine import Snapshot, Verdict
from queuegate_server.identity.cache import CacheEntry
from queuegate_server.identity.shared import CacheLease, EndlessLease
from queuegate_server.policy_age import PolicyAge
from queuegate_server.rpc import wire
from queuegate_server.rpc.messages import decision_message

MAX_ENTRIES: Final = 65_536
"""The maximum number of entries per generation. A hit in the older of the two generations moves the
entry to the newer generation. This is cheaper than an LRU cache."""
MAX_REQUEST_BYTES: Final = 384
"""Longer requests are not cached, to limit the cache to about 90 MiB."""
CHUNK: Final = 10_000
"""The number of cache lookups between two pauses. A chunk takes a few milliseconds."""

_NO_AGES: Final[Sequence[PolicyAge]] = ()
_DECISION: Final = access_pb2.CheckResult.DECISION_FIELD_NUMBER
_RESULTS: Final = access_pb2.BatchCheckQueueAccessResponse.RESULTS_FIELD_NUMBER


class _NoEntry:
    """A placeholder for the group-cache entry in responses not based on cached groups."""

    fresh_until: Final = float("inf")


NO_ENTRY: Final = _NoEntry()


class CachedResponse(NamedTuple):
    """A check's response, both on its own and encoded as a batch result."""

    response: bytes
    batch_result: bytes
    reason: int
    """The number of the decision's reason."""
    entry: CacheEntry | _NoEntry = NO_ENTRY
    """The group-cache entry that provided the groups."""


class FailedCheck(NamedTuple):
    """The result of a failed check. It is never cached."""

    response: bytes
    """The serialized google.rpc.Status."""
    reason: int
    """Always ERROR."""
    error_reason: str
    """The ErrorInfo reason, in lower case."""


CheckResponse = CachedResponse | FailedCheck
_Generation = dict[bytes, CachedResponse]


class ResponseCache:
    """A cache of responses for one snapshot, keyed by request and whether the caller is trusted."""

    def __init__(
        self,
        clock: Callable[[], float],
        max_entries: int = MAX_ENTRIES,
        lease: CacheLease | None = None,
    ) -> None:
        """Create an empty cache that uses the group caches' clock and lease."""
        self._lease = lease or EndlessLease()
        self._lease.on_end(self._drop)
        self._clock = clock
        self._max_entries = max_entries
        self._snapshot: Snapshot | None = None
        self._ages = _NO_AGES
        """The ages of the snapshot's partitions that follow a cluster."""
        self._generations: dict[bool, tuple[_Generation, _Generation]]
        self._drop()

    def reset(self, snapshot: Snapshot) -> None:
        """Drop all responses and switch to a new snapshot."""
        self._snapshot = snapshot
        self._ages = [each.age for each in snapshot.served.values() if each.age is not None]
        self._drop()

    def _drop(self) -> None:
        self._generations = {trusted: ({}, {}) for trusted in (False, True)}

    async def get_most(
        self,
        snapshot: Snapshot,
        requests: Sequence[bytes],
        pause: Callable[[], Awaitable[None]],
        *,
        trusted: bool,
    ) -> list[CheckResponse | None]:
        """Return each request's cached response; None if it is missing or no longer valid.

        Pauses every few milliseconds.
        """
        responses: list[CheckResponse | None] = []
        for start in range(0, len(requests), CHUNK):
            if start:
                await pause()
            # During a pause, the snapshot may be replaced and responses may expire.
            now = self._clock()
            if (
                snapshot is not self._snapshot
                or self._lease.end_if_expired(now)
                or self._is_too_old
            ):
                return [*responses, *[None] * (len(requests) - start)]
            chunk = requests[start : start + CHUNK]
            newer, older = self._generations[trusted]
            chunk_responses = [
                None if cached is None or cached.entry.fresh_until <= now else cached
                for cached in map(newer.get, chunk)
            ]
            if older:
                chunk_responses = [
                    cached
                    or (self.get(snapshot, request, trusted=trusted) if request in older else None)
                    for cached, request in zip(chunk_responses, chunk, strict=True)
                ]
            responses += chunk_responses
        return responses

    def get(self, snapshot: Snapshot, request: bytes, *, trusted: bool) -> CachedResponse | None:
        """Return the cached response to a request; None if it is missing or no longer valid."""
        if snapshot is not self._snapshot or (self._ages and self._is_too_old):
            return None
        newer, older = self._generations[trusted]
        cached = newer.get(request)
        if cached is None:
            cached = older.pop(request, None)
            if cached is None:
                return None
            self._open_generation(trusted=trusted)[request] = cached
        now = self._clock()
        if now >= self._lease.ends_at:
            self._lease.end_if_expired(now)
            return None
        return cached if cached.entry.fresh_until > now else None

    def put(
        self, snapshot: Snapshot, request: bytes, verdict: Verdict, *, trusted: bool
    ) -> CachedResponse:
        """Encode and return a response; cache it if it is still valid and its request is short."""
        response = respond(snapshot, verdict)
        if snapshot is self._snapshot and self._is_cacheable(request, response):
            self._open_generation(trusted=trusted)[request] = response
        return response

    def put_many(
        self,
        snapshot: Snapshot,
        responses: Iterable[tuple[bytes, CachedResponse]],
        *,
        trusted: bool,
    ) -> None:
        """Cache the responses that are still valid and whose requests are short."""
        if snapshot is not self._snapshot:
            return
        newer = self._open_generation(trusted=trusted)
        for request, response in responses:
            if self._is_cacheable(request, response):
                if len(newer) >= self._max_entries:
                    newer = self._open_generation(trusted=trusted)
                newer[request] = response

    @property
    def _is_too_old(self) -> bool:
        return any(age.is_too_old for age in self._ages)

    def _is_cacheable(self, request: bytes, response: CachedResponse) -> bool:
        entry = response.entry
        is_valid = isinstance(entry, _NoEntry) or entry.generation == self._lease.generation
        return is_valid and len(request) <= MAX_REQUEST_BYTES

    def _open_generation(self, *, trusted: bool) -> _Generation:
        """Return the generation to write to, after starting a new one if it is full."""
        newer, _ = generations = self._generations[trusted]
        if len(newer) >= self._max_entries:
            generations = self._generations[trusted] = {}, newer
        return generations[0]


def respond(snapshot: Snapshot, verdict: Verdict) -> CachedResponse:
    """Encode a verdict as a response to a queue or application check; both have the same fields."""
    decision, entry, evaluated_queue = verdict
    response = _encode(decision, evaluated_queue, snapshot.policy.revision)
    if entry is None:
        return response
    # Faster than the NamedTuple constructor.
    return tuple.__new__(CachedResponse, (*response[:-1], entry))


@lru_cache(maxsize=16_384)
def _encode(decision: Decision, evaluated_queue: str, revision: int) -> CachedResponse:
    """Encode a decision as a response without a group-cache entry. Memoized for speed."""
    message = access_pb2.CheckQueueAccessResponse
    response = decision_message(message, decision, evaluated_queue, revision).SerializeToString()
    framed = wire.embed(_RESULTS, wire.embed(_DECISION, response))
    return CachedResponse(response, framed, NUMBERS[decision.reason])
