"""Decides who may use a queue.

From the queue up to the root, the submit ACL or the admin ACL grants submission, and the admin ACL
grants administration (YuniKorn `pkg/scheduler/objects/queue.go`, CheckSubmitAccess and
CheckAdminAccess). `chain.py` defines the order of evaluation. Submission to YuniKorn's recovery
queue, or to any queue below it, is never granted.
"""

from collections.abc import Iterable, Iterator, Sequence

from queuegate.policy.decision import IN_RECOVERY_QUEUE, Access, Decision, Reason
from queuegate.policy.tree import Partition


def decide(
    partition: Partition,
    path: str,
    access: Access,
    user: str,
    groups: Sequence[str] | None,
    *,
    real_user: str = "",
) -> Decision | None:
    """Decide whether a user may use a queue.

    Args:
        partition: The partition of the queue.
        path: The path of the queue, as `Partition.path` returns it.
        access: The kind of access.
        user: The name of the user.
        groups: All groups of the user, or None if they are unknown.
        real_user: The service that acts for the user, if any.

    Returns:
        The decision; None if `groups` is None and the decision depends on them.
    """
    decision = partition.chain(path, access).decide(user, groups)
    if real_user and (decision is None or not decision.allowed):
        return _by_proxy(partition, path, access, real_user) or decision
    return decision


def proxies_upwards(
    partition: Partition, path: str, access: Access
) -> Iterator[tuple[str, frozenset[str]]]:
    """From the nearest queue of a path up to the root, yield the path and the services that the
    ACLs of the queue list as `~name`.

    Chains do not include these names: most questions have no real user.
    """
    for queue in partition.upwards(path):
        proxies = queue.admin_acl.proxies
        yield queue.path, proxies | queue.submit_acl.proxies if access is Access.SUBMIT else proxies


def _by_proxy(partition: Partition, path: str, access: Access, real_user: str) -> Decision | None:
    """Return the grant of the nearest ACL that lists `~real_user`, if any."""
    for queue, proxies in proxies_upwards(partition, path, access):
        if real_user in proxies:
            return Decision(True, Reason.USER, queue, f"~{real_user}")
    return None


def evaluated_instead(partition: Partition, path: str, decision: Decision) -> str:
    """Return the nearest existing ancestor, which decided, of a queue that does not exist.

    Empty if the queue exists or will be created, or the decision does not depend on it.
    """
    if path in partition.queues or decision is IN_RECOVERY_QUEUE:
        return ""
    nearest = partition.nearest_path(path)
    return "" if nearest == path else nearest


def usable(
    partition: Partition,
    paths: Iterable[str],
    access: Access,
    user: str,
    groups: Sequence[str] | None,
    *,
    real_user: str = "",
) -> list[tuple[str, Decision]] | None:
    """Return the queues at `paths` that the user may use, in the given order, each with the
    decision of `decide`.

    Returns None if `groups` is None and a decision depends on them.
    """
    usable = []
    # By chain: queues without their own ACLs share the chain of their parent.
    decided: dict[object, Decision] = {}
    for path in paths:
        chain = partition.chain(path, access)
        decision = decided.get(chain)
        if decision is None:
            decision = chain.decide(user, groups)
            if decision is None:
                return None
            decided[chain] = decision
        if not decision.allowed and real_user:
            decision = _by_proxy(partition, path, access, real_user) or decision
        if decision.allowed:
            usable.append((path, decision))
    return usable
