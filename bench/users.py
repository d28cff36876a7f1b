"""A cache with a million users: memory, and the longest pause of whatever changes it."""

import gc
import random
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from bench.command import Scale, main
from bench.processes import resident_mib
from bench.results import Part, Table, Target
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.lookup import Found
from queuegate_server.identity.options import CacheOptions

_USERS: Final = 1_000_000
_BYTES: Final = 600
_PAUSE: Final = 10.0
_A_LONG_TIME: Final = 1e6


def measure(scale: Scale, _folder: Path) -> Part:
    """Fill a cache, replace a part of it, let all expire, fill it again and forget all."""
    count = _USERS // 10 if scale.is_quick else _USERS
    rng = random.Random(1)
    lists = [tuple(f"group{rng.randrange(300)}" for _ in range(5)) for _ in range(3_000)]
    now = [0.0]
    cache = GroupCache(CacheOptions(max_entries=count), lambda: now[0], lambda: now[0])
    gc.collect()

    def store(first: int, last: int) -> Iterable[Callable[[], object]]:
        for number in range(first, last):
            user, groups = f"user{number:07d}", tuple(rng.choice(lists))
            yield partial(_store, cache, user, groups)

    before = resident_mib()
    pauses = {"fill": _longest(store(0, count))}
    each = (resident_mib() - before) * 2**20 / count
    pauses["evict"] = _longest(store(count, count + count // 5))
    now[0] += _A_LONG_TIME
    pauses["expire"] = _longest(store(0, count // 5))
    _longest(store(0, count))
    parts = cache.invalidate_all()
    pauses["forget all, in parts"] = _longest(lambda: next(parts, 0) for _ in range(count // 1000))
    table = Table(
        "A cache of many users",
        f"`identity.cache.GroupCache`, {count:,} users of {len(lists):,} different lists of 5 "
        "groups. The longest time of one store, or of one part of forgetting all, in processor "
        f"time, the collector's part included. {each:.0f} bytes of resident memory for a user.",
        ("what", "longest pause, ms"),
    )
    for what, pause in pauses.items():
        table.add(what, f"{pause:.2f}")
    longest = max(pauses.values())
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


def _longest(works: Iterable[Callable[[], object]]) -> float:
    """Do all and return the milliseconds of what took longest."""
    longest = 0
    for work in works:
        start = time.thread_time_ns()
        work()
        longest = max(longest, time.thread_time_ns() - start)
    return longest / 1e6


if __name__ == "__main__":
    main(measure, __doc__)
