"""Lint rules for a queues.yaml: what is valid, but probably not meant."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD, Acl, AclNames
from queuegate.policy.names import RECOVERY_QUEUE, is_group_name, is_user_name
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    Positioned,
    TooManyErrors,
    quoted,
)
from queuegate_server.formats.source_text import source_lines
from queuegate_server.formats.yaml_reader import Node, ScalarNode, read_yaml
from queuegate_server.formats.yunikorn.acls import WHITE_SPACE_BUT_BLANK, AclReader, dropped_entry
from queuegate_server.formats.yunikorn.decode import decode
from queuegate_server.formats.yunikorn.lint_blanks import has_swallowed_blank
from queuegate_server.formats.yunikorn.model import Filter, Limit, PartitionConfig, QueueConfig
from queuegate_server.formats.yunikorn.placement import rule_chain
from queuegate_server.formats.yunikorn.queues import normalized_name

_BLANK_AFTER_COMMA: Final = re.compile(r", (.+)")


@dataclass(frozen=True, slots=True, eq=False)
class ListedAcl:
    """An ACL of the document."""

    queue: QueueConfig
    key: str
    """`submitacl` or `adminacl`."""
    scalar: ScalarNode
    acl: Acl
    """Empty if the text is invalid."""
    names: AclNames

    @property
    def has_groups(self) -> bool:
        """True if the text contains a blank, which starts a list of groups."""
        return " " in self.scalar.text


@dataclass(slots=True, eq=False)
class LintContext:
    """What the rules need to know about a document."""

    lines: list[str]
    """The source text."""
    partitions: list[PartitionConfig]
    acls: list[ListedAcl] = field(default_factory=list)
    """All ACLs in the order of the queues."""

    def has_swallowed_blank(self, listed: ListedAcl) -> bool:
        """Return whether YAML seems to have dropped the blank before a list of groups."""
        mapping = listed.queue.position
        if mapping is None or listed.has_groups or listed.acl.allows_all or not listed.scalar.text:
            return False
        return has_swallowed_blank(self.lines, mapping, listed.key)

    def different_acls(self) -> list[ListedAcl]:
        """Return the first occurrence of each ACL; aliases may repeat a long one very often."""
        first: dict[int, ListedAcl] = {}
        for listed in self.acls:
            # Equal texts of a partition share one ACL.
            first.setdefault(id(listed.acl), listed)
        return list(first.values())


def lint_queues(
    data: bytes, file: str, *, acl_names: Callable[[str], AclNames]
) -> tuple[Diagnostic, ...]:
    """Return the warnings about a queues.yaml, sorted; none if it cannot be read as YAML."""
    document = read_yaml(data, file)
    if document.root is None:
        return ()
    try:
        context = _context(document.root, source_lines(data), acl_names)
    except TooManyErrors:
        return ()
    diagnostics = Diagnostics(file)
    for rule in RULES:
        rule(context, diagnostics)
    return diagnostics.sorted()


def _context(root: Node, lines: list[str], acl_names: Callable[[str], AclNames]) -> LintContext:
    """Decode a document without diagnostics, which the loader reports."""
    unwanted = Diagnostics("")
    context = LintContext(lines, decode(root, unwanted))
    for partition in context.partitions:
        reader = AclReader(acl_names(normalized_name(partition.name)), unwanted)
        for queue in partition.queues:
            for key, scalar in (("submitacl", queue.submit_acl), ("adminacl", queue.admin_acl)):
                if scalar is not None:
                    acl = reader.read(scalar, queue.path)
                    context.acls.append(ListedAcl(queue, key, scalar, acl, reader.names))
    return context


def swallowed_blank(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report a list of groups whose leading blank YAML dropped."""
    for listed in context.acls:
        if context.has_swallowed_blank(listed):
            text = listed.scalar.text.strip()
            message = f"YAML drops the blanks before {quoted(text)}: it lists users, not groups"
            groups = quoted(f" {text}")
            remedy = f"for groups write {groups} in quotes, for users leave one blank"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def blank_after_comma(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report a blank after a comma, which starts the list of groups."""
    for listed in context.acls:
        match = _BLANK_AFTER_COMMA.search(listed.scalar.text)
        if match:
            message = f"the blank after the comma turns {quoted(match[1])} into groups"
            remedy = "for users remove the blank, for groups remove the comma"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def wildcard_in_list(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report a `*` among other names, where it is an invalid name."""
    for listed in context.acls:
        for kind, names in (
            ("user", listed.acl.dropped_users),
            ("group", listed.acl.dropped_groups),
        ):
            if WILDCARD in names:
                message, remedy = dropped_entry(kind, WILDCARD, listed.names)
                diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def wildcard_with_names(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report names beside a `*`, which makes them meaningless."""
    for listed in context.acls:
        fields = listed.scalar.text.split(" ")
        if listed.acl.allows_all and any(field not in {"", WILDCARD} for field in fields):
            if WHITE_SPACE_BUT_BLANK.sub("", listed.scalar.text) == WILDCARD:
                continue
            message = 'the list "*" lets everybody in, so the other list has no effect'
            remedy = 'write "*" alone, or replace it with names'
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def any_group(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report a `*` as the list of groups: it also lets in users without groups."""
    for listed in context.acls:
        if WHITE_SPACE_BUT_BLANK.sub("", listed.scalar.text) == f" {WILDCARD}":
            message = '" *" lets everybody in, not only the members of some group'
            remedy = 'write "*" if that is meant, otherwise list the groups'
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def white_space(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report white space that separates nothing and makes names invalid."""
    for listed in context.acls:
        match = WHITE_SPACE_BUT_BLANK.search(listed.scalar.text)
        if match and not listed.acl.allows_all:
            kinds = {"\t": "a tab", "\n": "a line break", "\r": "a line break"}
            kind = kinds.get(match[0], f"U+{ord(match[0]):04X}")
            message = f"{kind} in an ACL separates nothing and becomes part of a name"
            remedy = "write the ACL on one line; one blank separates users from groups"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def nobody(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report a list that grants access to nobody because none of its entries is a valid name."""
    for listed in context.acls:
        acl = listed.acl
        if acl.is_empty and (acl.dropped_users or acl.dropped_groups):
            message = "this ACL grants access to nobody: none of its entries is a valid name"
            remedy = 'correct the names; for nobody write " " in quotes'
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def group_as_user(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report a user who is a group elsewhere: the leading blank may be missing."""
    groups: dict[str, Positioned] = {}
    users: set[str] = set()
    for name, position in _names_outside_acls(context, "groups"):
        groups.setdefault(name, position)
    for name, _ in _names_outside_acls(context, "users"):
        users.add(name)
    for listed in context.different_acls():
        if listed.has_groups and ", " not in listed.scalar.text:
            users |= listed.acl.users
            for name in listed.acl.groups:
                groups.setdefault(name, listed.scalar)
    for listed in context.acls:
        if listed.has_groups or not users.isdisjoint(listed.acl.users):
            continue
        found = sorted(listed.acl.users & groups.keys())
        if found and not context.has_swallowed_blank(listed):
            first = groups[found[0]].line
            message = f"{quoted(found[0])} is a user here, but a group on line {first}"
            remedy = f"for groups write {quoted(f' {listed.scalar.text}')} in quotes"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def spelled_in_two_cases(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report names that differ only in case, and so are different names."""
    for kind in ("users", "groups"):
        seen: dict[str, dict[str, Positioned]] = {}
        found = (*_names_outside_acls(context, kind), *_names_in_acls(context, kind))
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
        message = f"{kind} {quoted(name)} is spelled {quoted(first)} on line {position.line}"
        diagnostics.warning(
            other, message, "use one spelling: names that differ in case are different"
        )


def _names_in_acls(context: LintContext, kind: str) -> Iterator[tuple[str, Positioned]]:
    for listed in context.different_acls():
        for name in listed.acl.users if kind == "users" else listed.acl.groups:
            yield name, listed.scalar


def _names_outside_acls(context: LintContext, kind: str) -> Iterator[tuple[str, Positioned]]:
    """Yield the users or groups of limits and filters, without regular expressions."""
    is_valid = is_user_name if kind == "users" else is_group_name
    for holder in _holders(context):
        for scalar in (holder.users if kind == "users" else holder.groups) or ():
            if scalar.text != WILDCARD and is_valid(scalar.text):
                yield scalar.text, scalar


def _holders(context: LintContext) -> Iterable[Limit | Filter]:
    for partition in context.partitions:
        yield from partition.limits
        for queue in partition.queues:
            yield from queue.limits
        for rule in partition.rules:
            for link in rule_chain(rule):
                if link.filter:
                    yield link.filter


class _Above(NamedTuple):
    """The paths of the nearest queues above that grant something; empty if none does."""

    everybody_submits: str = ""
    everybody_administers: str = ""
    somebody_submits: str = ""
    somebody_administers: str = ""


def pointless(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report a list of names below a queue that already lets everybody in."""
    for listed, above in _with_above(context):
        who = above.everybody_submits if listed.key == "submitacl" else above.everybody_administers
        if who and not listed.acl.is_empty and not listed.acl.allows_all:
            does = "submit" if listed.key == "submitacl" else "administer"
            message = f"this ACL has no effect: queue {quoted(who)} lets everybody {does}"
            remedy = "remove one of the two; a queue cannot revoke what a queue above it grants"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def not_closed(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report a single blank, meant to close a queue, below a queue that grants somebody."""
    for listed, above in _with_above(context):
        who = above.somebody_submits if listed.key == "submitacl" else above.somebody_administers
        if who and listed.scalar.text == " ":
            message = (
                f"this ACL does not close the queue: what {quoted(who)} grants applies here, too"
            )
            remedy = "remove it; grant less above and more in the queues below"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def recovery_queue(context: LintContext, diagnostics: Diagnostics) -> None:
    """Report a queue with the name of YuniKorn's own recovery queue."""
    for partition in context.partitions:
        for queue in partition.queues:
            if queue.path == RECOVERY_QUEUE:
                message = f"{RECOVERY_QUEUE} is reserved by YuniKorn: nobody can submit to it"
                diagnostics.warning(queue.name_position, message, "rename the queue", queue.path)


def _with_above(context: LintContext) -> Iterator[tuple[ListedAcl, _Above]]:
    """Yield each ACL with what the queues above it grant."""
    by_queue: dict[QueueConfig, list[ListedAcl]] = {}
    for listed in context.acls:
        by_queue.setdefault(listed.queue, []).append(listed)
    granted: dict[QueueConfig | None, _Above] = {None: _Above()}
    for partition in context.partitions:
        for queue in partition.queues:
            above = granted[queue.parent]
            own = by_queue.get(queue, [])
            for listed in own:
                yield listed, above
            granted[queue] = _add(above, queue.path, own)


def _add(above: _Above, path: str, own: list[ListedAcl]) -> _Above:
    for listed in own:
        if listed.acl.is_empty:
            continue
        above = above._replace(somebody_submits=path)
        if listed.acl.allows_all:
            above = above._replace(everybody_submits=path)
        if listed.key == "adminacl":
            above = above._replace(somebody_administers=path)
            if listed.acl.allows_all:
                above = above._replace(everybody_administers=path)
    return above


RULES: Final[tuple[Callable[[LintContext, Diagnostics], None], ...]] = (
    swallowed_blank,
    group_as_user,
    blank_after_comma,
    wildcard_in_list,
    wildcard_with_names,
    any_group,
    white_space,
    nobody,
    pointless,
    not_closed,
    recovery_queue,
    spelled_in_two_cases,
)
