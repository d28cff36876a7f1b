"""The rate of calls of each caller."""

from collections import defaultdict
from collections.abc import Callable

from queuegate_server.rpc.errors import RateLimited
from queuegate_server.token_bucket import TokenBucket


class RateLimiter:
    """A token bucket for each caller, of whom there are as many as the settings name."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        """Start with full buckets.

        Args:
            rate: Calls per second that a caller may make.
            burst: Calls that a caller may make at once after a pause.
            clock: A monotonic clock, in seconds.
        """
        self._buckets: defaultdict[str, TokenBucket] = defaultdict(
            lambda: TokenBucket(rate, burst, clock)
        )

    def acquire(self, caller: str) -> None:
        """Count a call of a caller; raise RateLimited instead if it exceeds the rate."""
        bucket = self._buckets[caller]
        if (delay := bucket.wait()) > 0:
            raise RateLimited(delay)
        bucket.charge()

    def wait(self, caller: str) -> float:
        """Return the seconds until a caller may make the next call; 0 if that is now."""
        return self._buckets[caller].wait()

    def charge(self, caller: str) -> None:
        """Count a call that has been made, whether or not it exceeds the rate."""
        self._buckets[caller].charge()
