"""Properties of the cache: an entry by itself shows whether it is still valid."""

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from queuegate_server.identity.cache import GroupCache, Reservation
from queuegate_server.identity.cache_shards import CacheEntry
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import Found, LookupFailed, NoSuchUser, Outcome
from tests.support.fakes.caches import invalidate
from tests.support.fakes.clock import ManualClock

USERS = st.sampled_from("abcdef")
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Found, st.sampled_from([(), ("g",), ("g", "h")])),
    st.just(NoSuchUser("no")),
    st.just(LookupFailed("down")),
)
SECONDS = st.sampled_from([0.0, 0.5, 1.0, 4.0, 5.0, 29.0, 30.0, 80.0, 100.0, 240.0, 300.0, 1000.0])


class CacheMachine(RuleBasedStateMachine):
    """Compares the cache with a list of everything that was ever answered."""

    reservations: Bundle[Reservation] = Bundle("reservations")

    @initialize(max_entries=st.integers(1, 5), max_stale=st.sampled_from([0.0, 2.0, 500.0]))
    def build(self, max_entries: int, max_stale: float) -> None:
        self.clock = ManualClock()
        self.options = CacheOptions(positive_ttl=100, max_entries=max_entries, max_stale=max_stale)
        self.chances = 0
        self.cache = GroupCache(self.options, self.clock, self.clock, self._chance)
        self.seen = list[CacheEntry]()
        self.last_definite: dict[str, Outcome] = {}
        """The last definite answer about each user, unless invalidated since."""
        self.resolved_at: dict[str, float] = {}

    def _chance(self) -> float:
        self.chances += 1
        return self.chances * 0.37 % 1

    @rule(target=reservations, user=USERS)
    def begin(self, user: str) -> Reservation:
        return self.cache.reserve(user)

    @rule(reservation=consumes(reservations), outcome=OUTCOMES)
    def store(self, reservation: Reservation, outcome: Outcome) -> None:
        outdated = reservation.outdated
        entry = self.cache.commit(reservation, outcome)
        assert entry.outcome == outcome
        self.seen.append(entry)
        if not outdated and not isinstance(outcome, LookupFailed):
            self.last_definite[reservation.user] = outcome
            self.resolved_at[reservation.user] = self.clock.now
        if outdated:
            assert entry.refresh_at <= self.clock.now

    @rule(reservation=consumes(reservations))
    def abandon(self, reservation: Reservation) -> None:
        self.cache.abort(reservation)

    @rule(user=USERS)
    def use(self, user: str) -> None:
        self.cache.get(user, self.clock.now)
        self.cache.stale_if_error(user)
        self.cache.negative_entry(user)

    @rule(users=st.lists(USERS, min_size=1, max_size=3))
    def invalidate_some(self, users: list[str]) -> None:
        self.cache.invalidate(users)
        self._forgotten(set(users))

    @rule(reservations=st.lists(consumes(reservations), max_size=2))
    def invalidate_all(self, reservations: list[Reservation]) -> None:
        invalidate(self.cache, ())
        self._forgotten(set("abcdef"))
        for reservation in reservations:
            assert reservation.outdated
            assert self.cache.commit(reservation, Found(("late",))).refresh_at <= self.clock.now

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def only_what_the_cache_would_answer_is_fresh(self) -> None:
        now = self.clock.now
        for entry in self.seen:
            if entry.refresh_at > now:
                assert now < entry.expires_at
                assert self.cache.get(entry.user, now) is entry

    @invariant()
    def what_the_cache_answers_is_the_last_definite_answer(self) -> None:
        now = self.clock.now
        for user in "abcdef":
            entry = self.cache.get(user, now)
            if entry is None or isinstance(entry.outcome, LookupFailed):
                continue
            assert entry.outcome == self.last_definite[user]
            limit = 100 if isinstance(entry.outcome, Found) else 30
            assert now < self.resolved_at[user] + limit

    @invariant()
    def groups_are_used_despite_failures_within_their_limit_only(self) -> None:
        now = self.clock.now
        for user in "abcdef":
            groups = self.cache.stale_if_error(user)
            if groups is None:
                continue
            entry, stale = groups
            assert entry.outcome == self.last_definite[user]
            assert isinstance(entry.outcome, Found)
            assert now < self.resolved_at[user] + 100 + self.options.max_stale
            assert stale is (now >= entry.expires_at)

    @invariant()
    def the_bound_holds(self) -> None:
        for kind in (self.cache.stats.groups, self.cache.stats.negative):
            assert 0 <= kind.entries <= self.options.max_entries

    def _forgotten(self, users: set[str]) -> None:
        for user in users:
            self.last_definite.pop(user, None)
            self.resolved_at.pop(user, None)
        for entry in self.seen:
            if entry.user in users:
                assert entry.refresh_at <= self.clock.now


TestCache = CacheMachine.TestCase
TestCache.settings = hypothesis.settings(max_examples=100, stateful_step_count=40, deadline=None)
