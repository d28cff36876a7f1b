"""A cache with a million users: memory, and the longest pause of whatever changes it."""

import asyncio
import gc
import random
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import uvloop

from bench.command import Scale, main
from bench.processes import resident_mib
from bench.results import Part, Table, Target
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.lookup import Found
from queuegate_server.identity.options import CacheOptions
from queuegate_server.short_collections import short_collections

_USERS: Final = 1_000_000
_BYTES: Final = 600
_PAUSE: Final = 10.0
_A_LONG_TIME: Final = 1e6
_PER_SECOND: Final = 20_000
"""Twice of what a directory answers."""
_AT_ONCE: Final = 50
_SHARED_LISTS: Final = 3_000


class _Pause(NamedTuple):
    """Milliseconds: of one piece of work, and between two turns of the event loop."""

    work: float
    loop: float


def measure(scale: Scale, _folder: Path) -> Part:
    """Fill a cache, replace a part of it, let all expire, fill it again and forget all."""
    return uvloop.run(_measure(_USERS // 10 if scale.is_quick else _USERS))


async def _measure(count: int) -> Part:
    gc.freeze()  # as in the server, after a policy was loaded
    collecting = asyncio.create_task(short_collections())
    rng = random.Random(1)
    lists = [tuple(f"group{rng.randrange(300)}" for _ in range(5)) for _ in range(_SHARED_LISTS)]
    now = [0.0]
    cache = GroupCache(CacheOptions(max_entries=count), lambda: now[0], lambda: now[0])

    def store(first: int, last: int) -> Iterator[Callable[[], object]]:
        for number in range(first, last):
            user, groups = f"user{number:07d}", tuple(rng.choice(lists))
            yield partial(_store, cache, user, groups)

    before = resident_mib()
    pauses = {"fill": await _longest(store(0, count))}
    each = (resident_mib() - before) * 2**20 / count
    pauses["evict"] = await _longest(store(count, count + count // 5))
    pauses["renew, other groups"] = await _longest(store(count, count + count // 5))
    now[0] += _A_LONG_TIME
    pauses["expire"] = await _longest(store(0, count // 5))
    parts = cache.invalidate_all()
    forget = (partial(next, parts, 0) for _ in range(count // 100))
    pauses["forget all, in parts"] = await _longest(forget, at_once=1)
    collecting.cancel()
    table = Table(
        "A cache of many users",
        f"`identity.cache.GroupCache`, {count:,} users of {len(lists):,} different lists of 5 "
        f"groups, {_PER_SECOND:,} stores a second. The longest time of one store, or of one part "
        f"of forgetting all, in processor time; and by how much the event loop was late, the part "
        f"of the collector included, where each turn does up to {_AT_ONCE} stores. Old objects "
        "are put aside of the collector in thousands (`short_collections.py`): 20,000 at once, "
        "all over the memory after many entries were replaced, took it 19 ms. "
        f"{each:.0f} bytes of resident memory for a user.",
        ("what", "longest work, ms", "longest turn of the loop, ms"),
    )
    for what, pause in pauses.items():
        table.add(what, f"{pause.work:.2f}", f"{pause.loop:.2f}")
    longest = max(pause.loop for pause in pauses.values())
    return Part(
        [table],
        [
            Target("bytes for a cached user", f"< {_BYTES}", f"{each:.0f}", each < _BYTES),
            Target(
                f"longest pause of a cache of {count:,} users",
                f"< {_PAUSE:.0f} ms",
                f"{longest:.1f} ms",
                longest < _PAUSE,
            ),
        ],
    )


def _store(cache: GroupCache, user: str, groups: tuple[str, ...]) -> None:
    cache.store(cache.begin(user), Found(groups))


async def _longest(works: Iterable[Callable[[], object]], at_once: int = _AT_ONCE) -> _Pause:
    """Do all, so many in each turn of the loop, and return what took longest.

    Turns are measured in processor time of this thread: what else the machine does then
    matters less, and nothing here waits for anything but the clock.
    """
    longest_work = longest_turn = 0
    begin = time.perf_counter()
    turn = time.thread_time_ns()
    for done, work in enumerate(works, start=1):
        start = time.thread_time_ns()
        work()
        longest_work = max(longest_work, time.thread_time_ns() - start)
        if done % at_once == 0:
            early = begin + done / _PER_SECOND - time.perf_counter()
            await asyncio.sleep(max(0.0, early))
            ended = time.thread_time_ns()
            longest_turn = max(longest_turn, ended - turn)
            turn = ended
    return _Pause(longest_work / 1e6, longest_turn / 1e6)


if __name__ == "__main__":
    main(measure, __doc__)
