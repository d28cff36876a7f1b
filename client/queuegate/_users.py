"""Results about who may use which queue, and why. All are immutable; none needs gRPC."""

from dataclasses import dataclass
from datetime import datetime

from queuegate.policy.decision import Access
from queuegate.policy.reach import SubjectKind


@dataclass(frozen=True, slots=True)
class AccessGrant:
    """An entry of an access control list (ACL) that grants access."""

    queue: str
    """The path of the queue; empty for the administrators of the cluster, and while ACLs are
    disabled."""
    acl: Access | None
    """Which ACL of the queue; None while ACLs are disabled."""
    kind: SubjectKind | None
    """The kind of subject that the entry stands for; None if this client is too old to know it."""
    name: str
    """The user, group or service; `*` for everyone."""
    nested: tuple[str, ...] = ()
    """The intermediate groups, if `name` contains the user through other groups: from the
    group next to `name` to the group that lists the user."""


@dataclass(frozen=True, slots=True)
class UsableQueue:
    """A queue that a user may use."""

    queue: str
    """The full path of the queue."""
    via: AccessGrant
    """The entry that decides a check."""


@dataclass(frozen=True, slots=True)
class ListedUser:
    """A user who may use a queue."""

    user: str
    """The name of the user."""
    via: tuple[AccessGrant, ...]
    """The entries that grant access, at most 10; the first one is the entry that decides a check.
    """
    further: int
    """The number of further entries that grant access."""
    confirmed: bool
    """Whether the server has just decided a check of this user, and allowed it."""
    detail: str
    """Why the user is not confirmed, for people; empty otherwise."""


@dataclass(frozen=True, slots=True)
class UnexpandedGroup:
    """A group whose members are not all known."""

    grant: AccessGrant
    """Where the group is listed."""
    detail: str
    """Why some members are unknown, for people."""


@dataclass(frozen=True, slots=True)
class UserPage:
    """A page of the users of a queue."""

    users: tuple[ListedUser, ...]
    """The users, sorted by name; none if `everyone` is true."""
    everyone: bool
    """Whether everyone may use the queue."""
    everyone_via: AccessGrant | None
    """The entry that lets everyone in, if there is one."""
    complete: bool
    """Whether the pages list each user whom a check would allow."""
    incomplete: tuple[str, ...]
    """Why the pages are incomplete, for people."""
    unexpanded_groups: tuple[UnexpandedGroup, ...]
    """The groups whose members are not all known."""
    proxies: tuple[AccessGrant, ...]
    """The services that are granted access for every user they act for."""
    groups_may_be_asserted: bool
    """Whether callers may assert groups: they may obtain access for users who are not listed."""
    directory_as_of: datetime | None
    """When the members of groups were read, in UTC; None if no group was expanded."""
    policy_revision: int
    """The revision of the policy that decided."""
    evaluated_queue: str
    """If the queue does not exist: its nearest existing ancestor, whose ACLs were evaluated."""
