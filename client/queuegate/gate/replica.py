"""A gate's copy of the policies and of users' groups.

One thread changes the copy, and any thread may decide from it. Everything that a decision depends
on except users' groups, namely policies and rights, is one object, `state`, which each change
replaces: a decision holds if its state is still the current one after the decision was made.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from queuegate._types import Decision
from queuegate.gate import bounds
from queuegate.gate.local_partition import NAMINGS, LocalPartition
from queuegate.gate.policy_tables import PolicyTables
from queuegate.gate.session import GateRights
from queuegate.policy import decision as core
from queuegate.policy.decision import RULES
from queuegate.policy.names import partition_name
from queuegate.v1 import sync_pb2, user_groups_pb2

MAX_USERS: Final = 10_000
"""The maximum number of users whose groups are kept."""
MAX_REMEMBERED: Final = 100_000
"""The maximum number of remembered decisions, plus the groups given in their questions. At this
limit, all are dropped."""
MAX_DECISIONS: Final = 10_000
"""The maximum number of different decisions that are kept."""
REFRESH_AFTER: Final = 0.8
"""The fraction of their lifetime after which groups are asked for again when used."""


class UserEntry:
    """The groups of a user. Only its times may change: setting them ends decisions based on it."""

    __slots__ = ("expires_at", "groups", "key", "refresh_at")

    def __init__(
        self,
        key: tuple[str, str],
        groups: tuple[str, ...] | None,
        expires_at: float,
        refresh_at: float,
    ) -> None:
        self.key = key
        """The partition and the user's name."""
        self.groups = groups
        """The groups; None if there is no such user."""
        self.expires_at = expires_at
        """When the groups expire, on the monotonic clock."""
        self.refresh_at = refresh_at
        """When the next use asks for the groups again."""

    @property
    def size(self) -> int:
        """The approximate number of bytes that the groups take."""
        groups = self.groups or ()
        return sum(map(len, groups)) + bounds.GROUP_OVERHEAD_BYTES * len(groups)

    def end(self) -> None:
        """Invalidate all decisions that used these groups."""
        self.expires_at = self.refresh_at = -math.inf


NO_GROUPS: Final = UserEntry(("", ""), None, math.inf, math.inf)
"""Stands for the entry of a decision that used no groups that the gate holds."""


class PolicySize(NamedTuple):
    """The size of one policy, or of several together."""

    queues: int = 0
    created_queues: int = 0
    names: int = 0
    levels: int = 0
    listed: int = 0
    bytes: int = 0
    """The size of the parts as sent."""
    path_bytes: int = 0
    """The size of all queue paths."""

    def plus(self, other: "PolicySize", sign: int = 1) -> "PolicySize":
        """Return the sum of both sizes, or with `sign=-1`, their difference."""
        return PolicySize(*(one + sign * two for one, two in zip(self, other, strict=True)))

    def check(self) -> None:
        """Raise ValueError if policies of this total size exceed the bounds."""
        for size, limit, what in zip(self, _limits(), _COUNTED, strict=True):
            if size > limit:
                raise ValueError(f"the policies have more than {limit} {what}")


_COUNTED: Final = (
    "queues",
    "queues that will be created",
    "names",
    "levels",
    "names in levels",
    "bytes",
    "bytes in the paths of queues",
)


def _limits() -> tuple[int, ...]:
    return (
        bounds.MAX_QUEUES,
        bounds.MAX_QUEUES,
        bounds.MAX_NAMES,
        bounds.MAX_LEVELS,
        bounds.MAX_LISTED,
        bounds.MAX_POLICY_BYTES,
        bounds.MAX_PATHS_BYTES,
    )


class PolicyCopy(NamedTuple):
    """The policy of a partition."""

    name: str
    """The name of the partition."""
    partition: LocalPartition | None
    """The partition; None if the gate does not know the server's rules and must ask the server."""
    checksum: bytes
    revision: int
    use_given_groups: bool
    resolver_fingerprint: bytes
    """Identifies the resolver; empty if the groups are not shared."""
    size: PolicySize


Remembered: TypeAlias = tuple[Decision, UserEntry]
"""A decision, and the entry whose groups it used (NO_GROUPS if it used none)."""


