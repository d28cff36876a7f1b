"""Keeps the pauses of the cyclic garbage collector short, however much the process remembers.

A collection looks at all objects of its generations while every thread waits: with a million
cached users, which never are in cycles, for 0.15 s. By itself it may also come late: where each
new entry replaces an old one it sees no growth. So new objects are collected at short intervals,
and what has survived and is much is put aside and not looked at again. That is still freed as soon
as nothing refers to it. Only what becomes part of a cycle later stays; no kind of call was seen
to leave such a thing, answered, refused or cancelled. Lest it add up over months all the same,
everything is looked at once in a long while, which takes its time.
"""

import asyncio
import gc
from typing import Final

_SECONDS: Final = 0.1
_MOST: Final = 2_000
"""Old objects above which they are put aside. A full collection looks at these and at what
comes in one interval, in 0.1 to 1 µs each: most where the cache replaces entries that are all
over the memory. With a look at longer intervals, 20 000 objects took 19 ms."""
_MOST_TIMES: Final = 10_000
"""Objects may be put aside so often before all are looked at: after an hour or two of nothing
but new questions."""
_OLDEST: Final = 2
"""The generation of the collector that is looked at least often."""


async def short_collections() -> None:
    """Collect all the time, until cancelled. Does nothing while a policy is being loaded."""
    times = 0
    while True:
        await asyncio.sleep(_SECONDS)
        if gc.isenabled():
            gc.collect(_OLDEST - 1)
            await asyncio.sleep(0)  # what is ready goes first
        if gc.isenabled() and len(gc.get_objects(_OLDEST)) > _MOST:
            times += 1
            if times >= _MOST_TIMES:
                times = 0
                gc.unfreeze()
            gc.collect()
            gc.freeze()
