"""Long work on the answers of directories: short steps, and rests in which the event loop serves
calls.

gRPC hands over one call at a time, and each hand-over takes several turns of the event loop. So a
rest is longer than a step, and the steps of all connections and lookups share the same rests.
"""

import time
from typing import Final

LONG_BYTES: Final = 65_536
"""The size from which reading an answer is long work."""
STEP_SECONDS: Final = 0.003
"""The duration after which a step ends."""
FREE_SECONDS: Final = 0.001
"""The duration of work that is not split into steps. Most work is shorter."""
_SHORT_SECONDS: Final = 0.0003
"""The duration of steps that need no rest: those for typical answers."""
_REST: Final = 2
"""The length of the rest after a step, as a multiple of the step's."""
_MAX_REST_SECONDS: Final = 0.1


class Turns:
    """The turns of all tasks that do long work in a process."""

    def __init__(self) -> None:
        """Start without work."""
        self._free_at = 0.0

    def wait(self, worked: float = 0.0) -> float:
        """Return the seconds until the next step may begin, after a step of `worked` seconds."""
        now = time.monotonic()
        if worked > _SHORT_SECONDS:
            self._free_at = min(max(self._free_at, now) + worked * _REST, now + _MAX_REST_SECONDS)
        return max(0.0, self._free_at - now)


TURNS: Final = Turns()
"""The turns of this process."""
