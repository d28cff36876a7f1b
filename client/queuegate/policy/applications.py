"""(application, action, user, groups) -> Decision: the rules of access to applications.

An application is open to its owner, to those whom its own lists name, to the
administrators of its queue, by inheritance, and to those of the cluster. What counts for
which action differs between YARN's documentation and Hadoop's code; each has a table here.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.chain import CLUSTER
from queuegate.policy.decision import ACLS_DISABLED, NO_MATCH, Decision, Reason
from queuegate.policy.names import parent_path
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics, parse_yarn


class Action(StrEnum):
    """What a user may want to do with an application."""

    VIEW = "view"
    VIEW_LOGS = "view logs"
    MODIFY = "modify"
    """Change or kill it."""
    MOVE = "move"
    """Move it to another queue."""
    ADMIN = "admin"
    """Act for other users. Spark only."""


class ListKind(StrEnum):
    """Which list of names was looked at."""

    OWNER = "owner"
    VIEW = "view"
    MODIFY = "modify"
    QUEUE_SUBMIT = "queue submit"
    QUEUE_ADMIN = "queue admin"
    CLUSTER_ADMIN = "cluster admin"
    APPLICATION_ADMIN = "application admin"
    """Spark's administrators of all applications."""


class Listed(NamedTuple):
    """A list of names that opens the application, with the path of its queue if it has one."""

    kind: ListKind
    queue: str
    acl: Acl


class Application(NamedTuple):
    """An application of YARN. `queue` is spelled as the partition spells paths."""

    queue: str
    owner: str
    view_acl: str = " "
    modify_acl: str = " "


class Judged(NamedTuple):
    """A decision (None if it depends on groups that are not known), and what led to it."""

    decision: Decision | None
    lists: tuple[Listed, ...]
    """All lists that were looked at, in order, up to the one that granted."""


DISABLED: Final = Judged(ACLS_DISABLED, ())
_REASONS: Final = {
    ListKind.OWNER: Reason.OWNER,
    ListKind.CLUSTER_ADMIN: Reason.CLUSTER_ADMIN,
}


class NoApplications(Exception):
    """The partition is none of YARN, so it has no rules about applications."""


def decide_application(
    partition: Partition,
    application: Application,
    action: Action,
    user: str,
    groups: Sequence[str] | None,
    *,
    target: str = "",
    real_user: str = "",
) -> Judged:
    """Decide about an application of YARN. `target` is the path of the queue to move it to,
    `real_user` the service that acts for the user.

    `groups` are all groups of the user, or None while they are not known. Raises
    NoApplications for a partition of YuniKorn, and ValueError for Action.ADMIN.
    """
    cluster = partition.cluster
    if cluster is None:
        raise NoApplications
    if action is Action.MOVE and target not in partition.queues:
        return Judged(NO_MATCH, ())
    if not cluster.acls_enabled:
        return DISABLED
    documented = cluster.semantics is Semantics.DOCUMENTED
    if action is not Action.MOVE:
        lists = list(_lists(partition, application, action))
        return judge(lists, user, groups, real_user)
    source = (
        list(_queue(partition, application.queue, submit=True))
        if documented
        else list(_lists(partition, application, Action.MODIFY))
    )
    first = judge(source, user, groups, real_user)
    if first.decision is not None and not first.decision.allowed:
        return first
    second = judge(list(_queue(partition, target, submit=True)), user, groups, real_user)
    decided = second.decision
    if first.decision is None and (decided is None or decided.allowed):
        decided = None
    return Judged(decided, (*first.lists, *second.lists))


def judge(
    lists: Sequence[Listed], user: str, groups: Sequence[str] | None, real_user: str = ""
) -> Judged:
    """Find the first list that names everybody, the user, or who acts for the user; else the
    first with a group.
    """
    for count, listed in enumerate(lists, start=1):
        acl = listed.acl
        if acl.allows_all or user in acl.users or real_user in acl.proxies:
            named = user if user in acl.users else f"~{real_user}"
            subject = WILDCARD if acl.allows_all else named
            plain = Reason.WILDCARD if acl.allows_all else Reason.USER
            return Judged(_granted(listed, plain, subject), tuple(lists[:count]))
    if not any(listed.acl.groups for listed in lists):
        return Judged(NO_MATCH, tuple(lists))
    if groups is None:
        return Judged(None, tuple(lists))
    for count, listed in enumerate(lists, start=1):
        for group in groups:
            if group in listed.acl.groups:
                return Judged(_granted(listed, Reason.GROUP, group), tuple(lists[:count]))
    return Judged(NO_MATCH, tuple(lists))


def _granted(listed: Listed, plain: Reason, subject: str) -> Decision:
    return Decision(True, _REASONS.get(listed.kind, plain), listed.queue, subject)


def _lists(partition: Partition, application: Application, action: Action) -> Iterator[Listed]:
    cluster = partition.cluster
    if cluster is None or action in {Action.ADMIN, Action.MOVE}:
        raise ValueError(action)
    documented = cluster.semantics is Semantics.DOCUMENTED
    owners = frozenset({application.owner}) - {""}
    yield Listed(ListKind.OWNER, "", Acl(text=application.owner, users=owners))
    if action is not Action.MODIFY:
        acl = parse_yarn(application.view_acl, cluster.semantics)
        yield Listed(ListKind.VIEW, "", acl)
    if action is Action.MODIFY or documented:
        # As documented, who may modify an application may see it.
        acl = parse_yarn(application.modify_acl, cluster.semantics)
        yield Listed(ListKind.MODIFY, "", acl)
    if documented:
        yield from _queue(partition, application.queue, submit=False)
        return
    if action is not Action.VIEW_LOGS:
        yield from _queue(partition, application.queue, submit=False)
    yield Listed(ListKind.CLUSTER_ADMIN, CLUSTER, cluster.admins)


def _queue(partition: Partition, path: str, *, submit: bool) -> Iterator[Listed]:
    """Yield the ACLs from a queue up to the root, and what is above it as documented."""
    path = partition.nearest(path).path
    while queue := partition.queues.get(path):
        if submit:
            yield Listed(ListKind.QUEUE_SUBMIT, path, queue.submit_acl)
        yield Listed(ListKind.QUEUE_ADMIN, path, queue.admin_acl)
        path = parent_path(path)
    cluster = partition.cluster
    if cluster is not None and cluster.semantics is Semantics.DOCUMENTED:
        yield Listed(ListKind.CLUSTER_ADMIN, CLUSTER, cluster.admins)
