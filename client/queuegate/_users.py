"""Results of listing a user's queues or a queue's users. Does not import gRPC."""

from dataclasses import dataclass
from datetime import datetime

from queuegate.policy.decision import Access
from queuegate.policy.reach import SubjectKind


@dataclass(frozen=True, slots=True)
class AccessGrant:
    """An entry in an access control list (ACL) that grants access."""

    queue: str
    """The queue path; empty for cluster administrators, and while ACLs are disabled."""
    acl: Access | None
    """The kind of ACL; None while ACLs are disabled."""
    kind: SubjectKind | None
    """The kind of subject; None if it is unknown to this client, because the server is newer."""
    name: str
    """The user, group or service; `*` for everyone."""
    nested: tuple[str, ...] = ()
    """If the user belongs to `name` only through nested groups, these groups, starting with the
    direct member of `name`.
    """
    origins: tuple[str, ...] = ()
    """The role bindings behind the entry, as in `AclEntry`, if the ACL is built from Kubernetes
    role bindings.
    """


@dataclass(frozen=True, slots=True)
class UsableQueue:
    """A queue that a user may use."""

    queue: str
    """The full queue path."""
    via: AccessGrant
    """The ACL entry that a check would report as the match."""


@dataclass(frozen=True, slots=True)
class ListedUser:
    """A user who may use a queue."""

    user: str
    """The user name."""
    via: tuple[AccessGrant, ...]
    """At most 10 entries that grant access. The first is the entry that a check would report."""
    further: int
    """The number of additional entries that grant access."""
    confirmed: bool
    """Whether the server has just run a check for this user, and the check granted access."""
    detail: str
    """Why the user is not confirmed, in words."""


@dataclass(frozen=True, slots=True)
class UnexpandedGroup:
    """A group whose members are unknown."""

    grant: AccessGrant
    """The entry that lists the group."""
    detail: str
    """Why the members are unknown, in words."""


@dataclass(frozen=True, slots=True)
class UserPage:
    """A page of users who may use a queue."""

    users: tuple[ListedUser, ...]
    """The users, sorted by name; none if `everyone` is true."""
    everyone: bool
    """Whether everyone may use the queue."""
    everyone_via: AccessGrant | None
    """The entry that grants access to everyone, if any."""
    complete: bool
    """Whether the pages list every user who would be granted access in a check."""
    incomplete: tuple[str, ...]
    """Why the pages are incomplete, in words."""
    unexpanded_groups: tuple[UnexpandedGroup, ...]
    """The groups whose members are unknown."""
    proxies: tuple[AccessGrant, ...]
    """The services granted access on behalf of any user."""
    groups_may_be_asserted: bool
    """Whether callers may assert groups, and can thereby obtain access for users who are not
    listed."""
    directory_as_of: datetime | None
    """When the group members were read, in UTC; None if no group was expanded."""
    policy_revision: int
    """The evaluated policy's revision."""
    evaluated_queue: str
    """The nearest existing ancestor of a missing queue; its ACLs were evaluated instead. Empty if
    the queue exists.
    """
