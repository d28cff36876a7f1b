"""Queue access checks, decisions and explanations. Does not import gRPC."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import ClassVar, Literal, TypeAlias

from queuegate import _validation
from queuegate.exceptions import QueuegateError
from queuegate.policy.decision import Access, Reason
from queuegate.policy.explain import StepOutcome
from queuegate.policy.reach import SubjectKind

AccessName: TypeAlias = Access | Literal["submit", "admin"]
"""A kind of access, as an enum member or its value."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check for `check_many`: whether a user may use a queue.

    Raises:
        InvalidArgument: An argument is invalid.
        TypeError: An argument has the wrong type.

    Example:
        >>> queuegate.Check("sue", "root.analytics.reports").partition
        'default'
        >>> queuegate.Check("", "root.analytics.reports")
        Traceback (most recent call last):
        queuegate.exceptions.InvalidArgument: user must not be empty
    """

    user: str
    """The user name."""
    queue: str
    """The full queue path, for example `root.a.b`."""
    partition: str = "default"
    """The queue's partition."""
    access: AccessName = Access.SUBMIT
    """The kind of access."""
    groups: Iterable[str] | None = None
    """The user's groups; an empty list means no groups. If None, the server resolves them."""
    real_user: str = ""
    """The service acting for the user, if any. YARN's ACLs may list it as `~name`."""

    def __post_init__(self) -> None:
        _validation.text("user", self.user)
        _validation.text("real_user", self.real_user, required=False)
        _validation.text("queue", self.queue)
        _validation.text("partition", self.partition, required=False)
        object.__setattr__(self, "access", _validation.choice("access", self.access, Access))
        object.__setattr__(self, "groups", _validation.optional_texts("groups", self.groups))


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a check. Truthy only if access is granted.

    Example:
        >>> decision = client.check("sue", "root.analytics.reports")
        >>> decision.allowed, decision.matched_queue, decision.matched_subject
        (True, 'root.analytics.reports', 'sue')
    """

    allowed: bool
    """Whether access is granted."""
    reason: Reason
    """Why access is granted or denied."""
    matched_queue: str
    """The queue whose ACL matched, if any."""
    matched_subject: str
    """The matching entry, if any: a user, a group, `*`, or `~name` for the service acting for the
    user."""
    policy_revision: int
    """The evaluated policy's revision."""
    evaluated_queue: str = ""
    """The nearest existing ancestor of a missing queue; its ACLs were evaluated instead. Empty if
    the queue exists or will be created, for the recovery queue, and for Spark applications.
    """
    stale: ClassVar[bool] = False
    """True only for a StaleDecision."""

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True, slots=True)
class StaleDecision(Decision):
    """A decision that a gate made without a valid lease while the server was unreachable."""

    stale: ClassVar[bool] = True
    """Always true."""


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """The result of a failed check in `check_many`.

    A failure is falsy and `allowed` is false, so it never grants access. Unlike a denial, it is not
    a `Decision`.

    Example:
        >>> [result] = client.check_many([queuegate.Check("sue", "root.a", partition="none")])
        >>> result.allowed, result.error.reason
        (False, 'UNKNOWN_PARTITION')
    """

    error: QueuegateError
    """The exception that `check` would have raised."""
    allowed: ClassVar[Literal[False]] = False
    """Always false."""

    def __bool__(self) -> Literal[False]:
        return False


@dataclass(frozen=True, slots=True)
class AclEntry:
    """An entry in an access control list (ACL) built from Kubernetes role bindings."""

    kind: SubjectKind | None
    """A user or a group; None if it is unknown to this client, because the server is newer."""
    name: str
    """The name of the user or group."""
    origins: tuple[str, ...]
    """The role bindings that list the subject, each with its role, such as
    `RoleBinding ml/team, ClusterRole queue-user`.
    """


@dataclass(frozen=True, slots=True)
class Step:
    """An evaluated ACL."""

    queue: str
    """The queue path."""
    acl: Access | None
    """The kind of ACL; None if the step evaluated a rule other than an ACL."""
    acl_text: str
    """The ACL as configured."""
    outcome: StepOutcome
    """The outcome of evaluating the ACL."""
    matched_subject: str
    """The matching entry, if any."""
    dropped_names: tuple[str, ...]
    """Invalid names in the ACL. They never match."""
    template_property: str = ""
    """For a queue that YARN will create, the template property that sets the ACL, if any."""
    entries: tuple[AclEntry, ...] = ()
    """The entries of an ACL that is built from Kubernetes role bindings and has no text, at most
    100, starting with the matching one.
    """
    further_entries: int = 0
    """The number of further entries."""


class GroupsOrigin(StrEnum):
    """The origin of the groups in an explanation."""

    UNSPECIFIED = auto()
    """An origin unknown to this client, because the server is newer."""
    NOT_NEEDED = auto()
    """The decision does not depend on groups, so they were not resolved."""
    REQUEST = auto()
    """The request contained the groups."""
    RESOLVER = auto()
    """The resolver was queried."""
    CACHE = auto()
    """The groups were in the cache."""
    STALE_CACHE = auto()
    """The groups were in the cache, but they had expired and could not be refreshed yet."""


@dataclass(frozen=True, slots=True)
class ExplainedGroups:
    """The groups in an explanation, with their origin."""

    origin: GroupsOrigin
    """The groups' origin."""
    groups: tuple[str, ...]
    """The groups, starting with the primary group."""
    resolver: str
    """The name of the resolver that was queried, if any."""
    detail: str
    """Details from the resolver, in words."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, the evaluated ACLs and the user's groups. Truthy only if access is granted."""

    decision: Decision
    """The decision."""
    steps: tuple[Step, ...]
    """The evaluated ACLs, in order. If access is granted, the last ACL granted it."""
    groups: ExplainedGroups
    """The user's groups, with their origin."""
    evaluated_queue: str
    """The queue if it exists or will be created, otherwise its nearest existing ancestor."""
    will_be_created: bool = False
    """Whether YARN will create the queue on submission, with ACLs from templates."""
    is_parent: bool = False
    """Whether the queue is marked as a parent, or queues exist or will be created below it.
    Schedulers accept applications only in leaf queues."""

    def __bool__(self) -> bool:
        return self.decision.allowed
