"""Converts a YARN scheduler's file to a queues.yaml that grants the same access.

Grants that YuniKorn cannot express are omitted and reported, so the result never grants more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from queuegate.policy.acl import EMPTY, WILDCARD, Acl, AclNames, accepted_names, names_for
from queuegate.policy.names import RECOVERY_QUEUE, ROOT, SEPARATOR, is_queue_name, parent_path
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    Positioned,
    diagnostic_of,
    quoted,
    quoted_names,
)
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.formats.yarn.load import (
    LoadedScheduler,
    YarnOptions,
    depth_first,
    load_scheduler,
)
from queuegate_server.formats.yarn.scheduler_file import QueueEntry

MAX_LEVELS: Final = 96
"""The maximum depth of the tree. Each level takes two of the 200 nesting levels that `yaml_builder`
accepts."""
_EVERYONE: Final = Acl(text=WILDCARD, allows_all=True)
_MAX_SHOWN_NAMES: Final = 20
_HEADER: Final = (
    "Access to queues, from {file}, read as {semantics}.",
    "Not converted: resources, limits, placement, and group resolvers.",
)


class Conversion(NamedTuple):
    """The result of a conversion."""

    text: str
    """The queues.yaml; empty if the scheduler's file cannot be loaded or converted."""
    remarks: tuple[str, ...]
    """Explanations of changes that are not obvious but preserve access."""
    lost: tuple[Diagnostic, ...]
    """Warnings about grants that YuniKorn cannot express. The result grants less at their queues
    and below."""
    diagnostics: tuple[Diagnostic, ...]


def convert(
    format_name: str,
    data: bytes,
    file: str,
    options: YarnOptions,
    names: AclNames = AclNames.YUNIKORN,
) -> Conversion:
    """Convert a scheduler's file to a queues.yaml. `names` selects the names allowed in ACLs."""
    scheduler, diagnostics = load_scheduler(format_name, data, file, options)
    if scheduler is None:
        return Conversion("", (), (), diagnostics)
    converter = _Converter(scheduler, names, Diagnostics(file))
    queues = converter.convert()
    header = [line.format(file=quoted(file), semantics=options.semantics) for line in _HEADER]
    text = _document(queues, (*header, *converter.remarks))
    if len(text) > MAX_BYTES:
        too_large = diagnostic_of(finding("large-result", most=MAX_BYTES), file)
        return Conversion("", (), (), (*diagnostics, too_large))
    return Conversion(text, tuple(converter.remarks), converter.diagnostics.sorted(), diagnostics)


class _ResultQueue(NamedTuple):
    """A queue in the result, with only names that YuniKorn accepts."""

    path: str
    submit: Acl
    admin: Acl
    is_parent: bool
    """Whether applications can be submitted only to queues below this queue."""


