"""The state on which a gate's decisions depend.

A `State` contains the policies and rights; a `UserEntry` contains a user's groups.
"""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from queuegate._types import Decision
from queuegate.gate import bounds
from queuegate.gate.local_partition import MAX_PLAIN, LocalPartition
from queuegate.gate.policy_tables import PolicySize
from queuegate.gate.session import GateRights
from queuegate.policy import decision as core
from queuegate.policy.decision import Access
from queuegate.policy.names import partition_name

MAX_CACHED_DECISIONS: Final = 100_000
"""The maximum number of cached decisions. Each group given in a question counts as an additional
decision. The cache is cleared at this limit.
"""
MAX_DISTINCT_DECISIONS: Final = 10_000
"""The maximum number of distinct decision objects shared by cache entries."""
_ACCESS: Final = {str(access): access for access in Access}


class UserEntry:
    """A user's groups. Only the times are mutable. Cached decisions refer to the entry, so changing
    its times affects those decisions immediately.
    """

    __slots__ = ("expires_at", "groups", "key", "refresh_at")

    def __init__(
        self,
        key: tuple[str, str],
        groups: tuple[str, ...] | None,
        expires_at: float,
        refresh_at: float,
    ) -> None:
        self.key = key
        """The partition and the user."""
        self.groups = groups
        """The groups; None if the user does not exist."""
        self.expires_at = expires_at
        """When the groups expire, on the monotonic clock."""
        self.refresh_at = refresh_at
        """The time from which a use of the groups triggers a new request."""

    @property
    def size(self) -> int:
        """The approximate size of the groups in bytes."""
        groups = self.groups or ()
        return sum(map(len, groups)) + bounds.GROUP_OVERHEAD_BYTES * len(groups)

    def invalidate(self) -> None:
        """Invalidate all decisions that used these groups."""
        self.expires_at = self.refresh_at = -math.inf


NO_GROUPS: Final = UserEntry(("", ""), None, math.inf, math.inf)
"""The entry for decisions made without cached groups."""


class PolicyCopy(NamedTuple):
    """A copy of a partition's policy."""

    name: str
    """The partition name."""
    partition: LocalPartition | None
    """The partition; None if the gate does not support the partition's rules and must send all
    checks for it to the server.
    """
    checksum: bytes
    revision: int
    use_given_groups: bool
    resolver_fingerprint: bytes
    """Identifies the resolver's settings; empty if a fleet's replicas do not share the groups."""
    size: PolicySize


class Scope:
    """A partition and a kind of access for which the gate may decide."""

    __slots__ = ("access", "evaluations", "partition", "revision", "targets", "use_given_groups")

    def __init__(
        self, partition: LocalPartition, access: Access, revision: int, *, use_given_groups: bool
    ) -> None:
        self.partition = partition
        self.access = access
        self.revision = revision
        """The policy's revision."""
        self.use_given_groups = use_given_groups
        """Whether both the policy and the gate's rights permit groups given in a question."""
        self.targets = partition.targets[access]
        """The partition's cached targets for this kind of access, by canonical path."""
        self.evaluations: dict[tuple[object, ...], Evaluation] = {}
        """Evaluations without cached groups, by decision and evaluated queue, if any."""


Evaluation: TypeAlias = tuple[Decision, UserEntry]
"""A decision, and the user entry that supplied its groups, or NO_GROUPS."""


class State:
    """The policies and rights on which decisions depend, with a cache of decisions."""

    __slots__ = ("_is_complete", "_shared", "_size", "cache", "policies", "rights", "scopes")

    def __init__(
        self, policies: Mapping[str, PolicyCopy], rights: GateRights, *, is_complete: bool
    ) -> None:
        self.rights = rights
        self._is_complete = is_complete
        """Whether `policies` contains all of the server's partitions."""
        self.policies = policies
        """The policies in use, by partition."""
        self.scopes: dict[tuple[str, str], Scope] = {}
        """The scopes in use, by partition and access."""
        self.cache: dict[tuple[object, ...], Evaluation] = {}
        """The cached decisions by question."""
        self._size = 0
        self._shared = 0
        """The number of evaluations in all scopes."""

    def find_scope(self, name: str, access: str) -> Scope | None:
        """Look up the scope for a question's partition and access; None if the question must be
        sent to the server.
        """
        kind = _ACCESS.get(access)
        policy = self._find_policy(name) if self.rights.local_decisions else None
        if kind is None or policy is None or policy.partition is None:
            return None
        key = (policy.name, kind)
        scope = self.scopes.get(key)
        if scope is None:
            is_used = policy.use_given_groups and self.rights.assert_groups
            scope = Scope(policy.partition, kind, policy.revision, use_given_groups=is_used)
            self.scopes[key] = scope
        return scope

    def store(self, question: tuple[Any, ...], evaluation: Evaluation) -> None:
        """Cache a decision. The groups given in its question count toward the size limit."""
        self._size += 1 + len(question[4] or ())
        if self._size > MAX_CACHED_DECISIONS:
            self.cache.clear()
            self._size = 1 + len(question[4] or ())
        self.cache[question] = evaluation

    def share(self, scope: Scope, own: core.Decision, evaluated_queue: str) -> Evaluation:
        """Convert a policy decision made without cached groups to a client decision, to be shared
        by all questions with this decision.
        """
        self._shared += 1
        if self._shared > MAX_DISTINCT_DECISIONS:
            self.scopes.clear()
            self._shared = 1
        evaluation = Decision(*own, scope.revision, evaluated_queue), NO_GROUPS
        scope.evaluations[(own, evaluated_queue) if evaluated_queue else own] = evaluation
        return evaluation

    def _find_policy(self, name: object) -> PolicyCopy | None:
        """Look up the policy for a requested partition name, such as `[rm]gpu` for `gpu`, with the
        same rules as `Policy.partition`.
        """
        if not isinstance(name, str):
            return None
        policy = self.policies.get(name)
        if policy is not None or len(name) > MAX_PLAIN or not name.isprintable():
            return policy
        if name.startswith("[") and not self._is_complete:
            return None
        return self.policies.get(partition_name(name))
