"""Users who came together are not looked up together again and again."""

import heapq
import random
from collections import Counter

from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.options import CacheOptions
from tests.support.fakes.caches import GROUPS, store_outcome
from tests.support.fakes.clock import ManualClock

USERS = 10_000


def test_users_who_came_within_a_second_are_refreshed_apart(clock: ManualClock) -> None:
    start = clock.now
    cache = GroupCache(CacheOptions(), clock, clock, random.Random(7).random)
    due = [(start + number / USERS, f"u{number}") for number in range(USERS)]
    seconds: Counter[int] = Counter()
    # All are in use all the time: each look-up begins when it is due.
    while due[0][0] < start + 900:
        at, user = due[0]
        clock.now = at
        seconds[int(at - start)] += 1
        heapq.heapreplace(due, (store_outcome(cache, user, GROUPS).refresh_at, user))
    assert seconds.pop(0) == USERS
    assert min(seconds) >= 300 * 0.9 * 0.5 - 1
    assert max(seconds.values()) < 200, "2 % of them in a second"
    later = [seconds[second] for second in range(450, 900)]
    assert max(later) < 2.5 * USERS / (300 * 0.95 * 0.65)
