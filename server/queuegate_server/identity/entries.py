"""The entries of a cache: what one remembers of a user, and the bounded store of them."""

import itertools
import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final
from weakref import WeakValueDictionary

from queuegate_server.identity.resolver import Found, Outcome
from queuegate_server.identity.use_order import UseOrder

NEVER: Final = float("-inf")

_TOUCH_SECONDS: Final = 1.0
"""How exactly the order of use is kept; noting each use would cost more than the look-up."""
_DROPPED_AT_ONCE: Final = 2
"""How many entries of no more use, or beyond the bound, one store drops: more than it adds, few
enough not to stall. Each takes a third of the time of a store, as it is cold memory."""
_MARKED_AT_ONCE: Final = 100
"""How many entries are forgotten in a turn when all are. What is stored together is all over the
tables, so that nearly all memory becomes free with the last few thousand, in blocks of 1 MiB that
go back to the system: in up to 0.1 ms each, and one for every few entries at the very end."""
_ANSWER_TABLES: Final = 64


class CacheEntry:
    """What is known of a user. Only its cache changes it.

    `expires_at` and `refresh_at` are seconds of the monotonic clock, `resolved_at_wall` and
    `expires_at_wall` of the wall clock, for people.
    """

    __slots__ = (
        "expires_at",
        "expires_at_wall",
        "failure",
        "last_use",
        "outcome",
        "quiet_until",
        "refresh_at",
        "resolved_at_wall",
        "user",
    )

    def __init__(
        self,
        user: str,
        outcome: Outcome,
        *,
        resolved_at_wall: float,
        expires_at_wall: float,
        expires_at: float,
        refresh_at: float,
    ) -> None:
        self.user = user
        self.outcome = outcome
        self.resolved_at_wall = resolved_at_wall
        self.expires_at_wall = expires_at_wall
        self.expires_at = expires_at
        """When it expires."""
        self.refresh_at = refresh_at
        """Up to when what was decided with it holds without asking the cache again: the
        moment from which a use starts a refresh, and minus infinity as soon as it is
        replaced, invalidated or evicted."""
        self.failure: CacheEntry | None = None
        """The failed look-up that came after these groups were resolved."""
        self.last_use = 0
        """The number of the use that was noted last, for the order of eviction."""
        self.quiet_until = NEVER
        """Up to when a use need not be noted and nothing else is due either."""

    def renew(self, entry: "CacheEntry") -> None:
        """Hold as long as an entry that says the same."""
        self.resolved_at_wall = entry.resolved_at_wall
        self.expires_at_wall = entry.expires_at_wall
        self.expires_at = entry.expires_at
        self.refresh_at = entry.refresh_at
        self.failure = None

    def __repr__(self) -> str:
        """Return the user and what is known of her."""
        return f"CacheEntry({self.user!r}, {self.outcome!r})"


