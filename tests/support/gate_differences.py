"""Finds decisions of a gate that differ from its server's."""

from collections.abc import Iterable, Sequence
from itertools import product

from queuegate.gate.local_partition import LocalPartition
from queuegate.policy.decide import decide, evaluated_instead
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition


def differences(
    partition: Partition,
    gate: LocalPartition,
    paths: Iterable[str],
    askers: Iterable[tuple[str, Sequence[str] | None, str]],
) -> tuple[int, list[object]]:
    """Ask a partition and a gate all questions about some queues.

    Returns:
        The number of paths and kinds of access that the gate decides, and its differing decisions.
    """
    decided = 0
    different: list[object] = []
    people = [*askers]
    for path, access in product(paths, Access):
        target = gate.target(path, access)
        if target is None:
            assert partition.creation is not None
            continue
        chain, evaluated_queue = target
        decided += 1
        for user, groups, real_user in people:
            ours = decide(partition, path, access, user, groups, real_user=real_user)
            theirs = chain.decide(user, groups, real_user)
            same = theirs == ours
            if ours is not None and theirs is not None:
                instead = evaluated_instead(partition, path, ours)
                same = same and evaluated_queue == instead
            if not same:
                different.append((path, access, user, groups, real_user, ours, theirs))
    return decided, different


def askers(*users: tuple[str, Sequence[str]]) -> list[tuple[str, Sequence[str] | None, str]]:
    """Return these users with and without their groups, and with services that act for them."""
    return [
        (user, known, service)
        for user, groups in users
        for known in (groups, None)
        for service in ("", "knox", "svc")
    ]
