"""A gate's copy of the policies and of users' groups.

One thread changes it, any thread may decide from it. What a decision depends on (policies and
rights), but for the groups of users, is one object, `state`, which is replaced by each change: a
decision holds if its state is still the current one after it was made.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from queuegate._types import Decision
from queuegate.gate import bounds
from queuegate.gate.session import GateRights
from queuegate.policy import acl
from queuegate.policy import decision as core
from queuegate.policy.acl import Acl, AclNames
from queuegate.policy.names import ROOT, partition_name
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Cluster, Partition, PartitionBuilder
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate.v1 import sync_pb2, user_groups_pb2

MAX_USERS: Final = 10_000
"""Users whose groups are kept."""
MAX_REMEMBERED: Final = 100_000
"""Decisions that are remembered, a given group counted as one more; then all are dropped."""
MAX_DECISIONS: Final = 10_000
"""Different decisions that are kept."""
REFRESH_AFTER: Final = 0.8
"""A use after this part of the lifetime of groups asks for them again."""


class UserEntry:
    """The groups of a user. Immutable but for its times, which end what was decided from it."""

    __slots__ = ("expires_at", "groups", "key", "refresh_at")

    def __init__(
        self,
        key: tuple[str, str],
        groups: tuple[str, ...] | None,
        expires_at: float,
        refresh_at: float,
    ) -> None:
        self.key = key
        """The partition and the name."""
        self.groups = groups
        """None: there is no such user."""
        self.expires_at = expires_at
        """On the monotonic clock."""
        self.refresh_at = refresh_at
        """When the next use asks for the groups again."""

    @property
    def size(self) -> int:
        """About how many bytes the groups take."""
        groups = self.groups or ()
        return sum(map(len, groups)) + bounds.GROUP_OVERHEAD_BYTES * len(groups)

    def end(self) -> None:
        """End what was decided from these groups."""
        self.expires_at = self.refresh_at = -math.inf


NO_GROUPS: Final = UserEntry(("", ""), None, math.inf, math.inf)
"""Stands for the entry of a decision that used no groups that the gate holds."""


class PolicySize(NamedTuple):
    """The size of one policy, or of several together."""

    queues: int = 0
    bytes: int = 0
    """Of the parts, as they are sent."""

    def plus(self, other: "PolicySize", sign: int = 1) -> "PolicySize":
        """Return the sum; with `sign=-1` the difference."""
        return PolicySize(self.queues + sign * other.queues, self.bytes + sign * other.bytes)


class Held(NamedTuple):
    """The policy of a partition."""

    partition: Partition
    checksum: bytes
    revision: int
    use_given_groups: bool
    rules: int
    """The version of the rules by which the server decides."""
    resolver_fingerprint: bytes
    """Empty if the groups are not shared."""
    size: "PolicySize"
    creators: frozenset[str] = frozenset()
    """The queues below which others are created when somebody submits to them: the server is asked
    about these."""


Remembered: TypeAlias = tuple[Decision, UserEntry]
"""A decision, and the entry whose groups it used (NO_GROUPS if it used none)."""


class State:
    """Everything that decides, but for groups, and the decisions that were made from it."""

    __slots__ = ("_decisions", "_is_complete", "_size", "policies", "remembered", "rights")

    def __init__(
        self, policies: Mapping[str, Held], rights: GateRights, *, is_complete: bool
    ) -> None:
        self.rights = rights
        self._is_complete = is_complete
        """Whether these are all partitions of the server."""
        self.policies = policies
        """The policies that decide, by partition."""
        self.remembered: dict[tuple[object, ...], Remembered] = {}
        """By question."""
        self._size = 0
        self._decisions: dict[tuple[core.Decision, int, str], Decision] = {}

    def find(self, name: str) -> Held | None:
        """Return the policy of a requested partition; see Policy.partition."""
        found = self.policies.get(name)
        if found is None and (self._is_complete or not name.startswith("[")):
            found = self.policies.get(partition_name(name))
        return found

    def remember(self, question: tuple[Any, ...], made: Remembered) -> None:
        """Remember a decision; the given groups are the fifth part of its question."""
        self._size += 1 + len(question[4])
        if self._size > MAX_REMEMBERED:
            self.remembered.clear()
            self._size = 1 + len(question[4])
        self.remembered[question] = made

    def decision(self, made: core.Decision, revision: int, evaluated_queue: str) -> Decision:
        """Return a decision for the caller; there is one object for equal ones."""
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
            is_complete: Whether it will hold all partitions of the server.
        """
        self.has_changed = False
        """Whether another policy decides; for the user of this object to reset."""
        self._is_complete = is_complete
        self.state = State(MappingProxyType({}), GateRights(), is_complete=is_complete)
        self.users: dict[tuple[str, str], UserEntry] = {}
        """By partition and name, those that were asked for last at the end."""
        self._group_bytes = 0
        self._held: dict[str, Held] = {}
        """All complete policies, also those that are not confirmed."""
        self._held_size = PolicySize()
        self._first: sync_pb2.PolicyPart | None = None
        self._part_size = PolicySize()
        """The size of the parts of a policy that is not complete."""
        self._has_root = False
        """Whether these parts have the root; otherwise the builder adds one."""
        self._builder = PartitionBuilder("")
        self._creators: set[str] = set()

    def held(self) -> Iterable[sync_pb2.HeldPolicy]:
        """Return each complete policy in the form that `SyncOpen` has."""
        return [
            sync_pb2.HeldPolicy(
                partition=name,
                checksum=held.checksum,
                resolver_fingerprint=held.resolver_fingerprint,
            )
            for name, held in self._held.items()
        ]

    def reset(self, keep_groups_of: Collection[str] = ()) -> None:
        """Drop all groups but those of these partitions, and decide from no policy before the
        server has confirmed it.
        """
        self._replace(MappingProxyType({}))
        kept = frozenset(keep_groups_of)
        self.users = {key: entry for key, entry in self.users.items() if key[0] in kept}
        self._group_bytes = sum(each.size for each in self.users.values())

    def drop_policies(self) -> None:
        """Drop everything that is held, also policies that the server might confirm."""
        self.reset()
        self.drop_parts()
        self._held.clear()
        self._held_size = PolicySize()

    def add_part(self, part: sync_pb2.PolicyPart) -> None:
        """Add a part of a policy; the last one makes it decide. Raises ValueError."""
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
            self._first = part
            self._builder = _builder(part)
            self._part_size = PolicySize()
            self._has_root = bool(part.queues) and part.queues[0].path == ROOT
            self._creators = set()
        first = self._first
        if first is None or first.partition != name:
            raise ValueError(f"the parts of the policy of {name!r} are incomplete")
        self._count(part)
        check = None if first.HasField("cluster") else acl.check
        queues = []
        for queue in part.queues:
            submit_acl, admin_acl = queue.submit_acl, queue.admin_acl
            if check is not None:
                check(submit_acl)
                check(admin_acl)
            queues.append(QueueAcls(queue.path, submit_acl, admin_acl))
            if queue.creates_queues:
                self._creators.add(queue.path)
        self._builder.add(queues)
        if part.last:
            self._first = None
            self._decide_from(
                Held(
                    self._build(name),
                    first.checksum,
                    first.revision,
                    first.use_given_groups,
                    first.rules,
                    first.resolver_fingerprint,
                    self._part_size,
                    frozenset(self._creators),
                )
            )

    def drop_parts(self) -> None:
        """Drop the parts of a policy that is not complete."""
        self._first = None
        self._builder = PartitionBuilder("")

    def use_rights(self, rights: GateRights) -> None:
        """Decide with these rights, and drop the decisions that were made with others."""
        if rights != self.state.rights:
            self.state = State(self.state.policies, rights, is_complete=self._is_complete)

    def set_groups(self, groups: sync_pb2.UserGroups, asked_at: float) -> None:
        """Decide from the groups of a user, which were asked for at this time or later."""
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
        """Drop the groups of users; of all users of the partition if none is named."""
        keys = [(partition, user) for user in users]
        for key in keys or [key for key in self.users if key[0] == partition]:
            entry = self.users.pop(key, None)
            if entry is not None:
                self._end(entry)

    def _end(self, entry: UserEntry) -> None:
        self._group_bytes -= entry.size
        entry.end()

    def _count(self, part: sync_pb2.PolicyPart) -> None:
        """Count a part of a policy. Raises ValueError if the policies would exceed the bounds."""
        held = self._held.get(part.partition)
        if held is None and len(self._held) >= bounds.MAX_PARTITIONS:
            raise ValueError(f"there are more than {bounds.MAX_PARTITIONS} partitions")
        self._part_size = self._part_size.plus(PolicySize(len(part.queues), part.ByteSize()))
        together = self._held_size.plus(self._part_size)
        if held is not None:
            together = together.plus(held.size, sign=-1)
        if together.queues > bounds.MAX_QUEUES:
            raise ValueError(f"the policies have more than {bounds.MAX_QUEUES} queues")
        if together.bytes > bounds.MAX_POLICY_BYTES:
            raise ValueError(f"the policies have more than {bounds.MAX_POLICY_BYTES} bytes")

    def _build(self, name: str) -> Partition:
        """Return the complete partition. Raises ValueError if a queue was sent twice."""
        partition = self._builder.build()
        self._builder = PartitionBuilder("")
        if len(partition.queues) != self._part_size.queues + (not self._has_root):
            raise ValueError(f"the policy of {name!r} has a queue twice")
        return partition

    def _drop_policy(self, name: str) -> None:
        held = self._held.pop(name, None)
        if held is not None:
            self._held_size = self._held_size.plus(held.size, sign=-1)

    def _decide_from(self, held: Held) -> None:
        name = held.partition.name
        self._drop_policy(name)
        self._held[name] = held
        self._held_size = self._held_size.plus(held.size)
        self._replace({**self.state.policies, name: held})
        self.has_changed = True

    def _replace(self, policies: Mapping[str, Held]) -> None:
        self.state = State(policies, self.state.rights, is_complete=self._is_complete)


def _builder(part: sync_pb2.PolicyPart) -> PartitionBuilder:
    if not part.HasField("cluster"):
        names = AclNames.EXTENDED if part.extended_acl_names else AclNames.YUNIKORN
        if part.any_acl_names:
            names = AclNames.ANY
        parse_names = partial(acl.parse, names=names)
        return PartitionBuilder(part.partition, parse_acl=parse_names, acl_names=names)
    cluster = part.cluster
    semantics = Semantics.HADOOP if cluster.hadoop_semantics else Semantics.DOCUMENTED
    parse = partial(parse_yarn, semantics=semantics)
    return PartitionBuilder(
        part.partition,
        cluster=Cluster(
            semantics,
            _admins(cluster, parse),
            cluster.acls_enabled,
            cluster.checks_submission_always,
            cluster.has_short_names,
        ),
        parse_acl=parse,
    )


def _admins(cluster: sync_pb2.ClusterPolicy, parse: Callable[[str], Acl]) -> Acl:
    # One of the users may be that of the daemon, who is not in the text.
    return replace(parse(cluster.admin_acl), users=frozenset(cluster.admin_users))
