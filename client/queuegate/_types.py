"""Questions about access, and their answers. All are immutable, none needs gRPC."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Literal, TypeAlias

from queuegate import _validation
from queuegate.exceptions import QueuegateError


class Access(StrEnum):
    """What the user wants to do with the queue."""

    SUBMIT = auto()
    ADMIN = auto()


AccessName: TypeAlias = Access | Literal["submit", "admin"]
"""A kind of access, or its name."""


class Reason(StrEnum):
    """Why access was granted or denied."""

    UNSPECIFIED = auto()
    """A reason that this release of the client does not know."""
    WILDCARD = auto()
    """Granted: an ACL allows everyone."""
    USER = auto()
    """Granted: an ACL lists the user."""
    GROUP = auto()
    """Granted: an ACL lists a group of the user."""
    NO_MATCH = auto()
    """Denied: no ACL from the queue up to the root lists the user or a group."""
    UNKNOWN_USER = auto()
    """Denied: groups are needed, and the resolver does not know the user."""
    RECOVERY_QUEUE = auto()
    """Denied: the recovery queue and all below it is never granted."""
    ACLS_DISABLED = auto()
    """Granted: the scheduler does not enforce ACLs."""
    CLUSTER_ADMIN = auto()
    """Granted: the user administers the cluster."""
    OWNER = auto()
    """Granted: the user owns the application."""


@dataclass(frozen=True, slots=True)
class Check:
    """A question for `check_many`: may this user use this queue?

    Making one raises TypeError or ValueError, naming the argument, if it cannot be right:
    a fault of the program, and no question for the server.
    """

    user: str
    queue: str
    """The full path, `root.a.b`."""
    partition: str = "default"
    access: AccessName = Access.SUBMIT
    groups: Iterable[str] = ()
    """Used as they are if there are any; otherwise the server resolves them."""
    real_user: str = ""
    """The service that acts for the user, for YARN's ACLs that list `~name`."""

    def __post_init__(self) -> None:
        _validation.text("user", self.user)
        _validation.text("real_user", self.real_user, required=False)
        _validation.text("queue", self.queue)
        _validation.text("partition", self.partition, required=False)
        object.__setattr__(self, "access", _validation.choice("access", self.access, Access))
        object.__setattr__(self, "groups", _validation.texts("groups", self.groups))


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a question. True in a condition only if access is granted."""

    allowed: bool
    reason: Reason
    matched_queue: str
    """The queue whose ACL decided; empty where none matched."""
    matched_subject: str
    """The user or group name that matched, `*` for a wildcard, `~name` for the
    service that acts for the user; empty where none did."""
    policy_revision: int
    """Which revision of the policy decided."""

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """Stands in the results of `check_many` for a question that could not be answered.

    False in a condition, so that nothing is granted; it has no `allowed`, because
    it is not a denial either.
    """

    error: QueuegateError
    """What `check` would have raised."""

    def __bool__(self) -> Literal[False]:
        return False


class StepOutcome(StrEnum):
    """What the evaluation of one ACL came to."""

    UNSPECIFIED = auto()
    """An outcome that this release of the client does not know."""
    WILDCARD = auto()
    USER = auto()
    GROUP = auto()
    NO_MATCH = auto()
    EMPTY = auto()
    """The ACL is absent or empty: it grants nothing."""
    RECOVERY_QUEUE = auto()
    """The rule of the recovery queue denied before any ACL was looked at."""
    ACLS_DISABLED = auto()
    """The cluster does not enforce ACLs."""
    CLUSTER_ADMIN = auto()
    """The user, or a group, is in the list of the cluster's administrators."""


@dataclass(frozen=True, slots=True)
class Step:
    """One evaluated ACL."""

    queue: str
    acl: Access | None
    """Which ACL of the queue; None for a rule that is no ACL."""
    acl_text: str
    """The ACL as configured."""
    outcome: StepOutcome
    matched_subject: str
    dropped_names: tuple[str, ...]
    """Names in the text that the ACL grammar does not accept: they never match."""


class GroupsOrigin(StrEnum):
    """Where the groups of an explained decision came from."""

    UNSPECIFIED = auto()
    """An origin that this release of the client does not know."""
    NOT_NEEDED = auto()
    """The decision did not depend on groups; none were resolved."""
    REQUEST = auto()
    """The request carried them."""
    RESOLVER = auto()
    CACHE = auto()
    STALE_CACHE = auto()
    """Cached and expired: the resolver could not be asked, or not yet."""


@dataclass(frozen=True, slots=True)
class ExplainedGroups:
    """How the groups of an explained decision were obtained."""

    origin: GroupsOrigin
    groups: tuple[str, ...]
    """The primary group first."""
    resolver: str
    detail: str
    """What the resolver had to say, for people."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision and how it came about. True in a condition only if access is granted."""

    decision: Decision
    steps: tuple[Step, ...]
    """Each ACL that was evaluated, up to and including the one that decided."""
    groups: ExplainedGroups
    evaluated_queue: str
    """The queue, or its nearest existing ancestor."""

    def __bool__(self) -> bool:
        return self.decision.allowed