class State:
    """Everything that decisions depend on except groups, and the decisions made from it."""

    __slots__ = ("_decisions", "_is_complete", "_size", "policies", "remembered", "rights")

    def __init__(
        self, policies: Mapping[str, PolicyCopy], rights: GateRights, *, is_complete: bool
    ) -> None:
        self.rights = rights
        self._is_complete = is_complete
        """Whether `policies` contains all partitions of the server."""
        self.policies = policies
        """The policies that decide, by partition."""
        self.remembered: dict[tuple[object, ...], Remembered] = {}
        """The remembered decisions by question."""
        self._size = 0
        self._decisions: dict[tuple[core.Decision, int, str], Decision] = {}

    def find(self, name: str) -> PolicyCopy | None:
        """Return the policy of a requested partition; see Policy.partition."""
        found = self.policies.get(name)
        if found is None and (self._is_complete or not name.startswith("[")):
            found = self.policies.get(partition_name(name))
        return found

    def remember(self, question: tuple[Any, ...], made: Remembered) -> None:
        """Remember a decision; the given groups are the fifth part of its question."""
        self._size += 1 + len(question[4] or ())
        if self._size > MAX_REMEMBERED:
            self.remembered.clear()
            self._size = 1 + len(question[4] or ())
        self.remembered[question] = made

    def decision(self, made: core.Decision, revision: int, evaluated_queue: str) -> Decision:
        """Return a decision for the caller. Equal decisions share one object."""
        key = (made, revision, evaluated_queue)
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            known = self._decisions[key] = Decision(*made, revision, evaluated_queue)
        return known


