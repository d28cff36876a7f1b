"""Decide who may access an application.

Access is granted to an application's owner, to users and groups listed in its own ACLs, to
administrators of its queue or of the queue's ancestors, and to the cluster's administrators. YARN's
documentation and Hadoop's code differ in which of these lists apply to an action.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum, auto
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.chain import CLUSTER
from queuegate.policy.decision import (
    ACLS_DISABLED,
    NO_MATCH,
    UNKNOWN_QUEUE,
    Access,
    Decision,
    Reason,
)
from queuegate.policy.queue import granting
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics, parse_yarn


class Action(StrEnum):
    """A kind of access to an application."""

    VIEW = auto()
    """View the application."""
    VIEW_LOGS = auto()
    """View the application's logs."""
    MODIFY = auto()
    """Modify or kill the application."""
    MOVE = auto()
    """Move the application to another queue. YARN only."""
    ADMIN = auto()
    """Act for other users. Spark only."""


class AccessListKind(StrEnum):
    """The origin of an `AccessList`."""

    OWNER = "owner"
    VIEW = "view"
    MODIFY = "modify"
    QUEUE_SUBMIT = "queue submit"
    QUEUE_ADMIN = "queue admin"
    CLUSTER_ADMIN = "cluster admin"
    APPLICATION_ADMIN = "application admin"
    """Administrators of a Spark application (`spark.admin.acls`, `spark.admin.acls.groups`)."""


class AccessList(NamedTuple):
    """An ACL that may grant access, with the path of its queue, if any."""

    kind: AccessListKind
    queue: str
    acl: Acl


class Application(NamedTuple):
    """A YARN application. `queue` is a path returned by `Partition.path`.

    Each ACL is either text or an `Acl` parsed under the cluster's semantics.
    """

    queue: str
    owner: str
    view_acl: Acl | str = " "
    modify_acl: Acl | str = " "


class ApplicationDecision(NamedTuple):
    """A decision on access to an application, with the evaluated lists."""

    decision: Decision | None
    """The decision; None if it depends on unknown groups."""
    lists: tuple[AccessList, ...]
    """The evaluated lists, in order, up to the list that granted access."""
    granting: tuple[int, ...] = ()
    """The indexes of the lists that granted access. For a move, the list that grants access to the
    application precedes the target queue's list."""


DISABLED: Final = ApplicationDecision(ACLS_DISABLED, ())
_REASONS: Final = {
    AccessListKind.OWNER: Reason.OWNER,
    AccessListKind.CLUSTER_ADMIN: Reason.CLUSTER_ADMIN,
}


class ApplicationsUnsupported(Exception):
    """The partition belongs to YuniKorn, so it has no application ACLs."""


def decide_application(
    partition: Partition,
    application: Application,
    action: Action,
    user: str,
    groups: Sequence[str] | None,
    *,
    target: str = "",
    real_user: str = "",
) -> ApplicationDecision:
    """Decide whether a user may access a YARN application.

    Args:
        partition: The partition that contains the application's queue.
        application: The application.
        action: The requested action.
        user: The user name.
        groups: All of the user's groups, or None if they are unknown.
        target: For a move, the target queue's path.
        real_user: The service acting for the user, if any.

    Raises:
        ApplicationsUnsupported: The partition belongs to YuniKorn.
        ValueError: The action is `Action.ADMIN`.
    """
    cluster = partition.cluster
    if cluster is None:
        raise ApplicationsUnsupported
    if action is Action.MOVE and target not in partition.queues:
        return ApplicationDecision(UNKNOWN_QUEUE, ())
    if not cluster.acls_enabled:
        return DISABLED
    documented = cluster.semantics is Semantics.DOCUMENTED
    if action is not Action.MOVE:
        lists = list(_lists(partition, application, action))
        return evaluate(lists, user, groups, real_user)
    source = (
        list(_queue(partition, application.queue, Access.SUBMIT))
        if documented
        else list(_lists(partition, application, Action.MODIFY))
    )
    first = evaluate(source, user, groups, real_user)
    if first.decision is not None and not first.decision.allowed:
        return first
    second = evaluate(list(_queue(partition, target, Access.SUBMIT)), user, groups, real_user)
    decided = second.decision
    if first.decision is None and (decided is None or decided.allowed):
        decided = None
    of_target = (len(first.lists) + index for index in second.granting)
    return ApplicationDecision(
        decided, (*first.lists, *second.lists), (*first.granting, *of_target)
    )


