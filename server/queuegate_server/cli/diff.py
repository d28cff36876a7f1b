"""`queuegate-server diff`: whom the ACLs of one policy let in, and those of another do not."""

import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import click

from queuegate.cli.documents import to_json
from queuegate.policy.acl import EMPTY, Acl
from queuegate.policy.tree import Partition, Queue
from queuegate_server.cli import EXIT_NO, findings
from queuegate_server.cli.command import (
    STDIN,
    Failure,
    read_or_fail,
    reading_options,
    resolver_types_option,
    shown_name,
)
from queuegate_server.formats.diagnostics import Diagnostic, Severity, has_errors, quoted
from queuegate_server.formats.registry import YUNIKORN, FormatOptions, detect_format, load_policy


class Difference(NamedTuple):
    """A change of a partition or of a queue."""

    partition: str
    queue: str
    """Empty if it is about the partition."""
    change: str

    def __str__(self) -> str:
        """Return a line for people."""
        queue = f", queue {quoted(self.queue)}" if self.queue else ""
        return f"partition {quoted(self.partition)}{queue}: {self.change}"


@click.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@findings.output_option
@reading_options
@resolver_types_option
def diff(*, old: str, new: str, output: str, options: FormatOptions) -> None:
    """Show what changes in the ACLs of queues from the policy OLD to the policy NEW.

    Needs no server. One of the two may be - for standard input. Prints a line for each
    partition or queue that was added or removed, and for each ACL that lets in others than
    before: + for those it now lets in, - for those it no longer does. Each queue's own ACLs
    are compared; what the queues above grant still applies. Both files must be YuniKorn's, or
    both YARN's.

    Exit status: 0 no difference, 1 a difference, 2 wrong usage, or a file that cannot be
    read or is not valid.
    """
    found = list(_compared(old, new, options))
    if output == findings.TEXT:
        for each in found:
            click.echo(str(each))
    elif output == findings.JSON:
        differences = [each._asdict() for each in found]
        click.echo(to_json({"old": old, "new": new, "differences": differences}))
    else:
        name = shown_name(new)
        diagnostics = [
            Diagnostic(name, 0, 0, Severity.WARNING, str(each), queue=each.queue) for each in found
        ]
        findings.write(output, "diff", diagnostics, {})
    sys.exit(EXIT_NO if found else 0)


def _compared(old: str, new: str, options: FormatOptions) -> Iterator[Difference]:
    """Return the differences between two files. Raises Failure."""
    if old == new == STDIN:
        raise Failure("only one of the two can be standard input")
    (old_is_yunikorn, before), (new_is_yunikorn, after) = (_load(old, options), _load(new, options))
    if old_is_yunikorn is not new_is_yunikorn:
        # Names of queues compare differently, and YARN has administrators of the cluster.
        raise Failure("one file is YuniKorn's and the other YARN's: convert one of them first")
    return _differences(before, after)


def _load(file: str, options: FormatOptions) -> tuple[bool, Mapping[str, Partition]]:
    """Return whether a policy is YuniKorn's, and its partitions. Raises Failure."""
    data, name = read_or_fail(file)
    format_name = detect_format(data)
    loaded = load_policy(format_name, data, name, options)
    if has_errors(loaded.diagnostics):
        raise Failure.of(f"{name}: not valid", loaded.diagnostics)
    return format_name == YUNIKORN, loaded.partitions


def _differences(
    old: Mapping[str, Partition], new: Mapping[str, Partition]
) -> Iterator[Difference]:
    """Yield the differences, partitions and queues in order.

    ACLs are compared by what they mean: order, repetitions and names that grant nothing do
    not count. A queue without an ACL and one that lists nobody are alike.
    """
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            yield Difference(name, "", "added" if before is None else "removed")
        elif before.resolver_type != after.resolver_type:
            types = quoted(before.resolver_type), quoted(after.resolver_type)
            yield Difference(name, "", f"usergroupresolver: {types[0]} becomes {types[1]}")
        yield from _of_queues(name, before.queues if before else {}, after.queues if after else {})


def _of_queues(
    partition: str, old: Mapping[str, Queue], new: Mapping[str, Queue]
) -> Iterator[Difference]:
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        if before is None or after is None:
            yield Difference(partition, path, "added" if before is None else "removed")
        for kind, was, now in (
            ("submit", before and before.submit_acl, after and after.submit_acl),
            ("admin", before and before.admin_acl, after and after.admin_acl),
        ):
            changes = ", ".join(_changes(was or EMPTY, now or EMPTY))
            if changes:
                yield Difference(partition, path, f"{kind} ACL: {changes}")


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
