"""Counts lookups and what is unusual about entries, for metrics, the log and `source-check`."""

import logging
import time
from dataclasses import dataclass, field
from typing import Final

from queuegate_server.identity.resolvers.ldap.timed_steps import StepCounts
from queuegate_server.throttling.token_bucket import TokenBucket

_LOG = logging.getLogger("queuegate_server.identity.ldap")

_LINES_A_SECOND: Final = 1.0
_FIRST_LINES: Final = 20
"""The number of lines that may be logged at once after a pause."""


class EntryLog:
    """Logs warnings about entries at a limited rate, because one lookup may cause thousands."""

    def __init__(self) -> None:
        self._rate = TokenBucket(_LINES_A_SECOND, _FIRST_LINES, time.monotonic)

    def warning(self, text: str, *values: object) -> None:
        """Log a warning, unless there were too many recently."""
        if self._rate.acquire():
            _LOG.warning(text, *values)


@dataclass(slots=True)
class LdapStatistics:
    """The resolver's counters since its creation. `observe/metrics.toml` describes them."""

    steps: StepCounts = field(default_factory=StepCounts)
    """The counters by server and step."""
    retried: int = 0
    """Lookups and lists that were repeated on another server."""
    ambiguous: int = 0
    """Lookups in which several entries matched the user."""
    depth_reached: int = 0
    """Lookups that did not follow nested groups beyond `nested_depth`."""
    other_spelling: int = 0
    """Lookups of a name that the directory spells differently."""
    outside_base: int = 0
    """Entries that the server returned, although they are outside the base that was searched."""
    skipped_names: int = 0
    """Groups without a readable name."""
    ignored_memberships: int = 0
    """Values of users' memberOf attributes that are outside `group_base`."""
    ignored_example: str = ""
    """One of these values, as an example."""
    log: EntryLog = field(default_factory=EntryLog)

    def note_outside(self, dn: str, base: str) -> None:
        """Count and log an entry that is ignored for being outside `base`."""
        self.outside_base += 1
        self.log.warning(
            "ignoring an entry that the server returned outside of %s: %.200r", base, dn
        )

    def note_skipped(self, source: str) -> None:
        """Count and log a group without a readable name."""
        self.skipped_names += 1
        self.log.warning("a group has no readable name: %.200r", source)
