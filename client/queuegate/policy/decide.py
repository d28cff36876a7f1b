"""(queue, user, groups, access) -> Decision: the rules of queue access.

From the queue up to the root, submission is granted by the submit ACL or the
admin ACL, administration by the admin ACL (YuniKorn `pkg/scheduler/objects/queue.go`,
CheckSubmitAccess and CheckAdminAccess). Wildcards and users are looked at first,
on all levels; groups only if none of those decides: the ACL documents say that
the groups of a listed user are irrelevant, so such a user is served while the
directory is down. The recovery queue of YuniKorn and all below it is never granted
for submission.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from queuegate.policy.decision import NO_MATCH, Access, Decision, Reason
from queuegate.policy.names import parent_path
from queuegate.policy.queue import Chain
from queuegate.policy.tables import By
from queuegate.policy.tree import Partition

_SUBMIT: Final = Access.SUBMIT
_USER: Final = Reason.USER
_GROUP: Final = Reason.GROUP


def decide(
    partition: Partition,
    path: str,
    access: Access,
    user: str,
    groups: Sequence[str] | None,
    *,
    real_user: str = "",
) -> Decision | None:
    """Decide about a queue, given by its path as the partition spells it.

    `groups` are all groups of the user, or None while they are not known. Returns
    None only then, and only if the decision depends on them. `real_user` is the service
    that acts for the user, empty if none does.
    """
    tables = partition.submit_tables if access is _SUBMIT else partition.admin_tables
    table = tables.by_path.get(path)
    if table is None:
        chain = partition.nearest(path).chain(access)
        table = tables.note(path, chain)
    if table is None:
        decision = walk(chain, user, groups)
    else:
        users, decision, listed = table
        granted = users.get(user)
        if granted is not None:
            decision = _made(users, user, granted, _USER) if isinstance(granted, str) else granted
        elif decision is None and groups is not None:
            decision = NO_MATCH
            for group in groups:
                if group in listed:
                    granted = listed[group]
                    # `isinstance` costs a twentieth of the whole.
                    if type(granted) is str:
                        granted = _made(listed, group, granted, _GROUP)
                    # Of queues one above the other the nearest has the longest path.
                    if decision is NO_MATCH or len(granted[2]) > len(decision[2]):
                        decision = granted
    if real_user and (decision is None or not decision.allowed):
        return _by_proxy(partition, path, access, real_user) or decision
    return decision


def _made(listed: By, name: str, queue: str, reason: Reason) -> Decision:
    """Make a decision, which is then kept in its table."""
    decision = listed[name] = _granted(reason, queue, name)
    return decision


def _by_proxy(partition: Partition, path: str, access: Access, real_user: str) -> Decision | None:
    """Return the grant of an ACL that lists `~real_user`, from the queue up; None without one.

    Looked up in the ACLs and not in the chains, so that the many questions without a real
    user do not pay for it.
    """
    path = partition.nearest(path).path
    while queue := partition.queues.get(path):
        if real_user in queue.admin_acl.proxies or (
            access is Access.SUBMIT and real_user in queue.submit_acl.proxies
        ):
            return Decision(True, Reason.USER, path, f"~{real_user}")
        path = parent_path(path)
    return None


def walk(chain: Chain, user: str, groups: Sequence[str] | None) -> Decision | None:
    """Evaluate a chain: the one walk behind decisions, explanations and listings.

    Returns None if the groups are not known (None) and the decision depends on them.
    """
    users, user_queues, listed_groups, group_queues, otherwise = chain
    for listed in users:
        if user in listed:
            return _granted(_USER, user_queues[users.index(listed)], user)
    if otherwise is not None:
        return otherwise
    if groups is None:
        return None
    for listed in listed_groups:
        if not listed.isdisjoint(groups):
            for group in groups:
                if group in listed:
                    return _granted(_GROUP, group_queues[listed_groups.index(listed)], group)
    return NO_MATCH


def _granted(reason: Reason, queue: str, subject: str) -> Decision:
    if not queue:
        reason = Reason.CLUSTER_ADMIN
    # What the constructor of a named tuple does, at a third of its price.
    return tuple.__new__(Decision, (True, reason, queue, subject))


def usable(
    partition: Partition,
    paths: Iterable[str],
    access: Access,
    user: str,
    groups: Sequence[str] | None,
    *,
    real_user: str = "",
) -> list[str] | None:
    """Return those of the existing queues that the user may use, in the given order.

    Returns None if the groups are not known (None) and an answer depends on them.
    """
    found = []
    # Queues without ACLs of their own share the chain of their parent.
    decided: dict[int, bool] = {}
    for path in paths:
        chain = partition.queues[path].chain(access)
        allowed = decided.get(id(chain))
        if allowed is None:
            decision = walk(chain, user, groups)
            if decision is None:
                return None
            allowed = decided[id(chain)] = decision.allowed
        if allowed or (real_user and _by_proxy(partition, path, access, real_user)):
            found.append(path)
    return found
