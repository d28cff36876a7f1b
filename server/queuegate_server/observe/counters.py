"""Counters for calls and lookups, read when Prometheus scrapes the metrics."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from queuegate_server.identity.resolver import KnownUser, NoSuchUser, Outcome

CALL_BUCKETS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip
"""Upper bounds in seconds. Checks take about 0.1 ms, and lookups up to a few seconds."""
LOOKUP_BUCKETS: Final = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
INITIAL_CODES: Final = ("OK", "INTERNAL", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "UNKNOWN")
"""Statuses exported from startup, because Prometheus cannot detect an increase in a new series."""
OUTCOMES: Final = ("found", "no_such_user", "could_not_ask")


class Histogram:
    """A histogram of durations."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are the buckets' upper bounds in seconds, ascending and without infinity."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Record a duration."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bucket's upper bound and cumulative count."""
        bounds = (*map(str, self._bounds), "+Inf")
        return list(zip(bounds, accumulate(self._counts), strict=True))


@dataclass(slots=True, eq=False)
class MethodCounters:
    """Counters for one method's calls."""

    kind: str
    """`unary` or `bidi_stream`."""
    service: str
    method: str
    started: int = 0
    codes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(INITIAL_CODES, 0))
    """The number of completed calls by status name."""
    durations: Histogram = field(default_factory=lambda: Histogram(CALL_BUCKETS))

    def end(self, code: str, seconds: float) -> None:
        """Record a completed call."""
        self.codes[code] = self.codes.get(code, 0) + 1
        self.durations.add(seconds)


class ResolverCounters:
    """Counters for one resolver's lookups."""

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.durations = Histogram(LOOKUP_BUCKETS)

    def add(self, outcome: Outcome, seconds: float) -> None:
        """Record a lookup."""
        self.outcomes[outcome_name(outcome)] += 1
        self.durations.add(seconds)


def outcome_name(outcome: Outcome) -> str:
    """Return an outcome's name in metrics and spans."""
    if isinstance(outcome, KnownUser):
        return "found"
    return "no_such_user" if isinstance(outcome, NoSuchUser) else "could_not_ask"