@dataclass(slots=True)
class _Converter:
    loaded: LoadedScheduler
    names: AclNames
    diagnostics: Diagnostics
    remarks: list[str] = field(default_factory=list)

    def convert(self) -> Sequence[_ResultQueue]:
        """Return the resulting queues, and report omissions."""
        parents = self.loaded.file.parents()
        queues = self.loaded.partition.queues
        is_open = not self.loaded.cluster.acls_enabled and self._opens_everything()
        written = []
        for entry in self._kept():
            path = entry.path
            if is_open:
                submit = admin = _EVERYONE if path == ROOT else EMPTY
            else:
                submit, admin = queues[path].submit_acl, queues[path].admin_acl
                if path == ROOT:
                    admin = self._with_cluster_admins(admin)
                submit = self._expressed(submit, "submit", path, entry.submit or entry.position)
                admin = self._expressed(admin, "admin", path, entry.admin or entry.position)
            written.append(_ResultQueue(path, submit, admin, path in parents))
        if not is_open:
            self._report_templates()
        return written

    def _report_templates(self) -> None:
        """Report templates whose ACLs grant access, because YuniKorn cannot express them."""
        semantics = self.loaded.cluster.semantics
        creation = self.loaded.partition.creation
        positions = {
            (each.kind, each.path): each.position for each in self.loaded.file.templates.entries
        }
        for kind, path, *texts in creation.templates if creation else ():
            if any(not parse_yarn(text, semantics).is_empty for text in texts if text is not None):
                found = finding("template-left-out", kind=kind, path=path)
                self.diagnostics.add(positions[kind, path], found, path)

    def _opens_everything(self) -> bool:
        """Return whether disabled ACLs open all queues, and report the effect."""
        cluster = self.loaded.cluster
        if cluster.semantics is Semantics.HADOOP and cluster.checks_submission_always:
            self.diagnostics.add(None, finding("submission-checked-without-acls"), ROOT)
            return False
        self.remarks.append("ACLs are disabled (yarn.acl.enable): root is open to everyone.")
        return True

    def _with_cluster_admins(self, own: Acl) -> Acl:
        """Add the cluster's administrators to root's admin ACL if they may access queues."""
        admins, cluster = self.loaded.cluster.admins, self.loaded.cluster
        if admins.is_empty:
            return own
        if cluster.semantics is Semantics.HADOOP:
            self.remarks.append("yarn.admin.acl is left out: in Hadoop it grants no queue access.")
            return own
        self.remarks.append("yarn.admin.acl is part of the admin ACL of root: it opens all queues.")
        return own._replace(
            allows_all=own.allows_all or admins.allows_all,
            users=own.users | admins.users,
            groups=own.groups | admins.groups,
            proxies=own.proxies | admins.proxies,
        )

    def _expressed(self, acl: Acl, kind: str, path: str, position: Positioned) -> Acl:
        """Return the part of the ACL that YuniKorn accepts, and report the rest."""
        if acl.allows_all:
            if path == ROOT:
                self.remarks.append(
                    f"The {kind} ACL of root is *, as in YARN: it opens all queues."
                )
            return _EVERYONE
        users, groups = accepted_names(acl, self.names)
        lost = [*(acl.users - users), *(acl.groups - groups)]
        proxies = [f"~{name}" for name in acl.proxies]
        for identifier, names in (("names-left-out", lost), ("proxies-left-out", proxies)):
            if names:
                words = {"kind": kind, "path": path, "names": quoted_names(names, _MAX_SHOWN_NAMES)}
                found = finding(identifier, accepting=_accepting(acl, users, groups), **words)
                self.diagnostics.add(position, found, path)
        return Acl(users=users, groups=groups)

    def _kept(self) -> Iterator[QueueEntry]:
        """Yield the queues that YuniKorn accepts, parents first, and report the others."""
        queues = depth_first(self.loaded.file.queues)
        spellings = Counter(queue.path.lower() for queue in queues if queue.path.isascii())
        kept = {parent_path(ROOT)}
        for queue in queues:
            path = queue.path
            if parent_path(path) not in kept:
                continue
            if obstacle := _obstacle(path, spellings):
                self.diagnostics.add(queue.position, obstacle, path)
            else:
                kept.add(path)
                yield queue


def _accepting(acl: Acl, users: frozenset[str], groups: frozenset[str]) -> str:
    """Return advice, to append to a remedy, on the `--acl-names` value that accepts rejected names.

    `users` and `groups` are the names already accepted. Empty if no value accepts more of them.
    """
    choices = [names_for("user", name) for name in acl.users - users]
    choices += [names_for("group", name) for name in acl.groups - groups]
    accepting = [names for names in AclNames if names in choices]
    if not accepting:
        return ""
    return f"; --acl-names {accepting[-1]} accepts {'some' if None in choices else 'them'}"


def _obstacle(path: str, spellings: Counter[str]) -> Finding | None:
    """Return why YuniKorn rejects a queue; None if it accepts the queue."""
    name = path.rpartition(SEPARATOR)[2]
    if not is_queue_name(name):
        return finding("queue-name-left-out", name=quoted(name))
    if path.lower() == RECOVERY_QUEUE:
        return finding("recovery-queue-left-out")
    if spellings[path.lower()] > 1:
        return finding("similar-queue-left-out", name=quoted(name))
    if path.count(SEPARATOR) >= MAX_LEVELS:
        return finding("deep-queue-left-out", most=MAX_LEVELS)
    return None


def _document(queues: Sequence[_ResultQueue], remarks: Iterable[str]) -> str:
    """Return a queues.yaml with the remarks as comments. `queues` must be in depth-first order."""
    lines = [f"# {remark}" for remark in remarks]
    lines += ["partitions:", "  - name: default", "    queues:"]
    depth = 0
    with_children = {parent_path(queue.path) for queue in queues}
    for path, submit, admin, is_parent in queues:
        level = path.count(SEPARATOR)
        indent = "      " + "    " * level
        if level > depth:
            lines.append(f"{indent[2:]}queues:")
        depth = level
        # Quoted because a name may be `null` or contain a `#`.
        lines.append(f"{indent}- name: {_quoted(path.rpartition(SEPARATOR)[2]) if level else ROOT}")
        if is_parent and level and path not in with_children:
            lines.append(f"{indent}  parent: true")
        for key, acl in (("submitacl", submit), ("adminacl", admin)):
            if not acl.is_empty:
                lines.append(f"{indent}  {key}: {_quoted(_acl_text(acl))}")
    return "\n".join(lines) + "\n"


def _acl_text(acl: Acl) -> str:
    """Return the shortest text for an ACL, with sorted names."""
    if acl.allows_all:
        return WILDCARD
    users, groups = (",".join(sorted(names)) for names in (acl.users, acl.groups))
    return f"{users} {groups}" if groups else users


def _quoted(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
