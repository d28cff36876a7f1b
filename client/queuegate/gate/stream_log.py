"""Log messages about a gate's streams. Repeated events are logged once."""

import logging
from collections.abc import Iterable
from typing import Final

from queuegate.gate import bounds
from queuegate.v1 import sync_pb2

MAX_ENDS: Final = 8
"""The maximum number of distinct reasons to log before a stream recovers."""
_FORBIDDEN: Final = (
    "a gate sends every check to the server, because it may not decide locally: either the server"
    " keeps an audit log and sync.local_decisions is set to forbid, or this version of the client"
    " does not support the server's rules"
)
_MAX_LISTED: Final = 10
_LOG: Final = logging.getLogger("queuegate.gate")


class StreamLog:
    """Logs stream events. Used only by the receiving thread."""

    def __init__(self, partitions: Iterable[str]) -> None:
        """Create a log. `partitions` names the partitions to follow; all if empty."""
        self._named = frozenset(partitions)
        self._ends: set[str] = set()
        """The reasons logged since the last stable stream."""
        self._missing: frozenset[str] = frozenset()
        self._may_decide = True

    def opened(self, opened: sync_pb2.SyncOpened) -> None:
        """Log any followed partitions that the server lacks, and any ban on local decisions."""
        missing = self._named.difference(opened.partitions)
        if not missing <= self._missing:
            _LOG.warning(
                "a gate follows partitions that the server does not have: %s; it has: %s",
                ", ".join(sorted(missing)),
                _format_names(opened.partitions),
            )
        self._missing |= missing
        if self._may_decide and not opened.local_decisions:
            _LOG.warning(_FORBIDDEN)
        self._may_decide = opened.local_decisions

    def ended(self, why: str) -> None:
        """Log why a stream ended, unless the reason has been logged since the last stable
        stream.
        """
        if why not in self._ends and len(self._ends) < MAX_ENDS:
            self._ends.add(why)
            _LOG.warning("a gate's stream has ended: %s", why)

    def recovered(self) -> None:
        """Log that the stream has recovered, if failures have been logged."""
        if self._ends:
            self._ends.clear()
            _LOG.info("a gate's stream is connected again")


def text_to_log(text: str) -> str:
    """Return a server's text with control characters escaped, truncated if too long."""
    kept = text[: bounds.MAX_TEXT_CHARACTERS]
    if not kept.isprintable():
        kept = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in kept)
    return kept if len(text) <= bounds.MAX_TEXT_CHARACTERS else f"{kept}..."


def _format_names(partitions: Iterable[str]) -> str:
    names = sorted(partitions)
    more = ", ..." if len(names) > _MAX_LISTED else ""
    return text_to_log(", ".join(names[:_MAX_LISTED]) + more) or "none of them"
