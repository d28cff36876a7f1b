"""Claims as questions to Z3: is there a person who refutes the claim?

The rules of access are written out again here, from the ACLs of each level, so that only the parsed
ACLs are shared with the tested code.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import z3

from queuegate.policy.acl import Acl
from queuegate.policy.claims import (
    Claim,
    Everyone,
    Never,
    NoNewAccess,
    NotBoth,
    Only,
    Uses,
    Within,
)
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate.policy.worlds import OpenWorld, Subject
from queuegate.policy.yarn_acl import Semantics

_USER, _REAL_USER = z3.Strings("user real_user")


def _member(group: str) -> Any:
    return z3.Bool(f"in {group}")


def _applies(subject: Subject) -> Any:
    match subject.kind:
        case "everyone":
            return z3.BoolVal(True)
        case "user":
            return z3.StringVal(subject.name) == _USER
        case "proxy":
            return z3.StringVal(subject.name) == _REAL_USER
        case _:
            return _member(subject.name)


def _lets_in(acl: Acl) -> Any:
    if acl.allows_all:
        return z3.BoolVal(True)
    return z3.Or(
        *(z3.StringVal(name) == _USER for name in acl.users),
        *(z3.StringVal(name) == _REAL_USER for name in acl.proxies),
        *(_member(name) for name in acl.groups),
    )


def _allowed(partition: Partition, path: str, access: Access) -> Any:
    """Return the rule of a queue, based on the documentation instead of the product."""
    cluster = partition.cluster
    submits = access is Access.SUBMIT
    if cluster is None and submits and f"{path}.".startswith("root.@recovery@."):
        return z3.BoolVal(False)
    documented = cluster is not None and cluster.semantics is Semantics.DOCUMENTED
    if cluster is not None and not cluster.acls_enabled:
        still_checked = submits and cluster.checks_submission_always and not documented
        if not still_checked:
            return z3.BoolVal(True)
    if cluster is not None and path in partition.short_names and path not in partition.queues:
        return z3.BoolVal(False)
    levels = path.split(".")
    rules = []
    while levels:
        queue = partition.queues.get(".".join(levels))
        if queue is not None:
            rules += [_lets_in(queue.admin_acl)] + [_lets_in(queue.submit_acl)] * submits
        levels.pop()
    if cluster is not None and documented and cluster.acls_enabled:
        admins = cluster.admins
        listed = Acl(users=admins.users, groups=admins.groups, allows_all=admins.allows_all)
        rules.append(_lets_in(listed))
    return z3.Or(*rules)


def _each(partition: Partition, uses: Uses) -> Iterator[Any]:
    below = f"{uses.queue}." if uses.with_below else "\0"
    for path in {uses.queue, *(each for each in partition.paths if each.startswith(below))}:
        yield _allowed(partition, path, uses.access)


def _refutation(partition: Partition, claim: Claim) -> Any:
    """Return the conditions for a person who refutes the claim."""
    match claim:
        case Only(subjects, uses):
            excused = z3.Or(*map(_applies, subjects))
            return z3.And(z3.Or(*_each(partition, uses)), z3.Not(excused))
        case Never(subject, uses):
            return z3.And(z3.Or(*_each(partition, uses)), _applies(subject))
        case Everyone(subject, uses):
            return z3.And(z3.Not(z3.And(*_each(partition, uses))), _applies(subject))
        case NotBoth(first, second) | Within(first, second):
            one, two = (_allowed(partition, use.queue, use.access) for use in (first, second))
            return z3.And(one, two if isinstance(claim, NotBoth) else z3.Not(two))
        case NoNewAccess(old):
            return z3.Or(
                *(
                    z3.And(_allowed(partition, path, access), z3.Not(_allowed(old, path, access)))
                    for path in {*partition.queues, *old.queues}
                    for access in Access
                )
            )


def _facts(world: OpenWorld) -> Iterable[Any]:
    for subject, group in world.inclusions:
        yield z3.Implies(_applies(subject), _member(group))
    for subject, group in world.exclusions:
        yield z3.Not(z3.And(_applies(subject), _member(group)))


def is_refuted(partition: Partition, claim: Claim, world: OpenWorld) -> bool:
    """Return whether Z3 finds a person who refutes the claim."""
    solver = z3.Solver()
    solver.add(*_facts(world), _refutation(partition, claim))
    answer = solver.check()
    assert answer != z3.unknown, solver.reason_unknown()
    return bool(answer == z3.sat)