class Entries:
    """At most `max_entries` entries; the least recently used one makes room.

    An entry is of use until it expires, groups `max_stale` seconds longer. Groups are kept
    apart from the rest, which lives for seconds: in each of the two, whatever was last used
    longest ago is also about the first to be of no more use, so that it can be dropped from
    that end, a few at a time. (cachetools.TLRUCache keeps the exact order of expiry instead:
    with 100 000 users a store then stalled the event loop for up to 0.08 s in steady use,
    and for 1 s after an hour without one.)

    All times are monotonic seconds and given by the caller.
    """

    def __init__(self, max_entries: int, max_stale: float) -> None:
        self.evictions = 0
        self._max_entries = max_entries
        self._max_stale = max_stale
        self._uses = itertools.count(1)
        self.groups: UseOrder[CacheEntry] = UseOrder()
        """The entries with groups. For reading only."""
        self._others: UseOrder[CacheEntry] = UseOrder()

    def reconfigure(self, max_entries: int, max_stale: float) -> None:
        """Use other bounds from now on; what exceeds them goes when something is stored."""
        self._max_entries = max_entries
        self._max_stale = max_stale

    def __len__(self) -> int:
        """Return how many entries are held, some of which may be of no more use."""
        return len(self.groups) + len(self._others)

    def get(self, user: str) -> CacheEntry | None:
        """Return the entry of a user, also if it is of no more use."""
        return self.groups.get(user) or self._others.get(user)

    def stale_until(self, entry: CacheEntry) -> float:
        """Return up to when its groups may be used if the resolver cannot be asked."""
        return entry.expires_at + self._max_stale

    def put(self, entry: CacheEntry, now: float) -> None:
        """Store an entry in place of the one of the same user, as just used."""
        old = self.get(entry.user)
        if old is not None and old is not entry:
            self._drop(old)
        for order in (self.groups, self._others):
            self._drop_useless(order, now)
        self.touch(entry, now)
        for _ in range(min(len(self) - self._max_entries, _DROPPED_AT_ONCE)):
            self._drop(self._least_recently_used())
            self.evictions += 1

    def touch(self, entry: CacheEntry, now: float) -> None:
        """Note that a stored entry is used."""
        self._order(entry).put(entry, next(self._uses))
        entry.quiet_until = min(entry.refresh_at, now + _TOUCH_SECONDS)

    def discard(self, user: str, now: float) -> bool:
        """Drop the entry of a user; say whether there was one that was of use."""
        entry = self.get(user)
        if entry is None:
            return False
        self._drop(entry)
        return now < self._useful_until(entry)

    def clear(self, now: float) -> Iterator[int]:
        """Drop everything. Nothing is found from now on; marking what was, which takes long,
        is left to the iterator, which gives parts of the number of those that were of use.
        """
        dropped = [*self.groups.tables, *self._others.tables]
        self.groups, self._others = UseOrder(), UseOrder()
        return self._mark(dropped, now)

    def _mark(self, dropped: list[OrderedDict[str, CacheEntry]], now: float) -> Iterator[int]:
        entries = _drained(dropped)
        while part := list(itertools.islice(entries, _MARKED_AT_ONCE)):
            for entry in part:
                entry.refresh_at = NEVER
            yield sum(now < self._useful_until(entry) for entry in part)

    def _order(self, entry: CacheEntry) -> UseOrder[CacheEntry]:
        return self.groups if isinstance(entry.outcome, Found) else self._others

    def _drop(self, entry: CacheEntry) -> None:
        entry.refresh_at = NEVER
        self._order(entry).remove(entry)

    def _drop_useless(self, order: UseOrder[CacheEntry], now: float) -> None:
        for _ in range(_DROPPED_AT_ONCE):
            oldest = order.oldest()
            if oldest is None or now < self._useful_until(oldest):
                return
            self._drop(oldest)

    def _least_recently_used(self) -> CacheEntry:
        oldest = (self.groups.oldest(), self._others.oldest())
        return min((entry for entry in oldest if entry is not None), key=lambda e: e.last_use)

    def _useful_until(self, entry: CacheEntry) -> float:
        if not isinstance(entry.outcome, Found):
            return entry.expires_at
        stale_until = self.stale_until(entry)
        if entry.failure is not None:
            return max(stale_until, entry.failure.expires_at)
        return stale_until


def _drained(tables: list[OrderedDict[str, CacheEntry]]) -> Iterator[CacheEntry]:
    """Take all entries out of their tables, and free each table when it is empty."""
    while tables:
        table = tables.pop()
        while table:
            yield table.popitem()[1]


class SharedAnswers:
    """Lets equal group lists be one object: many users have few distinct lists. In many tables
    for the case that they have not; see `use_order`.
    """

    def __init__(self) -> None:
        self._tables: tuple[WeakValueDictionary[tuple[str, ...], Found], ...] = tuple(
            WeakValueDictionary() for _ in range(_ANSWER_TABLES)
        )

    def __len__(self) -> int:
        """Return how many lists are in use."""
        return sum(map(len, self._tables))

    def of(self, outcome: Outcome) -> Outcome:
        """Return the outcome, or an equal one that is in use already."""
        if not isinstance(outcome, Found):
            return outcome
        found = self._tables[hash(outcome.groups) % _ANSWER_TABLES]
        shared = found.get(outcome.groups)
        if shared is None:
            shared = Found(tuple(sys.intern(name) for name in outcome.groups))
            found[shared.groups] = shared
        return shared
