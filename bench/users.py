"""A cache of many users: its memory, and the longest pause of each kind of change."""

import asyncio
import gc
import mmap
import multiprocessing
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import uvloop

from bench.command import Scale, main
from bench.processes import resident_mib
from bench.results import Part, Table, Target, spread
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.runtime import resources
from queuegate_server.runtime.single_flight import Flight

_GOALS: Final[dict[int, float | None]] = {200_000: 10.0, 1_000_000: None}
"""The target for the longest pause, in milliseconds, by the number of users."""
_BYTES: Final = 600
_A_LONG_TIME: Final = 1e6
_PER_SECOND: Final = 20_000
"""Twice the rate at which a directory answers."""
_AT_ONCE: Final = 50
_SHARED_LISTS: Final = 3_000
_ROUNDS: Final = 3


class _Pause(NamedTuple):
    """The milliseconds of one piece of work, and between two turns of the event loop."""

    work: float
    loop: float


def measure(scale: Scale, _folder: Path) -> Part:
    """Fill a cache, replace a part, let everything expire, fill it again, and clear it."""
    # A separate process for each number of users, because memory used before would not count.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as processes:
        parts = list(processes.map(partial(_measure, scale), _GOALS))
    return Part(
        [table for part in parts for table in part.tables],
        [target for part in parts for target in part.targets],
    )


def _measure(scale: Scale, users: int) -> Part:
    count = users // 10 if scale.is_quick else users
    _touch(count * _BYTES)
    gc.freeze()  # as in the server after loading a policy
    resources.configure_gc()
    return uvloop.run(_measure_cache(count, min(scale.rounds, _ROUNDS), _GOALS[users]))


async def _measure_cache(count: int, rounds: int, goal: float | None) -> Part:
    before = resident_mib()
    rng = random.Random(1)
    lists = [tuple(f"group{rng.randrange(300)}" for _ in range(5)) for _ in range(_SHARED_LISTS)]
    pauses: dict[str, list[_Pause]] = {}
    each = 0.0
    for _ in range(rounds):
        cache = _Cache(count, lists)
        pause_of = {"fill": await _longest(cache.store(0, count))}
        # In later rounds there is memory left from earlier ones.
        each = each or (resident_mib() - before) * 2**20 / count
        pause_of["evict"] = await _longest(cache.store(count, count + count // 5))
        pause_of["renew, other groups"] = await _longest(cache.store(count, count + count // 5))
        cache.let_expire()
        pause_of["expire"] = await _longest(cache.store(0, count // 5))
        pause_of["forget all, in parts"] = await _longest(cache.forget(count // 50), at_once=1)
        for what, pause in pause_of.items():
            pauses.setdefault(what, []).append(pause)
    table = Table(
        f"A cache of {count:,} users",
        f"`identity.cache.GroupCache`, {count:,} users of {len(lists):,} different lists of 5 "
        f"groups, {_PER_SECOND:,} stores a second. The longest processor time of one store, or of "
        "one part of forgetting all; and how late the event loop was, including garbage "
        f"collection, where each turn does up to {_AT_ONCE} stores. The collector's thresholds "
        "are the server's (`runtime/resources.py`). The longest store is one that makes one of "
        "the 64 shards grow. The required memory is touched beforehand, and returned to the "
        "kernel: a virtual machine's host allocates a page when it is first touched, and took up "
        "to 30 ms for 32 pages, or 20 to 50 ms in one turn of some rounds. Interrupts that the "
        f"kernel handles meanwhile are included. {rounds} rounds. {each:.0f} bytes of resident "
        "memory per user.",
        ("what", "longest work, ms", "longest turn of the loop, ms"),
    )
    for what, found_in in pauses.items():
        works, turns = ([*one] for one in zip(*found_in, strict=True))
        table.add(what, spread(works, ".2f"), spread(turns, ".2f"))
    longest = median(
        max(pause.loop for pause in in_round) for in_round in zip(*pauses.values(), strict=True)
    )
    targets = [
        Target(f"bytes for each of {count:,} users", f"< {_BYTES}", f"{each:.0f}", each < _BYTES)
    ]
    if goal is not None:
        what = f"longest pause of a cache of {count:,} users, median of {rounds} rounds"
        targets.append(Target(what, f"< {goal:.0f} ms", f"{longest:.1f} ms", longest < goal))
    return Part([table], targets)


def _touch(size: int) -> None:
    """Use `size` bytes of memory once and free them, so that the host of a virtual machine has
    really allocated them.
    """
    with mmap.mmap(-1, size) as memory:
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = 1


class _Cache:
    """A cache whose clock stands still, and its changes."""

    def __init__(self, count: int, lists: Sequence[tuple[str, ...]]) -> None:
        """Create a cache of this many users, who share these groups."""
        self._now = 0.0
        self._rng = random.Random(2)
        self._lists = lists
        options = CacheOptions(max_entries=count)
        self._cache = GroupCache(options, lambda: self._now, lambda: self._now)

    def store(self, first: int, last: int) -> Iterator[Callable[[], object]]:
        """Yield functions that each store one user, from `first` up to but not including `last`."""
        for number in range(first, last):
            user, groups = f"user{number:07d}", tuple(self._rng.choice(self._lists))
            yield partial(_store, self._cache, user, groups)

    def let_expire(self) -> None:
        """Make all entries expire."""
        self._now += _A_LONG_TIME

    def forget(self, times: int) -> Iterator[Callable[[], object]]:
        """Yield functions that together remove all users."""
        parts = self._cache.invalidate_all()
        return (partial(next, parts, 0) for _ in range(times))


def _store(cache: GroupCache, user: str, groups: tuple[str, ...]) -> None:
    cache.store(Flight(user, 0.0, []), KnownUser(groups))


async def _longest(works: Iterable[Callable[[], object]], at_once: int = _AT_ONCE) -> _Pause:
    """Call all, `at_once` per turn of the loop, and return the longest times.

    Turns are measured in this thread's processor time, so other work on the machine matters less.
    Nothing here waits for anything but the clock.
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
