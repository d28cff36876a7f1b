"""Compile and evaluate the ACLs from a queue up to the root, for one kind of access.

Wildcards and users are evaluated before groups, at all levels, so a listed user gets access even
while the directory is down. A service acting for the user is evaluated only if nothing else grants
access, or while the groups are unknown. If several levels match, the level nearest to the queue
wins.
"""

import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.decision import ACLS_DISABLED, NO_MATCH, Decision, Reason

CLUSTER: Final = ""
"""The queue path that represents the cluster and its administrators."""
MISSES_PER_INDEX: Final = 4
MAX_INDEX_NAMES: Final = 2_000
"""The maximum number of names in a chain's index. Merging more names would take longer than the
index saves."""
MAX_INDEXED_NAMES: Final = 1_500_000
"""The maximum number of names in all indexes of a partition. Indexes of this size take about 60
MiB."""

_USER: Final = Reason.USER
_GROUP: Final = Reason.GROUP

Index: TypeAlias = tuple[dict[str, str], dict[str, str]]
"""Two mappings, for users and for groups, from a name to the path of the nearest queue that lists
it."""

_NO_NAMES: Final[Index] = ({}, {})
_NOBODY: Final[frozenset[str]] = frozenset()


class ChainIndexes:
    """Builds indexes for a partition's chains, up to a size limit.

    Every fourth evaluation without an index builds an index. Beyond the limit, the oldest indexes
    are evicted. As a result, frequently used queues soon get an index, and a scan of many queues
    builds few useless indexes.
    """

    __slots__ = ("_chains", "_misses", "_names")

    def __init__(self) -> None:
        # Use weak references to avoid reference cycles, because the chains refer to this object.
        self._chains: deque[tuple[weakref.ref[Chain], int]] = deque()
        self._names = 0
        self._misses = 0

    def note_miss(self, chain: "Chain") -> None:
        """Record an evaluation without an index. Every fourth call builds an index.

        The index of the level above is built first, because siblings share it.
        """
        self._misses += 1
        if self._misses % MISSES_PER_INDEX == 0:
            if chain.above.index is None:
                chain = chain.above
            if chain.size <= MAX_INDEX_NAMES:
                chain.build_index()
                self._chains.append((weakref.ref(chain), chain.size))
                self._names += chain.size
        while self._names > MAX_INDEXED_NAMES:
            reference, size = self._chains.popleft()
            self._names -= size
            if (oldest := reference()) is not None:
                oldest.index = None


class OwnLevel(NamedTuple):
    """The names that a queue's own ACLs add to a chain. An ACL that allows everyone ends the
    chain.
    """

    end: Decision | None = None
    """The decision that ends the chain, if an ACL allows everyone."""
    users: frozenset[str] = _NOBODY
    groups: frozenset[str] = _NOBODY
    services: frozenset[str] = _NOBODY


def own_level(queue: str, acls: Iterable[Acl], otherwise: Decision | None) -> OwnLevel:
    """Return the level defined by a queue's own ACLs.

    Args:
        queue: The queue path.
        acls: The queue's ACLs in evaluation order.
        otherwise: The parent chain's `otherwise`.
    """
    if otherwise is ACLS_DISABLED:
        return OwnLevel()
    end = None
    users = groups = services = _NOBODY
    for acl in acls:
        if acl.allows_all:
            reason = Reason.WILDCARD if queue else Reason.CLUSTER_ADMIN
            end = otherwise = Decision(True, reason, queue, WILDCARD)
            break
        users = _union(users, acl.users)
        groups = _union(groups, acl.groups)
        services = _union(services, acl.proxies)
    if otherwise is not None and otherwise.allowed:
        groups = services = _NOBODY
    return OwnLevel(end, users, groups, services)


