"""How many calls a caller makes: a token bucket each."""

from collections.abc import Callable

from queuegate_server.rpc.errors import TooManyCalls


class TokenBucket:
    """Buckets by the name of the caller, of which there are as many as the settings name.

    A bucket is one number: when it would be full again. Used from one event loop.
    """

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        """Take how many calls a second, how many at once after a pause, and a monotonic
        clock in seconds.
        """
        self._interval = 1 / per_second
        self._room = (burst - 1) * self._interval
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def count(self, caller: str) -> None:
        """Count a call; raise TooManyCalls instead if it is one too many."""
        wait = self.wait(caller)
        if wait > 0:
            raise TooManyCalls(wait)
        self.charge(caller)

    def wait(self, caller: str) -> float:
        """Return in how many seconds the caller may make the next call; 0 if now."""
        return max(0.0, self._full_at.get(caller, 0.0) - self._clock() - self._room)

    def charge(self, caller: str) -> None:
        """Count a call that was made already, whether or not it is one too many."""
        self._full_at[caller] = max(self._full_at.get(caller, 0.0), self._clock()) + self._interval
