"""Splits long processing of directory responses into short steps, with pauses to serve calls.

gRPC delivers one call at a time, and each delivery takes several iterations of the event loop. So
pauses are longer than steps, and shared by all connections and lookups.
"""

import time
from typing import Final

LONG_BYTES: Final = 65_536
"""Larger responses are read in steps."""
STEP_SECONDS: Final = 0.003
"""The maximum duration of a step."""
FREE_SECONDS: Final = 0.001
"""The maximum duration of processing that is not split into steps, as most is."""
_SHORT_SECONDS: Final = 0.0003
"""The maximum duration of a step that needs no pause, as for typical responses."""
_PAUSE_FACTOR: Final = 2
"""The duration of a pause, as a multiple of the preceding step's."""
_MAX_PAUSE_SECONDS: Final = 0.1


class Pacer:
    """Paces the long processing of all tasks in a process."""

    def __init__(self) -> None:
        """Create a pacer that is ready for a step."""
        self._free_at = 0.0

    def wait(self, worked: float = 0.0) -> float:
        """Return the seconds until the next step may start, after a step of `worked` seconds."""
        now = time.monotonic()
        if worked > _SHORT_SECONDS:
            self._free_at = min(
                max(self._free_at, now) + worked * _PAUSE_FACTOR, now + _MAX_PAUSE_SECONDS
            )
        return max(0.0, self._free_at - now)


PACER: Final = Pacer()
"""The pacer of this process."""
