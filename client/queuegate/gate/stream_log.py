"""Log messages about a gate's streams. Repeated events are logged once."""

import logging
from collections.abc import Iterable
from typing import Final

from queuegate.gate.checks import text_to_log
from queuegate.v1 import sync_pb2

MAX_ENDS: Final = 8
"""The maximum number of distinct reasons to log before a stream recovers."""
_FORBIDDEN: Final = (
    "the server forbids it to decide: sync.local_decisions is off, or this version of the client"
    " does not support the server's rules"
)
_NO_OUTBOX: Final = "the server requires a report of each decision: give the gate an outbox"
_MAX_LISTED: Final = 10
_LOG: Final = logging.getLogger("queuegate.gate")


class StreamLog:
    """Logs stream events. Used only by the receiving thread."""

    def __init__(self, partitions: Iterable[str], *, has_outbox: bool) -> None:
        """Create a log.

        Args:
            partitions: The partitions to follow; all if empty.
            has_outbox: Whether the gate can report its decisions.
        """
        self._named = frozenset(partitions)
        self._has_outbox = has_outbox
        self._ends: set[str] = set()
        """The reasons logged since the last stable stream."""
        self._missing: frozenset[str] = frozenset()
        self._obstacle = ""

    def opened(self, opened: sync_pb2.SyncOpened) -> None:
        """Log the followed partitions that the server lacks, and any reason why the gate may not
        decide locally.
        """
        missing = self._named.difference(opened.partitions)
        if not missing <= self._missing:
            _LOG.warning(
                "a gate follows partitions that the server does not have: %s; it has: %s",
                ", ".join(sorted(missing)),
                _format_names(opened.partitions),
            )
        self._missing |= missing
        obstacle = ""
        if not opened.local_decisions:
            obstacle = _FORBIDDEN
        elif opened.report_decisions and not self._has_outbox:
            obstacle = _NO_OUTBOX
        if obstacle not in {"", self._obstacle}:
            _LOG.warning("a gate sends every check to the server: %s", obstacle)
        self._obstacle = obstacle

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


def _format_names(partitions: Iterable[str]) -> str:
    names = sorted(partitions)
    more = ", ..." if len(names) > _MAX_LISTED else ""
    return text_to_log(", ".join(names[:_MAX_LISTED]) + more) or "none of them"
