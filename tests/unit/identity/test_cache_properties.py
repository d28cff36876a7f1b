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

from queuegate_server.identity.cache import CacheEntry, GroupCache
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from queuegate_server.runtime.single_flight import Flight
from tests.support.fakes.caches import Questions, get, negative_entry, stale_if_error
from tests.support.fakes.clock import ManualClock

USERS = st.sampled_from("abcdef")
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(KnownUser, st.sampled_from([(), ("g",), ("g", "h")])),
    st.just(NoSuchUser("no")),
    st.just(LookupFailure("down")),
)
SECONDS = st.sampled_from([0.0, 0.5, 1.0, 4.0, 5.0, 29.0, 30.0, 80.0, 100.0, 240.0, 300.0, 1000.0])


class CacheMachine(RuleBasedStateMachine):
    """Compares the cache with a list of everything that was ever answered."""

    flights: Bundle[Flight] = Bundle("flights")

    @initialize(max_entries=st.integers(1, 5), max_stale=st.sampled_from([0.0, 2.0, 500.0]))
    def build(self, max_entries: int, max_stale: float) -> None:
        self.clock = ManualClock()
        self.options = CacheOptions(positive_ttl=100, max_entries=max_entries, max_stale=max_stale)
        self.chances = 0
        self.cache = GroupCache(self.options, self.clock, self.clock, self._chance)
        self.questions = Questions(self.cache)
        self.seen = list[CacheEntry]()
        self.last_definite: dict[str, Outcome] = {}
        """The last definite answer about each user, unless invalidated since."""
        self.resolved_at: dict[str, float] = {}

    def _chance(self) -> float:
        self.chances += 1
        return self.chances * 0.37 % 1

    @rule(target=flights, user=USERS)
    def begin(self, user: str) -> Flight:
        return self.questions.begin(user)

    @rule(flight=consumes(flights), outcome=OUTCOMES)
    def store(self, flight: Flight, outcome: Outcome) -> None:
        outdated = flight.is_outdated
        entry = self.questions.answer(flight, outcome)
        assert entry.outcome == outcome
        self.seen.append(entry)
        if not outdated and not isinstance(outcome, LookupFailure):
            self.last_definite[flight.key] = outcome
            self.resolved_at[flight.key] = self.clock.now
        if outdated:
            assert entry.fresh_until <= self.clock.now

    @rule(flight=consumes(flights))
    def abandon(self, flight: Flight) -> None:
        self.questions.give_up(flight)

    @rule(user=USERS)
    def use(self, user: str) -> None:
        get(self.cache, user)
        stale_if_error(self.cache, user)
        negative_entry(self.cache, user)

    @rule(users=st.lists(USERS, min_size=1, max_size=3))
    def invalidate_some(self, users: list[str]) -> None:
        self.questions.invalidate(users)
        self._forgotten(set(users))

    @rule(flights=st.lists(consumes(flights), max_size=2))
    def invalidate_all(self, flights: list[Flight]) -> None:
        self.questions.invalidate(())
        self._forgotten(set("abcdef"))
        for flight in flights:
            assert flight.is_outdated
            assert self.questions.answer(flight, KnownUser(("late",))).fresh_until <= self.clock.now

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def only_what_the_cache_would_answer_is_fresh(self) -> None:
        now = self.clock.now
        for entry in self.seen:
            if entry.fresh_until > now:
                assert now < entry.expires_at
                assert get(self.cache, entry.user) is entry

    @invariant()
    def what_the_cache_answers_is_the_last_definite_answer(self) -> None:
        now = self.clock.now
        for user in "abcdef":
            entry = get(self.cache, user)
            if entry is None or isinstance(entry.outcome, LookupFailure):
                continue
            assert entry.outcome == self.last_definite[user]
            limit = 100 if isinstance(entry.outcome, KnownUser) else 30
            assert now < self.resolved_at[user] + limit

    @invariant()
    def groups_are_used_despite_failures_within_their_limit_only(self) -> None:
        now = self.clock.now
        for user in "abcdef":
            groups = stale_if_error(self.cache, user)
            if groups is None:
                continue
            entry, stale = groups
            assert entry.outcome == self.last_definite[user]
            assert isinstance(entry.outcome, KnownUser)
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
                assert entry.fresh_until <= self.clock.now


TestCache = CacheMachine.TestCase
TestCache.settings = hypothesis.settings(max_examples=100, stateful_step_count=40, deadline=None)