def evaluate(
    lists: Sequence[AccessList], user: str, groups: Sequence[str] | None, real_user: str = ""
) -> ApplicationDecision:
    """Evaluate lists in order. The first list that allows everyone, the user or the service grants
    access; if there is none, the first list that contains one of the user's groups.
    """
    for count, listed in enumerate(lists, start=1):
        acl = listed.acl
        if acl.allows_all or user in acl.users or real_user in acl.proxies:
            named = user if user in acl.users else f"~{real_user}"
            subject = WILDCARD if acl.allows_all else named
            plain = Reason.WILDCARD if acl.allows_all else Reason.USER
            decision = _grant(listed, plain, subject)
            return ApplicationDecision(decision, tuple(lists[:count]), (count - 1,))
    if not any(listed.acl.groups for listed in lists):
        return ApplicationDecision(NO_MATCH, tuple(lists))
    if groups is None:
        return ApplicationDecision(None, tuple(lists))
    for count, listed in enumerate(lists, start=1):
        for group in groups:
            if group in listed.acl.groups:
                decision = _grant(listed, Reason.GROUP, group)
                return ApplicationDecision(decision, tuple(lists[:count]), (count - 1,))
    return ApplicationDecision(NO_MATCH, tuple(lists))


def _grant(listed: AccessList, plain: Reason, subject: str) -> Decision:
    return Decision(True, _REASONS.get(listed.kind, plain), listed.queue, subject)


def _lists(partition: Partition, application: Application, action: Action) -> Iterator[AccessList]:
    cluster = partition.cluster
    if cluster is None or action in {Action.ADMIN, Action.MOVE}:
        raise ValueError(action)
    documented = cluster.semantics is Semantics.DOCUMENTED
    owners = frozenset({application.owner}) - {""}
    yield AccessList(AccessListKind.OWNER, "", Acl(text=application.owner, users=owners))
    if action is not Action.MODIFY:
        acl = _parse(application.view_acl, cluster.semantics)
        yield AccessList(AccessListKind.VIEW, "", acl)
    if action is Action.MODIFY or documented:
        # In YARN's documentation, the right to modify an application includes the right to view it.
        acl = _parse(application.modify_acl, cluster.semantics)
        yield AccessList(AccessListKind.MODIFY, "", acl)
    if documented:
        yield from _queue(partition, application.queue, Access.ADMIN)
        return
    if action is not Action.VIEW_LOGS:
        yield from _queue(partition, application.queue, Access.ADMIN)
    yield AccessList(AccessListKind.CLUSTER_ADMIN, CLUSTER, cluster.admins)


def _parse(acl: Acl | str, semantics: Semantics) -> Acl:
    return parse_yarn(acl, semantics) if isinstance(acl, str) else acl


def _queue(partition: Partition, path: str, access: Access) -> Iterator[AccessList]:
    """For a queue and its ancestors, yield the ACLs that grant this kind of access. Under
    documented semantics, also yield the cluster administrators' ACL.
    """
    kinds = granting(access, AccessListKind.QUEUE_SUBMIT, AccessListKind.QUEUE_ADMIN)
    for queue in partition.upwards(path):
        for kind, acl in zip(kinds, queue.acls_granting(access), strict=True):
            yield AccessList(kind, queue.path, acl)
    cluster = partition.cluster
    if cluster is not None and cluster.semantics is Semantics.DOCUMENTED:
        yield AccessList(AccessListKind.CLUSTER_ADMIN, CLUSTER, cluster.admins)
