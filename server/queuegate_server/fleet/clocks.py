"""Finds replicas whose wall clocks differ by more than shared groups allow.

Shared groups carry the time at which they expire, by the clock of the replica that looked them up.
Each replica compares its clock with that of Redis. Because an answer takes
time, the comparison yields an interval: the least and the most that its clock can be ahead.
"""

import math
from collections.abc import Mapping
from typing import Final

from queuegate_server.fleet.barrier import HEARTBEAT_TIMEOUT
from queuegate_server.fleet.shared_groups import CLOCK_SKEW

SETTLING_SECONDS: Final = HEARTBEAT_TIMEOUT
"""How long clocks must differ before that counts: after a fail-over, replicas have compared theirs
with the clocks of two servers, until all have sent another heartbeat."""

Clock = tuple[float, float]
"""Seconds by which a clock is ahead of that of Redis: at least, and at most."""


class ClockWatch:
    """Watches the clocks of replicas. Used from one event loop."""

    def __init__(self) -> None:
        """Know of no difference."""
        self._names: tuple[str, str] | None = None
        self._since = math.inf
        self._sentence = ""

    def update(self, clocks: Mapping[str, Clock | None], now: float) -> None:
        """Take in the clocks of the replicas that send heartbeats.

        Args:
            clocks: The clocks by the names of replicas; None where one is not known.
            now: The time on the own clock, in seconds.
        """
        late, early, seconds = difference(clocks)
        names = (late, early) if seconds > CLOCK_SKEW else None
        if names != self._names:
            self._names, self._since = names, now
            self._sentence = (
                f"the clocks of the replicas {late} and {early} differ by at least {seconds:.0f} s,"
                f" and sharing groups tolerates at most {CLOCK_SKEW:g} s: synchronize the "
                "clocks of their machines, for example with NTP"
            )

    def mistake(self, now: float) -> str:
        """Return a sentence if clocks have differed for a while; else empty."""
        is_settled = self._names is not None and now >= self._since + SETTLING_SECONDS
        return self._sentence if is_settled else ""


def difference(clocks: Mapping[str, Clock | None]) -> tuple[str, str, float]:
    """Return the names of the replicas with the latest and the earliest clock, and the seconds by
    which these differ at least; less than zero if they may be equal.
    """
    known = {name: clock for name, clock in clocks.items() if clock is not None}
    if not known:
        return "", "", 0.0
    late = min(known, key=lambda name: known[name][1])
    early = max(known, key=lambda name: known[name][0])
    return late, early, known[early][0] - known[late][1]
