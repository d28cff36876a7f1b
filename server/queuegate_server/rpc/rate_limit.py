"""Limits how many calls a second a caller makes."""

from collections.abc import Callable

from queuegate_server.rpc.errors import TooManyCalls
from queuegate_server.token_bucket import TokenBucket


class RateLimiter:
    """A token bucket for each caller, of whom there are as many as the settings name."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        """Build it from calls a second, calls at once after a pause, and a monotonic clock."""
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    def count(self, caller: str) -> None:
        """Count a call; raise TooManyCalls instead if it is one too many."""
        wait = self.wait(caller)
        if wait > 0:
            raise TooManyCalls(wait)
        self.charge(caller)

    def wait(self, caller: str) -> float:
        """Return in how many seconds the caller may make the next call; 0 if now."""
        return self._bucket(caller).wait()

    def charge(self, caller: str) -> None:
        """Count a call that was made already, whether or not it is one too many."""
        self._bucket(caller).charge()

    def _bucket(self, caller: str) -> TokenBucket:
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = TokenBucket(self._per_second, self._burst, self._clock)
            self._buckets[caller] = bucket
        return bucket
