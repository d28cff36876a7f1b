"""Processes large directory responses in short steps. gRPC calls are served in the pauses.

gRPC delivers one call at a time, and each delivery takes several iterations of the event loop.
Therefore, pauses are longer than steps, and all connections and lookups pause together.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

LONG_BYTES: Final = 65_536
"""The size in bytes above which responses are read in steps."""
STEP_SECONDS: Final = 0.003
"""The maximum duration of a step."""
FREE_SECONDS: Final = 0.001
"""Processing is split into steps only after this time. Typical responses take less."""
_SHORT_SECONDS: Final = 0.0003
"""No pause follows a step shorter than this. Typical responses take less."""
_PAUSE_FACTOR: Final = 2
"""How many times longer a pause is than the step before it."""
_MAX_PAUSE_SECONDS: Final = 0.1


class Pacer:
    """Determines when tasks in the process may start their next steps."""

    def __init__(self) -> None:
        self._free_at = 0.0

    def wait(self, worked: float = 0.0) -> float:
        """Record a step of `worked` seconds; return the seconds to wait before the next step."""
        now = time.monotonic()
        if worked > _SHORT_SECONDS:
            self._free_at = min(
                max(self._free_at, now) + worked * _PAUSE_FACTOR, now + _MAX_PAUSE_SECONDS
            )
        return max(0.0, self._free_at - now)


PACER: Final = Pacer()


async def take_turn() -> None:
    """Wait until the next step may start."""
    while (pause := PACER.wait()) > 0:  # noqa: ASYNC110 - waits for a time
        await asyncio.sleep(pause)


async def in_steps(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield items, pausing after each step of a few milliseconds."""
    start = time.monotonic()
    end = start + FREE_SECONDS
    for item in items:
        if (now := time.monotonic()) > end:
            PACER.wait(now - start)
            await take_turn()
            start = time.monotonic()
            end = start + STEP_SECONDS
        yield item
    PACER.wait(time.monotonic() - start)
