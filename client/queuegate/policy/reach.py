"""List who may use a queue: the names in its effective ACL, and the ACLs that list them.

A queue's effective ACL is the union of all ACLs that `decide` evaluates. Both use the same chain,
so they always agree: a user is allowed if and only if the effective ACL allows everyone, or lists
the user, one of the user's groups, or the service acting for the user.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import cached_property
from typing import Final, NamedTuple

from queuegate.policy.acl import EMPTY, WILDCARD, Acl
from queuegate.policy.chain import CLUSTER
from queuegate.policy.decision import Access, Decision, Reason
from queuegate.policy.queue import Queue, granting
from queuegate.policy.tree import Partition


class SubjectKind(StrEnum):
    """The kind of subject to which a name in an ACL refers."""

    EVERYONE = auto()
    """Everyone, represented by the name `*`."""
    USER = auto()
    """A user."""
    GROUP = auto()
    """The members of a group."""
    PROXY = auto()
    """A service granted access on behalf of any user (Hadoop's `~name`)."""

    # Faster than Enum.__hash__; see `Access`.
    __hash__ = str.__hash__


# Copied to constants, because accessing enum members took a third of `who_can`'s run time.
_SUBMIT: Final = Access.SUBMIT
_ADMIN: Final = Access.ADMIN
_USER: Final = SubjectKind.USER
_new_tuple: Final = tuple.__new__


class Grant(NamedTuple):
    """An ACL entry that grants access. Responses list it in `via`."""

    queue: str
    """The path of the ACL's queue; empty for the cluster's administrators."""
    acl: Access | None
    """The kind of ACL; None if the cluster does not enforce ACLs."""
    kind: SubjectKind
    name: str
    """`*` for everyone."""
    origins: tuple[str, ...] = ()
    """The role bindings behind the entry, if the ACL is built from role bindings."""


@dataclass(frozen=True)
class EffectiveAcl:
    """The names with access to a queue. A name in several ACLs is attributed to the nearest ACL."""

    partition: Partition
    path: str
    """The queue path."""
    access: Access
    open_by: Decision | None
    """The decision that allows everyone, if any."""
    users: Mapping[str, str]
    """The path of the nearest queue listing each user."""
    groups: Mapping[str, str]
    """The path of the nearest queue listing each group. Empty if everyone is allowed."""
    proxies: Mapping[str, str]
    """The path of the nearest queue listing each proxy. Empty if everyone is allowed."""

    def allows(self, user: str, groups: Iterable[str], real_user: str = "") -> bool:
        """Return whether `decide` would allow a user with these groups."""
        return (
            self.open_by is not None
            or user in self.users
            or any(group in self.groups for group in groups)
            or (bool(real_user) and real_user in self.proxies)
        )

    @cached_property
    def _queues(self) -> Mapping[str, Queue]:
        return {queue.path: queue for queue in self.partition.upwards(self.path)}

    def acl_of(self, queue: str, kind: Access) -> Acl:
        """Return an ACL that is set on `queue` itself. `queue` is at or above `path`."""
        return self._queues[queue].acl(kind)

    @property
    def everyone(self) -> Grant | None:
        """The grant that allows everyone, if any."""
        return self.open_by and grant_of(self.partition, self.path, self.access, self.open_by, "")

    def grant(self, kind: SubjectKind, name: str) -> Grant:
        """Return the grant for a listed name. Raises KeyError if the name is not listed."""
        listed = {
            SubjectKind.USER: self.users,
            SubjectKind.GROUP: self.groups,
            SubjectKind.PROXY: self.proxies,
        }
        queue = self._queues.get(listed[kind][name])
        return _grant(queue, self.access, kind, name)

    def grants(self) -> Iterator[Grant]:
        """Yield all grants, sorted by kind and name."""
        if (everyone := self.everyone) is not None:
            yield everyone
        for kind, names in (
            (SubjectKind.USER, self.users),
            (SubjectKind.GROUP, self.groups),
            (SubjectKind.PROXY, self.proxies),
        ):
            for name in sorted(names):
                yield self.grant(kind, name)


class QueueUsers(NamedTuple):
    """The people who may use a queue."""

    everyone: Grant | None
    """The grant that allows everyone, if any. If everyone is allowed, `users` contains only users
    who are also listed by name.
    """
    users: dict[str, list[Grant]]
    """Each user's grants. A grant for the user's own name comes first."""
    unexpanded: list[Grant]
    """The grants to groups whose members are unknown."""
    proxies: list[Grant]
    """The grants to services acting on behalf of any user."""


def effective_acl(partition: Partition, path: str, access: Access) -> EffectiveAcl:
    """Return the effective ACL of a queue.

    Args:
        partition: The queue's partition.
        path: The queue path, as returned by `Partition.path`. The queue need not exist.
        access: The kind of access.
    """
    chain = partition.chain(path, access)
    users, groups = chain.merged()
    otherwise = chain.otherwise
    proxies: dict[str, str] = {}
    for level in chain.levels():
        for name in level.services:
            proxies.setdefault(name, level.queue)
    open_by = otherwise if otherwise is not None and otherwise.allowed else None
    return EffectiveAcl(partition, path, access, open_by, users, groups, proxies)


def who_can(acl: EffectiveAcl, members: Mapping[str, Iterable[str]]) -> QueueUsers:
    """Return the people allowed by an effective ACL.

    Args:
        acl: The effective ACL of a queue.
        members: The members of each group, including nested members.
    """
    users: dict[str, list[Grant]] = {}
    kinds = granting(acl.access, _SUBMIT, _ADMIN)
    first_kind, last_kind = kinds[0], kinds[-1]
    # Map each queue to the ACL that is evaluated first.
    first = {
        queue: acl.acl_of(queue, first_kind) if queue != CLUSTER else EMPTY
        for queue in {*acl.users.values()}
    }
    for user, queue in acl.users.items():
        own = first[queue]
        kind = first_kind if user in own.users else last_kind
        # This is three times as fast as the NamedTuple constructor.
        users[user] = [
            _new_tuple(Grant, (queue, kind, _USER, user, own.origins.users.get(user, ())))
        ]
    unexpanded = []
    for group in acl.groups:
        grant = acl.grant(SubjectKind.GROUP, group)
        group_members = members.get(group)
        if group_members is None:
            unexpanded.append(grant)
            continue
        for user in group_members:
            if (known := users.get(user)) is None:
                users[user] = [grant]
            else:
                known.append(grant)
    proxies = [acl.grant(SubjectKind.PROXY, name) for name in acl.proxies]
    return QueueUsers(acl.everyone, users, unexpanded, proxies)


def grant_of(
    partition: Partition, path: str, access: Access, decision: Decision, user: str
) -> Grant:
    """Return the grant on which a decision by `decide` is based.

    Args:
        partition: The queue's partition.
        path: The requested path.
        access: The requested kind of access.
        decision: A decision that grants access.
        user: The user name, required because users and groups can share a name.

    Raises:
        ValueError: The decision denies access.
    """
    if not decision.allowed:
        raise ValueError("the decision denies access")
    queue, subject = decision.matched_queue, decision.matched_subject
    if decision.reason is Reason.ACLS_DISABLED:
        return Grant(CLUSTER, None, SubjectKind.EVERYONE, WILDCARD)
    admins = partition.cluster.admins if partition.cluster and queue == CLUSTER else None
    if decision.reason is Reason.GROUP:
        kind = SubjectKind.GROUP
    elif decision.reason is Reason.WILDCARD or (admins and admins.allows_all):
        kind = SubjectKind.EVERYONE
    elif admins:
        kind = SubjectKind.USER if subject == user in admins.users else SubjectKind.GROUP
    elif subject == user:
        kind = SubjectKind.USER
    else:
        kind, subject = SubjectKind.PROXY, subject.removeprefix("~")
    return _grant(_queue(partition, path, queue), access, kind, subject)


def _queue(partition: Partition, path: str, deciding: str) -> Queue | None:
    """Return the configured or created queue at path `deciding`, or None for the cluster."""
    if (queue := partition.queues.get(deciding)) is not None:
        return queue
    return next((queue for queue in partition.created(path) if queue.path == deciding), None)


def _grant(queue: Queue | None, access: Access, kind: SubjectKind, name: str) -> Grant:
    """Return the grant for a name in a queue's ACLs or, if the queue is None, in the cluster
    administrators' ACL.
    """
    if queue is None:
        return Grant(CLUSTER, Access.ADMIN, kind, name)
    *earlier, last = granting(access, _SUBMIT, _ADMIN)
    own = next((each for each in earlier if _lists(queue.acl(each), kind, name)), last)
    return Grant(queue.path, own, kind, name, _origins(queue.acl(own), kind, name))


def _origins(acl: Acl, kind: SubjectKind, name: str) -> tuple[str, ...]:
    names = acl.origins.users if kind is SubjectKind.USER else acl.origins.groups
    return names.get(name, ())


def _lists(acl: Acl, kind: SubjectKind, name: str) -> bool:
    if kind is SubjectKind.USER:
        return name in acl.users
    if kind is SubjectKind.GROUP:
        return name in acl.groups
    return acl.allows_all if kind is SubjectKind.EVERYONE else name in acl.proxies
