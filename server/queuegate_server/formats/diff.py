"""Two policies -> what differs in the ACLs of their queues, a line each."""

from collections.abc import Iterator, Mapping

from queuegate.policy.acl import EMPTY, Acl
from queuegate.policy.tree import Partition, Queue
from queuegate_server.formats.diagnostics import quoted


def differences(old: Mapping[str, Partition], new: Mapping[str, Partition]) -> Iterator[str]:
    """Yield the differences, partitions and queues in order.

    ACLs are compared by what they mean: order, repetitions and names that grant nothing do
    not count. A queue without an ACL and one that lists nobody are alike.
    """
    for name in sorted({*old, *new}):
        where = f"partition {quoted(name)}"
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            yield f"{where}: {'added' if before is None else 'removed'}"
        elif before.resolver_type != after.resolver_type:
            types = quoted(before.resolver_type), quoted(after.resolver_type)
            yield f"{where}: usergroupresolver: {types[0]} becomes {types[1]}"
        yield from _of_queues(where, before.queues if before else {}, after.queues if after else {})


def _of_queues(where: str, old: Mapping[str, Queue], new: Mapping[str, Queue]) -> Iterator[str]:
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        queue = f"{where}, queue {quoted(path)}"
        if before is None or after is None:
            yield f"{queue}: {'added' if before is None else 'removed'}"
        for kind, was, now in (
            ("submit", before and before.submit_acl, after and after.submit_acl),
            ("admin", before and before.admin_acl, after and after.admin_acl),
        ):
            changes = ", ".join(_changes(was or EMPTY, now or EMPTY))
            if changes:
                yield f"{queue}: {kind} ACL: {changes}"


def _changes(old: Acl, new: Acl) -> Iterator[str]:
    if old.allows_all is not new.allows_all:
        yield f"{'+' if new.allows_all else '-'} everybody"
    for kind, was, now in (
        ("user", old.users, new.users),
        ("group", old.groups, new.groups),
        ("proxy", old.proxies, new.proxies),
    ):
        for sign, names in (("+", now - was), ("-", was - now)):
            yield from (f"{sign} {kind} {quoted(name)}" for name in sorted(names))
