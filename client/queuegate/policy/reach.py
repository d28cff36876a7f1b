"""Finds who may use a queue: the names that its effective ACL lists, and the ACLs that list them.

The effective ACL of a queue is the union of all ACLs that `decide` evaluates for it. Both use the
same chain of ACLs, so they always agree: a user is allowed if and only if the effective ACL lets
everyone in, or lists the user, a group of the user, or the service that acts for them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import cached_property
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.chain import CLUSTER
from queuegate.policy.decision import Access, Decision, Reason
from queuegate.policy.queue import Queue
from queuegate.policy.tree import Partition


class SubjectKind(StrEnum):
    """The kind of subject that a name in an ACL stands for."""

    EVERYONE = auto()
    """Everyone: the name is `*`."""
    USER = auto()
    """A user."""
    GROUP = auto()
    """The members of a group."""
    PROXY = auto()
    """A service that gets access for every user it acts for (Hadoop's `~name`)."""

    # Enumerations are hashed in Python code, and members are used in dictionary keys.
    __hash__ = str.__hash__


# Accessing enumeration members took a third of the time of `who_can`.
_SUBMIT: Final = Access.SUBMIT
_ADMIN: Final = Access.ADMIN
_USER: Final = SubjectKind.USER
_new_tuple: Final = tuple.__new__


class Grant(NamedTuple):
    """A name in an ACL that lets users in: the *via* of an answer."""

    queue: str
    """The path of the queue with the ACL; empty for the administrators of the cluster."""
    acl: Access | None
    """The ACL of that queue; None if the cluster does not enforce ACLs."""
    kind: SubjectKind
    name: str
    """`*` for everyone."""


@dataclass(frozen=True)
class EffectiveAcl:
    """The names that may use a queue. If several ACLs list a name, the nearest applies."""

    partition: Partition
    path: str
    """The path of the queue."""
    access: Access
    open_by: Decision | None
    """The decision that lets everyone in; None if there is none."""
    users: Mapping[str, str]
    """The path of the nearest queue that lists each user, by name."""
    groups: Mapping[str, str]
    """The same paths for groups. Empty if everyone is let in."""
    proxies: Mapping[str, str]
    """The same paths for services that act for users. Empty if everyone is let in."""

    def allows(self, user: str, groups: Iterable[str], real_user: str = "") -> bool:
        """Return whether `decide` allows a user with these groups."""
        return (
            self.open_by is not None
            or user in self.users
            or any(group in self.groups for group in groups)
            or (bool(real_user) and real_user in self.proxies)
        )

    @cached_property
    def _queues(self) -> Mapping[str, Queue]:
        return {queue.path: queue for queue in self.partition.upwards(self.path)}

    def users_of(self, queue: str) -> frozenset[str]:
        """Return the users listed in the submit ACL of one of the queues."""
        return self._queues[queue].submit_acl.users

    @property
    def everyone(self) -> Grant | None:
        """The grant that lets everyone in, if any."""
        return self.open_by and grant_of(self.partition, self.path, self.access, self.open_by, "")

    def grant(self, kind: SubjectKind, name: str) -> Grant:
        """Return the grant of a listed name. Raises KeyError if it is not listed."""
        listed = {
            SubjectKind.USER: self.users,
            SubjectKind.GROUP: self.groups,
            SubjectKind.PROXY: self.proxies,
        }
        queue = self._queues.get(listed[kind][name])
        return _grant(queue, self.access, kind, name)

    def grants(self) -> Iterator[Grant]:
        """Yield a grant for everyone, and for each name, sorted by kind and name."""
        if (everyone := self.everyone) is not None:
            yield everyone
        for kind, names in (
            (SubjectKind.USER, self.users),
            (SubjectKind.GROUP, self.groups),
            (SubjectKind.PROXY, self.proxies),
        ):
            for name in sorted(names):
                yield self.grant(kind, name)


class WhoCan(NamedTuple):
    """The people who may use a queue."""

    everyone: Grant | None
    """The grant that lets everyone in. If set, the users are only those that are also listed."""
    users: dict[str, list[Grant]]
    """The grants of each user, starting with the grant for the user's own name."""
    unexpanded: list[Grant]
    """The groups with unknown members."""
    proxies: list[Grant]
    """The services that get access for every user they act for."""


def effective_acl(partition: Partition, path: str, access: Access) -> EffectiveAcl:
    """Return the effective ACL of a queue.

    Args:
        partition: The partition of the queue.
        path: The path of the queue, as `Partition.path` returns it. It need not exist.
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


def who_can(acl: EffectiveAcl, members: Mapping[str, Iterable[str]]) -> WhoCan:
    """Return the people that an effective ACL lets in.

    Args:
        acl: The effective ACL of a queue.
        members: The members of the groups by group name, including nested members.
    """
    users: dict[str, list[Grant]] = {}
    submit = acl.access is Access.SUBMIT
    # By queue: the users listed in its submit ACL, which is evaluated first.
    first = {
        queue: acl.users_of(queue) if submit and queue != CLUSTER else frozenset()
        for queue in {*acl.users.values()}
    }
    for user, queue in acl.users.items():
        kind = _SUBMIT if user in first[queue] else _ADMIN
        # Like the constructor of a named tuple, at a third of its cost.
        users[user] = [_new_tuple(Grant, (queue, kind, _USER, user))]
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
    return WhoCan(acl.everyone, users, unexpanded, proxies)


def grant_of(
    partition: Partition, path: str, access: Access, decision: Decision, user: str
) -> Grant:
    """Return the grant behind a decision of `decide` that allows access.

    Args:
        partition: The partition of the queue.
        path: The path of the queue in the question.
        access: The kind of access in the question.
        decision: The decision. Raises ValueError if it denies access.
        user: The user in the question, since users and groups can share a name.
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
    """Return the queue that decides about a path; None for the administrators of the cluster."""
    if (queue := partition.queues.get(deciding)) is not None:
        return queue
    return next((queue for queue in partition.created(path) if queue.path == deciding), None)


def _grant(queue: Queue | None, access: Access, kind: SubjectKind, name: str) -> Grant:
    """Return the grant of a name listed at a queue, where the submit ACL is evaluated first.

    Without a queue, the name is an administrator of the cluster.
    """
    if queue is None:
        return Grant(CLUSTER, Access.ADMIN, kind, name)
    if access is Access.SUBMIT and _lists(queue.submit_acl, kind, name):
        return Grant(queue.path, Access.SUBMIT, kind, name)
    return Grant(queue.path, Access.ADMIN, kind, name)


def _lists(acl: Acl, kind: SubjectKind, name: str) -> bool:
    if kind is SubjectKind.USER:
        return name in acl.users
    if kind is SubjectKind.GROUP:
        return name in acl.groups
    return acl.allows_all if kind is SubjectKind.EVERYONE else name in acl.proxies
