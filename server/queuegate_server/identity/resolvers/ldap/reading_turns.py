"""When the event loop reads long answers of directories: in turns, with rests for calls."""

import time
from typing import Final

READING_SECONDS: Final = 0.003
"""How long messages of one directory are read before a rest."""
LONG_BYTES: Final = 65_536
"""The size of an answer from which its connection waits for its turn."""
_REST_SECONDS: Final = 0.005
"""The least rest after a turn."""


class ReadingTurns:
    """The turns of all connections with long answers, which together rest as long as they read."""

    def __init__(self) -> None:
        """Start without turns."""
        self._last = 0.0

    def wait(self) -> float:
        """Return the seconds until the next turn; 0 if no connection has one."""
        return max(0.0, self._last - time.monotonic())

    def next(self, begin: float) -> float:
        """Return the seconds until a connection that has read since `begin` may continue."""
        now = time.monotonic()
        self._last = max(now, self._last) + max(_REST_SECONDS, now - begin)
        return self._last - now


TURNS: Final = ReadingTurns()
"""Those of this process."""
