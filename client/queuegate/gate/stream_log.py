"""What a gate logs about its streams: each event once, however often it reconnects."""

import logging
from collections.abc import Iterable
from typing import Final

from queuegate.gate.checks import text_to_log
from queuegate.v1 import sync_pb2

MAX_ENDS: Final = 8
"""The maximum number of different reasons for lost streams to log until a stream lasts."""
_FORBIDDEN: Final = (
    "the server does not let it decide: sync.local_decisions forbids it, or this version"
    " of the client does not know the server's rules"
)
_NO_OUTBOX: Final = "the server requires a report of each decision: give the gate an outbox"
_MAX_LISTED: Final = 10
_LOG: Final = logging.getLogger("queuegate.gate")


class StreamLog:
    """Logs the events of streams. Used by the receiving thread."""

    def __init__(self, partitions: Iterable[str], *, has_outbox: bool) -> None:
        """Start with nothing logged.

        Args:
            partitions: The partitions that the gate names.
            has_outbox: Whether the gate can report its decisions.
        """
        self._named = frozenset(partitions)
        self._has_outbox = has_outbox
        self._ends: set[str] = set()
        """Why streams have ended since the last stream that lasted."""
        self._missing: frozenset[str] = frozenset()
        self._obstacle = ""

    def opened(self, opened: sync_pb2.SyncOpened) -> None:
        """Log which named partitions the server does not have, and why the gate may not decide."""
        missing = self._named.difference(opened.partitions)
        if not missing <= self._missing:
            _LOG.warning(
                "a gate follows partitions that the server does not have: %s; it has: %s",
                ", ".join(sorted(missing)),
                _listed(opened.partitions),
            )
        self._missing |= missing
        obstacle = ""
        if not opened.local_decisions:
            obstacle = _FORBIDDEN
        elif opened.report_decisions and not self._has_outbox:
            obstacle = _NO_OUTBOX
        if obstacle not in {"", self._obstacle}:
            _LOG.warning("a gate sends every question to the server: %s", obstacle)
        self._obstacle = obstacle

    def ended(self, why: str) -> None:
        """Log why a stream has ended, unless the same reason has been logged since the last stream
        that lasted.
        """
        if why not in self._ends and len(self._ends) < MAX_ENDS:
            self._ends.add(why)
            _LOG.warning("a gate's stream has ended: %s", why)

    def lasts(self) -> None:
        """Log that a stream lasts, if earlier ones have ended."""
        if self._ends:
            self._ends.clear()
            _LOG.info("a gate's stream is connected again")


def _listed(partitions: Iterable[str]) -> str:
    names = sorted(partitions)
    more = ", ..." if len(names) > _MAX_LISTED else ""
    return text_to_log(", ".join(names[:_MAX_LISTED]) + more) or "none of them"