class Chain:
    """The names listed at one level of the queue tree, linked to the levels above it.

    Queues without ACLs share their parent's chain. Immutable except for the index, which merges the
    names at all levels of a frequently evaluated chain.
    """

    __slots__ = (
        "__weakref__",
        "above",
        "groups",
        "index",
        "indexes",
        "otherwise",
        "queue",
        "services",
        "size",
        "users",
    )

    above: "Chain"
    """The level above. Not set on a ChainEnd, whose index always exists."""

    def __init__(
        self,
        above: "Chain",
        queue: str,
        users: frozenset[str],
        groups: frozenset[str] = _NOBODY,
        services: frozenset[str] = _NOBODY,
    ) -> None:
        self.above = above
        self.queue = queue
        """The path of the queue that lists these names."""
        self.users = users
        self.groups = groups
        """The groups granted access by this level; empty if no decision depends on them."""
        self.services = services
        """The services granted access on behalf of any user (Hadoop's `~name`); empty if no
        decision depends on them.
        """
        self.otherwise: Decision | None = None if groups else above.otherwise
        """The decision if no user matches; None if it depends on the groups."""
        self.size: int = len(users) + len(groups) + above.size
        self.index: Index | None = None
        self.indexes: ChainIndexes = above.indexes

    def extend(self, queue: str, acls: Sequence[Acl]) -> "Chain":
        """Return the chain of a child queue, given its ACLs in evaluation order."""
        end, users, groups, services = own_level(queue, acls, self.otherwise)
        above = self if end is None else ChainEnd(end, self.indexes)
        if not (users or groups or services):
            return above
        return Chain(above, queue, users, groups, services)

    def levels(self) -> "Iterator[Chain]":
        """Yield this level and all levels above it, except the ChainEnd."""
        level = self
        while not isinstance(level, ChainEnd):
            yield level
            level = level.above

    def build_index(self) -> None:
        """Build the index from the names at this level and all levels above it."""
        self.index = self.merged()

    def merged(self) -> Index:
        """Return an index of the names listed at this level or above."""
        if self.index is not None:
            return self.index
        levels = [self]
        while (index := levels[-1].above.index) is None:
            levels.append(levels[-1].above)
        users, groups = map(dict, index)
        for level in reversed(levels):
            users.update(dict.fromkeys(level.users, level.queue))
            groups.update(dict.fromkeys(level.groups, level.queue))
        return users, groups

    def decide(self, user: str, groups: Sequence[str] | None, service: str = "") -> Decision | None:
        """Evaluate the ACLs.

        Args:
            user: The user name.
            groups: All of the user's groups, or None if they are unknown.
            service: The service acting for the user, if any.

        Returns:
            The decision; None if `groups` is None and the decision depends on them.
        """
        if service:
            decision = self.decide(user, groups)
            is_granted = decision is not None and decision.allowed
            return decision if is_granted else self._service_grant(service) or decision
        level = self
        if level.index is None:
            self.indexes.note_miss(self)
        while (index := level.index) is None:
            if user in level.users:
                return _grant(_USER, level.queue, user)
            level = level.above
        users, listed = index
        if user in users:
            return _grant(_USER, users[user], user)
        if self.otherwise is not None or groups is None:
            return self.otherwise
        below = self
        while below is not level:
            if not below.groups.isdisjoint(groups):
                return _grant(_GROUP, below.queue, next(filter(below.groups.__contains__, groups)))
            below = below.above
        return _match_group(listed, groups)

    def _service_grant(self, service: str) -> Decision | None:
        """Return the grant made by the nearest level that lists the service, or None."""
        for level in self.levels():
            if service in level.services:
                return _grant(_USER, level.queue, f"~{service}")
        return None


def _match_group(listed: dict[str, str], groups: Sequence[str]) -> Decision:
    nearest = None
    for group in groups:
        if group in listed:
            queue = listed[group]
            # All candidates are on one branch of the tree, so the longest path is the nearest.
            if nearest is None or len(queue) > len(nearest):
                nearest, subject = queue, group
    return NO_MATCH if nearest is None else _grant(_GROUP, nearest, subject)


class ChainEnd(Chain):
    """The end of a chain. Its `otherwise` is the decision if no level matches."""

    __slots__ = ()

    def __init__(self, otherwise: Decision, indexes: ChainIndexes) -> None:
        self.queue = CLUSTER
        self.users = self.groups = self.services = _NOBODY
        self.otherwise = otherwise
        self.size = 0
        self.index = _NO_NAMES
        self.indexes = indexes


def _grant(reason: Reason, queue: str, subject: str) -> Decision:
    if not queue:
        reason = Reason.CLUSTER_ADMIN
    # Three times as fast as the NamedTuple constructor.
    return tuple.__new__(Decision, (True, reason, queue, subject))


def _union(first: frozenset[str], second: frozenset[str]) -> frozenset[str]:
    """Return the union of two sets. If either is empty, return the other without copying it."""
    return first | second if first and second else first or second
