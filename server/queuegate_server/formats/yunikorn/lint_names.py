"""Lint rules that compare names across the whole document."""

from collections.abc import Iterable, Iterator

from queuegate.policy.acl import WILDCARD
from queuegate.policy.names import is_group_name, is_user_name
from queuegate_server.formats.diagnostics import Diagnostics, Positioned, quoted
from queuegate_server.formats.yaml_nodes import Scalar
from queuegate_server.formats.yunikorn.lint_blanks import has_swallowed_blank
from queuegate_server.formats.yunikorn.lint_subject import Subject
from queuegate_server.formats.yunikorn.model import Filter, Limit
from queuegate_server.formats.yunikorn.placement import rule_chain


def group_as_user(subject: Subject, diagnostics: Diagnostics) -> None:
    """A group named elsewhere in the file as a user: its leading blank may be missing."""
    groups: dict[str, Positioned] = {}
    users: set[str] = set()
    for name, position in _names_outside_acls(subject, "groups"):
        groups.setdefault(name, position)
    for name, _ in _names_outside_acls(subject, "users"):
        users.add(name)
    for listed in subject.different_acls():
        if listed.has_groups and ", " not in listed.scalar.text:
            users |= listed.acl.users
            for name in listed.acl.groups:
                groups.setdefault(name, listed.scalar)
    for listed in subject.acls:
        if listed.has_groups or not users.isdisjoint(listed.acl.users):
            continue
        found = sorted(listed.acl.users & groups.keys())
        if found and not has_swallowed_blank(subject, listed):
            first = groups[found[0]].line
            message = f"{quoted(found[0])} is a user here, but a group in line {first}"
            remedy = f"for groups write {quoted(f' {listed.scalar.text}')} in quotes"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def spelled_in_two_cases(subject: Subject, diagnostics: Diagnostics) -> None:
    """Names that differ in case only, and are different names for it."""
    for kind in ("users", "groups"):
        seen: dict[str, dict[str, Positioned]] = {}
        found = (*_names_outside_acls(subject, kind), *_names_in_acls(subject, kind))
        for name, position in found:
            spellings = seen.setdefault(name.lower(), {})
            if name not in spellings:
                spellings[name] = position
        for spellings in seen.values():
            if len(spellings) > 1:
                _report_spellings(kind.removesuffix("s"), spellings, diagnostics)


def _report_spellings(
    kind: str, spellings: dict[str, Positioned], diagnostics: Diagnostics
) -> None:
    in_order = sorted(spellings.items(), key=lambda item: (item[1].line, item[1].column, item[0]))
    (first, position), *others = in_order
    for name, other in others:
        message = f"{kind} {quoted(name)} is spelled {quoted(first)} in line {position.line}"
        diagnostics.warning(
            other, message, "use one spelling: case makes two different names of it"
        )


def _names_in_acls(subject: Subject, kind: str) -> Iterator[tuple[str, Positioned]]:
    for listed in subject.different_acls():
        for name in listed.acl.users if kind == "users" else listed.acl.groups:
            yield name, listed.scalar


def _names_outside_acls(subject: Subject, kind: str) -> Iterator[tuple[str, Positioned]]:
    """Give the users or groups of limits and filters; regular expressions are no names."""
    is_valid = is_user_name if kind == "users" else is_group_name
    for scalar in _entries_outside_acls(subject, kind):
        if scalar.text != WILDCARD and is_valid(scalar.text):
            yield scalar.text, scalar


def _entries_outside_acls(subject: Subject, kind: str) -> Iterator[Scalar]:
    for holder in _holders(subject):
        yield from (holder.users if kind == "users" else holder.groups) or ()


def _holders(subject: Subject) -> Iterable[Limit | Filter]:
    for partition in subject.partitions:
        yield from partition.limits
        for queue in partition.queues:
            yield from queue.limits
        for rule in partition.rules:
            for link in rule_chain(rule):
                if link.filter:
                    yield link.filter
