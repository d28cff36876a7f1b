"""Keeps the pauses of the cyclic garbage collector short, however much the process remembers.

A collection looks at all objects of its generations while every thread waits: with a million
cached users, which never are in cycles, for 0.15 s. By itself it may also come late: where each
new entry replaces an old one it sees no growth. So new objects are collected at short intervals,
and what has survived and is much is put aside and not looked at again. That is still freed as soon
as nothing refers to it. Only what becomes part of a cycle later stays, such as calls under way
at that moment; a cache that keeps its size and its groups adds nothing. So that this does not
add up over months, everything is looked at once in a long while, which takes its time.
"""

import asyncio
import gc
from typing import Final

_SECONDS: Final = 0.1
_YOUNG_IN_TURN: Final = 5
"""So many collections of what is new go before a look at how much is old."""
_MOST: Final = 15_000
"""Old objects that a full collection may look at, in 0.1 to 0.5 µs each. Where nothing but new
questions is asked, so many answers are remembered every few seconds."""
_MOST_TIMES: Final = 1_000
"""Objects may be put aside so often before all are looked at: after an hour of nothing but new
questions, in which up to 20 MiB would have stayed."""
_OLDEST: Final = 2


async def short_collections() -> None:
    """Collect all the time, until cancelled. Does nothing while a policy is being loaded."""
    times = 0
    while True:
        for _ in range(_YOUNG_IN_TURN):
            await asyncio.sleep(_SECONDS)
            if gc.isenabled():
                gc.collect(_OLDEST - 1)
        if gc.isenabled() and len(gc.get_objects(_OLDEST)) > _MOST:
            times += 1
            if times >= _MOST_TIMES:
                times = 0
                gc.unfreeze()
            gc.collect()
            gc.freeze()
