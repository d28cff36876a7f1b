"""A gate's copy of policies and users' groups.

One thread updates the copy, and any thread may base decisions on it. `LocalReplica.state` contains
the policies and rights. Each update replaces the `State` object, so a decision is valid if its
`State` is still current once the decision has been made.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from queuegate.gate import bounds
from queuegate.gate.local_partition import NAMINGS, LocalPartition
from queuegate.gate.policy_tables import PolicySize, PolicyTables
from queuegate.gate.session import GateRights
from queuegate.gate.state import PolicyCopy, State, UserEntry
from queuegate.policy.decision import RULES
from queuegate.v1 import sync_pb2, user_groups_pb2

MAX_USERS: Final = 10_000
"""The maximum number of users with cached groups."""
REFRESH_AFTER: Final = 0.8
"""The fraction of the groups' lifetime after which their next use triggers a new request."""


class LocalReplica:
    """A gate's policies, rights and groups."""

    def __init__(self, *, is_complete: bool) -> None:
        """Create an empty replica.

        Args:
            is_complete: Whether the replica will hold all of the server's partitions.
        """
        self.has_changed = False
        """Whether a different policy has taken effect since this object's owner last cleared the
        flag.
        """
        self._is_complete = is_complete
        self.state = State(MappingProxyType({}), GateRights(), is_complete=is_complete)
        self.users: dict[tuple[str, str], UserEntry] = {}
        """The groups by partition and user, with the most recently requested groups last."""
        self._group_bytes = 0
        self._held: dict[str, PolicyCopy] = {}
        """All complete policies, including policies that the server has not confirmed since a
        reset.
        """
        self._held_size = PolicySize()
        self._first: sync_pb2.PolicyPart | None = None
        self._part_size = PolicySize()
        """The size of the incomplete policy."""
        self._tables: PolicyTables | None = None
        """The tables of the incomplete policy; None if the gate does not support its rules."""

    def held(self) -> Iterable[sync_pb2.HeldPolicy]:
        """Return the completely received policies, to be announced to the server in `SyncOpen`."""
        return [
            sync_pb2.HeldPolicy(
                partition=name,
                checksum=held.checksum,
                resolver_fingerprint=held.resolver_fingerprint,
            )
            for name, held in self._held.items()
        ]

    def reset(self, keep_groups_of: Collection[str] = ()) -> None:
        """Drop all groups outside the given partitions, and stop using policies until the server
        confirms them.
        """
        self._replace(MappingProxyType({}))
        kept = frozenset(keep_groups_of)
        self.users = {key: entry for key, entry in self.users.items() if key[0] in kept}
        self._group_bytes = sum(each.size for each in self.users.values())

    def drop_policies(self) -> None:
        """Drop all policies and groups, including policies that await the server's confirmation."""
        self.reset()
        self.drop_parts()
        self._held.clear()
        self._held_size = PolicySize()

    def add_part(self, part: sync_pb2.PolicyPart) -> None:
        """Add a part of a policy. The policy takes effect once it is complete.

        Raises:
            ValueError: The part is invalid, or the policies exceed the bounds.
        """
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
                    f"the policy of {name!r} was sent as unchanged, but this gate does not have it"
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
        """Apply the given rights, and drop cached decisions made under different rights."""
        if rights != self.state.rights:
            self.state = State(self.state.policies, rights, is_complete=self._is_complete)

    def set_groups(self, groups: sync_pb2.UserGroups, asked_at: float) -> None:
        """Store a user's groups. Their lifetime is measured from `asked_at`, the time of the
        request.
        """
        if groups.outcome == user_groups_pb2.RESOLVE_OUTCOME_RESOLVED:
            names: tuple[str, ...] | None = tuple(groups.groups)
        elif groups.outcome == user_groups_pb2.RESOLVE_OUTCOME_NOT_FOUND:
            names = None
        else:
            return  # cached groups stay valid until they expire
        key = (groups.partition, groups.user)
        old = self.users.pop(key, None)
        lifetime = min(groups.lifetime_millis / 1_000, bounds.MAX_LIFETIME_SECONDS)
        expires_at, refresh_at = asked_at + lifetime, asked_at + REFRESH_AFTER * lifetime
        if old is not None and old.groups == names:
            old.expires_at, old.refresh_at = expires_at, refresh_at
            self.users[key] = old
            return
        if old is not None:
            self._release(old)
        entry = UserEntry(key, names, expires_at, refresh_at)
        room = bounds.MAX_GROUP_BYTES - entry.size
        while self.users and (len(self.users) >= MAX_USERS or self._group_bytes > room):
            self._release(self.users.pop(next(iter(self.users))))
        self.users[key] = entry
        self._group_bytes += entry.size

    def forget(self, partition: str, users: Iterable[str]) -> None:
        """Drop the given users' groups. If no users are given, drop all groups in the partition."""
        keys = [(partition, user) for user in users]
        for key in keys or [key for key in self.users if key[0] == partition]:
            entry = self.users.pop(key, None)
            if entry is not None:
                self._release(entry)

    def _release(self, entry: UserEntry) -> None:
        self._group_bytes -= entry.size
        entry.invalidate()

    def _count(self, part: sync_pb2.PolicyPart) -> None:
        """Add a part's size to the total. Raises ValueError if the policies then exceed the
        bounds.
        """
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
        """Add to the incomplete policy's size. Raises ValueError if all policies together then
        exceed the bounds.
        """
        self._part_size = self._part_size.plus(size)
        held = self._held.get(name)
        replaced = PolicySize() if held is None else held.size
        self._held_size.plus(self._part_size).plus(replaced, sign=-1).check()

    def _read(self, first: sync_pb2.PolicyPart) -> LocalPartition | None:
        """Build the partition from the complete tables. Return None if the gate does not support
        its rules. Raises ValueError if the tables are invalid.
        """
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
