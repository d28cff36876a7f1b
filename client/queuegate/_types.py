"""Questions about access to queues, and decisions. All are immutable; none needs gRPC."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import ClassVar, Literal, TypeAlias

from queuegate import _validation
from queuegate.exceptions import QueuegateError
from queuegate.policy.decision import Access, Reason
from queuegate.policy.explain import StepOutcome

AccessName: TypeAlias = Access | Literal["submit", "admin"]
"""A kind of access, or its value."""


@dataclass(frozen=True, slots=True)
class Check:
    """A question for `check_many`: may this user use this queue?

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
    """The name of the user."""
    queue: str
    """The full path, for example `root.a.b`."""
    partition: str = "default"
    """The partition of the queue."""
    access: AccessName = Access.SUBMIT
    """The kind of access."""
    groups: Iterable[str] | None = None
    """The user's groups, used as given; empty if there are none. None: the server resolves them."""
    real_user: str = ""
    """The service that acts for the user, if any: YARN's ACLs may list it as `~name`."""

    def __post_init__(self) -> None:
        _validation.text("user", self.user)
        _validation.text("real_user", self.real_user, required=False)
        _validation.text("queue", self.queue)
        _validation.text("partition", self.partition, required=False)
        object.__setattr__(self, "access", _validation.choice("access", self.access, Access))
        object.__setattr__(self, "groups", _validation.optional_texts("groups", self.groups))


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a question. Truthy only if access is granted.

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
    """The queue whose ACL decided; empty if none matched."""
    matched_subject: str
    """The matching entry: a user, a group, `*`, or `~name` for the service that acts for the
    user; empty if none matched."""
    policy_revision: int
    """The revision of the policy that decided."""
    evaluated_queue: str = ""
    """If the queue does not exist: its nearest existing ancestor, whose ACLs were evaluated
    instead. Empty if the queue exists, and for the recovery queue and applications."""
    stale: ClassVar[bool] = False
    """True only for a StaleDecision."""

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True, slots=True)
class StaleDecision(Decision):
    """The decision of a gate whose lease had ended while its server was unreachable."""

    stale: ClassVar[bool] = True
    """Always true."""


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """The result of a question in `check_many` that could not be answered.

    It grants nothing: it is falsy, and `allowed` is false. It is not a denial either: a denial is
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
class Step:
    """One evaluated ACL."""

    queue: str
    """The path of the queue."""
    acl: Access | None
    """Which ACL of the queue; None for a rule that is not an ACL."""
    acl_text: str
    """The ACL as configured."""
    outcome: StepOutcome
    """The outcome of the evaluation of the ACL."""
    matched_subject: str
    """The matching entry; empty if none matched."""
    dropped_names: tuple[str, ...]
    """Names that the ACL grammar does not accept. They never match."""
    template_property: str = ""
    """For a queue that YARN will create: the property of the template that sets the ACL. Empty if
    no template sets it, and for queues that exist."""


class GroupsOrigin(StrEnum):
    """Where the groups of an explained decision came from."""

    UNSPECIFIED = auto()
    """An origin that this version of the client does not know."""
    NOT_NEEDED = auto()
    """The decision does not depend on groups, so they were not resolved."""
    REQUEST = auto()
    """The request contained the groups."""
    RESOLVER = auto()
    """The resolver was asked."""
    CACHE = auto()
    """The groups were in the cache."""
    STALE_CACHE = auto()
    """The cache entry had expired; the resolver was unavailable or has not answered yet."""


@dataclass(frozen=True, slots=True)
class ExplainedGroups:
    """How the groups of an explained decision were obtained."""

    origin: GroupsOrigin
    """Where the groups came from."""
    groups: tuple[str, ...]
    """The primary group first."""
    resolver: str
    """The name of the resolver; empty if none was asked."""
    detail: str
    """Details from the resolver, for people."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision and its evaluation. Truthy only if access is granted."""

    decision: Decision
    """The decision."""
    steps: tuple[Step, ...]
    """The evaluated ACLs, up to and including the one that decided."""
    groups: ExplainedGroups
    """Where the groups of the user came from."""
    evaluated_queue: str
    """The queue, or its nearest existing ancestor."""
    will_be_created: bool = False
    """True if the queue does not exist yet, and YARN will create it, with ACLs from templates."""

    def __bool__(self) -> bool:
        return self.decision.allowed
