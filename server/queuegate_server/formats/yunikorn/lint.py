"""Lint rules that find valid but probably unintended content in a queues.yaml."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD, Acl, AclNames, accepted_names
from queuegate.policy.names import RECOVERY_QUEUE
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    Positioned,
    quoted,
    quoted_names,
)
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.source_text import source_lines
from queuegate_server.formats.suspicious_names import (
    OTHER_WHITE_SPACE,
    YUNIKORN,
    hide_known,
    not_a_list,
    suspicious_name,
    suspicious_text,
)
from queuegate_server.formats.yaml_nodes import ScalarNode
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yunikorn.acls import AclReader
from queuegate_server.formats.yunikorn.document import decode
from queuegate_server.formats.yunikorn.lost_blanks import has_lost_blank
from queuegate_server.formats.yunikorn.model import (
    IS_NAME,
    Filter,
    Limit,
    PartitionConfig,
    QueueConfig,
    normalized_name,
)
from queuegate_server.formats.yunikorn.placement import rule_chain

_SUBMIT: Final = "submitacl"
_ADMIN: Final = "adminacl"
_MAX_SHOWN: Final = 5
_MAX_REPORTED: Final = 100
_SPACE_AFTER_COMMA: Final = re.compile(r", (.+)")
_SPACE_BEFORE_COMMA: Final = re.compile(r" ,+([^,]+)")


class _Grantors(NamedTuple):
    """The nearest ancestor that grants access to everyone, and the nearest that grants any access.

    Each is empty if there is no such ancestor.
    """

    everyone: str = ""
    somebody: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _ListedAcl:
    """An ACL in the document."""

    queue: QueueConfig
    key: str
    """`submitacl` or `adminacl`."""
    scalar: ScalarNode
    acl: Acl
    """The parsed ACL; empty if the text is invalid."""
    reader: AclReader
    """The reader that parsed it."""
    known: frozenset[str]
    above: _Grantors
    lost_blank: bool
    """Whether YAML seems to have dropped the space before a list of groups."""


class _Document(NamedTuple):
    partitions: list[PartitionConfig]
    acls: list[_ListedAcl]
    known: frozenset[str]

    def different_acls(self) -> Iterable[_ListedAcl]:
        """Return each distinct ACL once, because aliases can repeat a long ACL many times."""
        first: dict[int, _ListedAcl] = {}
        for listed in self.acls:
            # Identical strings in a partition are parsed into the same `Acl` object.
            first.setdefault(id(listed.acl), listed)
        return first.values()


def lint_queues(
    data: bytes, file: str, acl_names: Callable[[str], AclNames], known: frozenset[str]
) -> tuple[Diagnostic, ...]:
    """Return sorted warnings about a queues.yaml, but not about `known` names or invalid YAML."""
    root = read_yaml(data, file).root
    if root is None:
        return ()
    # Errors are discarded here, because the loader reports them.
    unwanted = Diagnostics("")
    diagnostics = Diagnostics(file)
    with unwanted:
        partitions = decode(root, unwanted)
        listed_acls = [*_listed_acls(partitions, source_lines(data), acl_names, known, unwanted)]
        for listed in listed_acls:
            for acl_rule in ACL_RULES:
                for found in acl_rule(listed):
                    diagnostics.add(listed.scalar, found, listed.queue.path)
        for rule in DOCUMENT_RULES:
            rule(_Document(partitions, listed_acls, known), diagnostics)
    return diagnostics.sorted()


def _listed_acls(
    partitions: list[PartitionConfig],
    lines: list[str],
    acl_names: Callable[[str], AclNames],
    known: frozenset[str],
    unwanted: Diagnostics,
) -> Iterator[_ListedAcl]:
    """Yield each ACL, with the queues above it whose ACLs grant the same access."""
    for partition in partitions:
        name = normalized_name(partition)
        reader = AclReader(acl_names(name), unwanted, name)
        # The granting ancestors by queue and ACL key.
        granted: dict[QueueConfig | None, dict[str, _Grantors]] = {
            None: {_SUBMIT: _Grantors(), _ADMIN: _Grantors()}
        }
        for queue in partition.queues:
            above = granted[queue.parent]
            own = above
            for key, scalar in ((_SUBMIT, queue.submit_acl), (_ADMIN, queue.admin_acl)):
                if scalar is None:
                    continue
                acl = reader.read(scalar, queue.path)
                may_lose = not acl.allows_all and known.isdisjoint(acl.users)
                lost = may_lose and has_lost_blank(lines, queue.position, key, scalar)
                yield _ListedAcl(queue, key, scalar, acl, reader, known, above[key], lost)
                if not acl.is_empty:
                    # A user who may administer a queue may also submit to it.
                    for granted_key in (_SUBMIT, key):
                        everyone = queue.path if acl.allows_all else own[granted_key].everyone
                        own = {**own, granted_key: _Grantors(everyone, queue.path)}
            granted[queue] = own


_Advice = Iterator[Finding]


def _lost_blank(listed: _ListedAcl) -> _Advice:
    """Report a list of groups whose leading space YAML dropped."""
    if listed.lost_blank:
        text = listed.scalar.text.strip()
        yield finding("space-dropped-by-yaml", text=quoted(text), quoted=quoted(f" {text}"))


def _blank_at_comma(listed: _ListedAcl) -> _Advice:
    """Report a space beside a comma, because the space starts the list of groups."""
    if match := _SPACE_AFTER_COMMA.search(listed.scalar.text):
        yield finding("space-at-comma", side="after", names=quoted(match[1]), what="groups")
    if match := _SPACE_BEFORE_COMMA.search(listed.scalar.text):
        yield finding("space-at-comma", side="before", names=quoted(match[1]), what="a group")


def _wildcard_in_list(listed: _ListedAcl) -> _Advice:
    """Report a `*` that is invalid because the list contains other names."""
    for kind, names in (("user", listed.acl.dropped_users), ("group", listed.acl.dropped_groups)):
        if WILDCARD in names:
            yield listed.reader.dropped_entry(kind, WILDCARD)


def _wildcard_with_names(listed: _ListedAcl) -> _Advice:
    """Report names that have no effect because the other list is `*`."""
    text = listed.scalar.text
    if (
        listed.acl.allows_all
        and not {*text.split(" ")} <= {"", WILDCARD}
        and OTHER_WHITE_SPACE.sub("", text) != WILDCARD
    ):
        yield finding("everyone-beside-names")


def _any_group(listed: _ListedAcl) -> _Advice:
    """Report `*` as the list of groups, since it also lets in users without groups."""
    if OTHER_WHITE_SPACE.sub("", listed.scalar.text) == f" {WILDCARD}":
        yield finding("everyone-as-group")


def _nobody(listed: _ListedAcl) -> _Advice:
    """Report an ACL that grants no access because all its entries are invalid."""
    acl = listed.acl
    if acl.is_empty and (acl.dropped_users or acl.dropped_groups):
        yield finding("acl-for-nobody")


def _pointless(listed: _ListedAcl) -> _Advice:
    """Report an ACL that has no effect because a queue above it lets everyone in."""
    above = listed.above.everyone
    if above and not listed.acl.is_empty and not listed.acl.allows_all:
        does = "submit" if listed.key == _SUBMIT else "administer"
        yield finding("acl-without-effect", queue=quoted(above), does=does)


def _not_closed(listed: _ListedAcl) -> _Advice:
    """Report a single space (nobody) that has no effect because an ancestor grants access."""
    above = listed.above.somebody
    if above and listed.scalar.text == " ":
        yield finding("queue-not-closed", queue=quoted(above))


@lru_cache
def _names_to_report(acl: Acl, names: AclNames, known: frozenset[str]) -> tuple[Finding, ...]:
    """Return the faults in an ACL's names. `names` selects the allowed names.

    Cached, because aliases can repeat a long ACL many times, each time as the same `Acl` object.
    """
    found = [*_dropped_by_yunikorn(acl, names)] if names is not AclNames.YUNIKORN else []
    if acl.allows_all:
        return tuple(found)
    text = hide_known(acl.text, known)
    if whole := not_a_list(text, YUNIKORN):
        return (*found, whole)
    found += suspicious_text(text, YUNIKORN)
    found += islice(_unlikely_names(acl, names, known), _MAX_REPORTED)
    return tuple(found)


def _dropped_by_yunikorn(acl: Acl, names: AclNames) -> _Advice:
    """Report names accepted here but dropped by YuniKorn."""
    users, groups = accepted_names(acl, AclNames.YUNIKORN)
    if dropped := (acl.users - users) | (acl.groups - groups):
        them = "it" if len(dropped) == 1 else "them"
        shown = quoted_names(dropped, _MAX_SHOWN)
        yield finding("dropped-by-yunikorn", names=shown, them=them, setting=names)


def _unlikely_names(acl: Acl, names: AclNames, known: frozenset[str]) -> _Advice:
    """Report allowed but implausible names."""
    for kind, listed in (("user", acl.users), ("group", acl.groups)):
        for name in sorted(listed - known):
            suspicion = suspicious_name(kind, name, YUNIKORN)
            # If names that YuniKorn rejects are allowed, an unusual name may be intended.
            if suspicion and not (suspicion.may_exist and names is not AclNames.YUNIKORN):
                yield suspicion.finding


def _group_as_user(document: _Document, diagnostics: Diagnostics) -> None:
    """Report a user whose name is a group elsewhere, because the ACL may lack a leading space."""
    groups: dict[str, Positioned] = {}
    for name, position in _names_outside_acls(document, "group"):
        groups.setdefault(name, position)
    users = {name for name, _ in _names_outside_acls(document, "user")} | document.known
    for listed in document.different_acls():
        # Skip an ACL with a comma next to its space; it was probably meant as a single list.
        if " " in listed.scalar.text and not re.search(", | ,", listed.scalar.text):
            users |= listed.acl.users
            for name in listed.acl.groups:
                groups.setdefault(name, listed.scalar)
    for listed in document.acls:
        if " " in listed.scalar.text or not users.isdisjoint(listed.acl.users):
            continue
        misplaced = sorted(listed.acl.users & groups.keys())
        if misplaced and not listed.lost_blank:
            first = groups[misplaced[0]].line
            found = finding(
                "group-elsewhere",
                name=quoted(misplaced[0]),
                line=first,
                quoted=quoted(f" {listed.scalar.text}"),
            )
            diagnostics.add(listed.scalar, found, listed.queue.path)


def _spelled_in_two_cases(document: _Document, diagnostics: Diagnostics) -> None:
    """Report names that differ only in case."""
    for kind in ("user", "group"):
        positions: dict[str, dict[str, Positioned]] = {}
        in_acls = (
            (name, listed.scalar)
            for listed in document.different_acls()
            for name in (listed.acl.users if kind == "user" else listed.acl.groups)
        )
        for name, position in (*_names_outside_acls(document, kind), *in_acls):
            positions.setdefault(name.lower(), {}).setdefault(name, position)
        for spellings in positions.values():
            (first, position), *others = sorted(
                spellings.items(), key=lambda item: (item[1].line, item[1].column, item[0])
            )
            for name, other in others:
                if document.known.issuperset((name, first)):
                    continue
                found = finding(
                    "names-that-differ-in-case-in-file",
                    kind=kind,
                    name=quoted(name),
                    first=quoted(first),
                    line=position.line,
                )
                diagnostics.add(other, found)


def _names_outside_acls(document: _Document, kind: str) -> Iterator[tuple[str, Positioned]]:
    """Yield the names of users or groups in limits and filters, omitting regular expressions."""
    for holder in _holders(document):
        for scalar in (holder.users if kind == "user" else holder.groups) or ():
            if scalar.text != WILDCARD and IS_NAME[kind](scalar.text):
                yield scalar.text, scalar


def _holders(document: _Document) -> Iterable[Limit | Filter]:
    for partition in document.partitions:
        yield from partition.limits
        for queue in partition.queues:
            yield from queue.limits
        for rule in partition.rules:
            for link in rule_chain(rule):
                if link.filter:
                    yield link.filter


def _recovery_queue(document: _Document, diagnostics: Diagnostics) -> None:
    """Report queues with the path that YuniKorn reserves for its recovery queue."""
    for partition in document.partitions:
        for queue in partition.queues:
            if queue.path == RECOVERY_QUEUE:
                found = finding("recovery-queue", queue=RECOVERY_QUEUE)
                diagnostics.add(queue.name.position, found, queue.path)


ACL_RULES: Final[tuple[Callable[[_ListedAcl], Iterable[Finding]], ...]] = (
    _lost_blank,
    _blank_at_comma,
    _wildcard_in_list,
    _wildcard_with_names,
    _any_group,
    _nobody,
    lambda listed: _names_to_report(listed.acl, listed.reader.names, listed.known),
    _pointless,
    _not_closed,
)
DOCUMENT_RULES: Final[tuple[Callable[[_Document, Diagnostics], None], ...]] = (
    _group_as_user,
    _recovery_queue,
    _spelled_in_two_cases,
)
