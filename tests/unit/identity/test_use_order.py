"""The order of use: that of one ordered table, whatever happens, although there are many."""

from collections import OrderedDict
from unittest.mock import patch

import hypothesis
from hypothesis import strategies as st

from queuegate_server.identity import use_order
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import Found, NoSuchUser
from queuegate_server.identity.use_order import UseOrder
from tests.support.fakes.caches import GROUPS, answer, build
from tests.support.fakes.clock import ManualClock


class Entry:
    """What is ordered."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.last_use = 0


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "evict"]), st.sampled_from("abcdefghij")),
    max_size=60,
)


@patch.object(use_order, "TABLES", 4)
@hypothesis.given(STEPS)
def test_is_that_of_one_table(steps: list[tuple[str, str]]) -> None:
    order: UseOrder[Entry] = UseOrder()
    one: OrderedDict[str, Entry] = OrderedDict()
    for use, (step, user) in enumerate(steps, start=1):
        if step == "put":
            entry = one.setdefault(user, Entry(user))
            one.move_to_end(user)
            order.put(entry, use)
        elif step == "evict" and one:
            oldest = order.oldest()
            assert oldest is one.popitem(last=False)[1]
            order.remove(oldest)
        elif user in one:
            order.remove(one.pop(user))
        assert len(order) == len(one)
        assert order.get(user) is one.get(user)
        assert order.oldest() is next(iter(one.values()), None)


def test_a_lower_bound_is_reached_bit_by_bit(clock: ManualClock) -> None:
    cache = build(clock, CacheOptions(max_entries=1000))
    for number in range(1000):
        answer(cache, f"user{number}", GROUPS)
    cache.reconfigure(CacheOptions(max_entries=10))
    answer(cache, "last", GROUPS)
    assert 990 < cache.stats().entries < 1000
    for number in range(1000):
        answer(cache, f"more{number}", GROUPS)
    statistics = cache.stats()
    assert (statistics.entries, statistics.evictions) == (10, 1991)
    assert cache.get("more999", clock.now) is not None


def test_the_same_groups_again_renew_what_is_known(clock: ManualClock) -> None:
    cache = build(clock)
    first = answer(cache, "sue", Found(("g1", "g2")))
    clock.advance(200)
    assert answer(cache, "sue", Found(("g1", "g2"))) is first
    assert first.expires_at == clock.now + 300
    clock.advance(301)
    assert answer(cache, "sue", Found(("g1", "g2"))) is first
    assert cache.get("sue", clock.now) is first
    cache.invalidate(["sue"])
    assert answer(cache, "sue", Found(("g1", "g2"))) is not first
    assert first.refresh_at <= clock.now
    assert answer(cache, "sue", NoSuchUser("gone")) is not first
