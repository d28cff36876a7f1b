"""How long things took, as a histogram that costs little to add to."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence


class Timings:
    """Counts durations in buckets. Used from one event loop."""

    __slots__ = ("_bounds", "_counts", "seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Take the upper bounds of the buckets in seconds, ascending, without infinity."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.seconds = 0.0
        """The sum of all."""

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.seconds += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return upper bounds and how many durations were not above them."""
        return list(self._cumulated())

    def _cumulated(self) -> Iterator[tuple[str, float]]:
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield bound, total
