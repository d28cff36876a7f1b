"""The beat of all that is done every few seconds: an idle process wakes up once for all of it."""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Final

BEAT_SECONDS: Final = 5.0


def next_beat(seconds: float = BEAT_SECONDS) -> float:
    """Return the time of the next beat on the event loop's clock: a multiple of `seconds`."""
    return (math.floor(asyncio.get_running_loop().time() / seconds) + 1) * seconds


async def beats(seconds: float = BEAT_SECONDS) -> AsyncIterator[None]:
    """Yield at each beat."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(next_beat(seconds) - loop.time())
        yield
