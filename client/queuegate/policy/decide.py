"""Decide who may use a queue.

A queue's own ACLs and those of all its ancestors grant access; `granting` in `queue.py` defines
which of these ACLs grant which kind of access, and `chain.py` defines the order of evaluation.
Submission to YuniKorn's recovery queue or any queue below it is always denied.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from queuegate.policy.chain import Chain
from queuegate.policy.decision import IN_RECOVERY_QUEUE, Access, Decision
from queuegate.policy.tree import Partition


class Chains(Protocol):
    """A source of chains, by queue and kind of access."""

    def chain(self, path: str, access: Access) -> Chain:
        """Return the chain of a queue."""


def decide(
    partition: Chains,
    path: str,
    access: Access,
    user: str,
    groups: Sequence[str] | None,
    *,
    real_user: str = "",
) -> Decision | None:
    """Decide whether a user may use a queue.

    Args:
        partition: The queue's partition.
        path: The queue path, as returned by `Partition.path`.
        access: The kind of access.
        user: The user name.
        groups: All of the user's groups, or None if they are unknown.
        real_user: The service acting for the user, if any.

    Returns:
        The decision; None if `groups` is None and the decision depends on them.
    """
    return partition.chain(path, access).decide(user, groups, real_user)


def evaluated_instead(partition: Partition, path: str, decision: Decision) -> str:
    """Return the path of the ancestor whose ACLs were evaluated instead of a missing queue's.

    The path is empty if the queue exists or will be created, or if the recovery queue's rule
    applied.
    """
    if path in partition.queues or decision is IN_RECOVERY_QUEUE:
        return ""
    nearest = partition.nearest_path(path)
    return "" if nearest == path else nearest


def usable(
    partition: Chains,
    paths: Iterable[str],
    access: Access,
    user: str,
    groups: Sequence[str] | None,
    *,
    real_user: str = "",
) -> list[tuple[str, Decision]] | None:
    """Return the queues in `paths` that the user may use, in the same order, each with its
    decision.

    Returns None if `groups` is None and a decision depends on them.
    """
    allowed = []
    # Keyed by chain, because queues without their own ACLs share their parent's chain.
    decisions: dict[Chain, Decision] = {}
    for path in paths:
        chain = partition.chain(path, access)
        decision = decisions.get(chain)
        if decision is None:
            decision = chain.decide(user, groups, real_user)
            if decision is None:
                return None
            decisions[chain] = decision
        if decision.allowed:
            allowed.append((path, decision))
    return allowed