class LocalReplica:
    """The state of a gate."""

    def __init__(self, *, is_complete: bool) -> None:
        """Start empty.

        Args:
            is_complete: Whether the replica will hold all partitions of the server.
        """
        self.has_changed = False
        """Set when another policy takes effect. The user of this object resets it."""
        self._is_complete = is_complete
        self.state = State(MappingProxyType({}), GateRights(), is_complete=is_complete)
        self.users: dict[tuple[str, str], UserEntry] = {}
        """The groups of users by partition and name, the most recently requested last."""
        self._group_bytes = 0
        self._held: dict[str, PolicyCopy] = {}
        """All complete policies, including those that are not confirmed."""
        self._held_size = PolicySize()
        self._first: sync_pb2.PolicyPart | None = None
        self._part_size = PolicySize()
        """The size of the parts of the incomplete policy."""
        self._tables: PolicyTables | None = None
        """The rows of the parts; None if the gate does not know the rules of the policy."""

    def held(self) -> Iterable[sync_pb2.HeldPolicy]:
        """Return each complete policy as announced in `SyncOpen`."""
        return [
            sync_pb2.HeldPolicy(
                partition=name,
                checksum=held.checksum,
                resolver_fingerprint=held.resolver_fingerprint,
            )
            for name, held in self._held.items()
        ]

    def reset(self, keep_groups_of: Collection[str] = ()) -> None:
        """Drop all groups except those of these partitions, and decide from no policy until the
        server has confirmed it.
        """
        self._replace(MappingProxyType({}))
        kept = frozenset(keep_groups_of)
        self.users = {key: entry for key, entry in self.users.items() if key[0] in kept}
        self._group_bytes = sum(each.size for each in self.users.values())

    def drop_policies(self) -> None:
        """Drop everything that is held, including policies that the server might confirm."""
        self.reset()
        self.drop_parts()
        self._held.clear()
        self._held_size = PolicySize()

    def add_part(self, part: sync_pb2.PolicyPart) -> None:
        """Add a part of a policy, which takes effect with its last part. Raises ValueError."""
        name = part.partition
        if part.removed:
            self.drop_parts()
            self._drop_policy(name)
            self._replace({n: h for n, h in self.state.policies.items() if n != name})
            return
        if part.unchanged:
            self.drop_parts()
            held = self._held.get(name)
            if held is None or held.checksum != part.checksum:
                raise ValueError(
                    f"the policy of {name!r} cannot be unchanged: this gate does not have it"
                )
            self._decide_from(
                held._replace(
                    revision=part.revision,
                    use_given_groups=part.use_given_groups,
                    resolver_fingerprint=part.resolver_fingerprint,
                )
            )
            return
        if part.first:
            self._first, self._part_size = part, PolicySize()
            is_known = part.rules == RULES and part.naming in NAMINGS
            self._tables = PolicyTables() if is_known else None
        first = self._first
        if first is None or first.partition != name:
            raise ValueError(f"the parts of the policy of {name!r} are incomplete")
        self._count(part)
        if self._tables is not None:
            self._tables.add(part)
        if part.last:
            self._first = None
            self._decide_from(
                PolicyCopy(
                    name,
                    self._read(first),
                    first.checksum,
                    first.revision,
                    first.use_given_groups,
                    first.resolver_fingerprint,
                    self._part_size,
                )
            )

    def drop_parts(self) -> None:
        """Drop the parts of the incomplete policy."""
        self._first = self._tables = None

    def use_rights(self, rights: GateRights) -> None:
        """Decide with these rights, and drop the decisions made with others."""
        if rights != self.state.rights:
            self.state = State(self.state.policies, rights, is_complete=self._is_complete)

    def set_groups(self, groups: sync_pb2.UserGroups, asked_at: float) -> None:
        """Decide from the groups of a user, which were requested at this time or later."""
        if groups.outcome == user_groups_pb2.RESOLVE_OUTCOME_RESOLVED:
            found: tuple[str, ...] | None = tuple(groups.groups)
        elif groups.outcome == user_groups_pb2.RESOLVE_OUTCOME_NOT_FOUND:
            found = None
        else:
            return  # the known groups are valid until they expire
        key = (groups.partition, groups.user)
        known = self.users.pop(key, None)
        lifetime = min(groups.lifetime_millis / 1_000, bounds.MAX_LIFETIME_SECONDS)
        expires_at, refresh_at = asked_at + lifetime, asked_at + REFRESH_AFTER * lifetime
        if known is not None and known.groups == found:
            known.expires_at, known.refresh_at = expires_at, refresh_at
            self.users[key] = known
            return
        if known is not None:
            self._end(known)
        entry = UserEntry(key, found, expires_at, refresh_at)
        room = bounds.MAX_GROUP_BYTES - entry.size
        while self.users and (len(self.users) >= MAX_USERS or self._group_bytes > room):
            self._end(self.users.pop(next(iter(self.users))))
        self.users[key] = entry
        self._group_bytes += entry.size

    def forget(self, partition: str, users: Iterable[str]) -> None:
        """Drop the groups of these users, or of all users of the partition if none is named."""
        keys = [(partition, user) for user in users]
        for key in keys or [key for key in self.users if key[0] == partition]:
            entry = self.users.pop(key, None)
            if entry is not None:
                self._end(entry)

    def _end(self, entry: UserEntry) -> None:
        self._group_bytes -= entry.size
        entry.end()

    def _count(self, part: sync_pb2.PolicyPart) -> None:
        """Count a part of a policy. Raises ValueError if the policies then exceed the bounds."""
        held = self._held.get(part.partition)
        if held is None and len(self._held) >= bounds.MAX_PARTITIONS:
            raise ValueError(f"there are more than {bounds.MAX_PARTITIONS} partitions")
        self._add_size(
            part.partition,
            PolicySize(
                len(part.configured_queues.name),
                len(part.created_queues.name),
                len(part.names),
                len(part.levels.above),
                len(part.levels.listed),
                part.ByteSize(),
            ),
        )

    def _add_size(self, name: str, size: PolicySize) -> None:
        """Add to the size of the policy that is being sent. Raises ValueError."""
        self._part_size = self._part_size.plus(size)
        held = self._held.get(name)
        replaced = PolicySize() if held is None else held.size
        self._held_size.plus(self._part_size).plus(replaced, sign=-1).check()

    def _read(self, first: sync_pb2.PolicyPart) -> LocalPartition | None:
        """Return the complete partition. Raises ValueError if its tables are faulty."""
        tables, self._tables = self._tables, None
        if tables is None:
            return None
        tables.finish()
        self._add_size(first.partition, PolicySize(path_bytes=tables.path_bytes))
        return LocalPartition(first.partition, first.naming, tables, first.ambiguous_level)

    def _drop_policy(self, name: str) -> None:
        held = self._held.pop(name, None)
        if held is not None:
            self._held_size = self._held_size.plus(held.size, sign=-1)

    def _decide_from(self, held: PolicyCopy) -> None:
        name = held.name
        self._drop_policy(name)
        self._held[name] = held
        self._held_size = self._held_size.plus(held.size)
        self._replace({**self.state.policies, name: held})
        self.has_changed = True

    def _replace(self, policies: Mapping[str, PolicyCopy]) -> None:
        self.state = State(policies, self.state.rights, is_complete=self._is_complete)
