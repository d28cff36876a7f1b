"""The file of a YARN scheduler -> a queues.yaml that grants the same access to queues.

What YuniKorn cannot express is left out, so that the result never grants more, and told.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from queuegate.policy.acl import EMPTY, WILDCARD, Acl, AclNames, accepted_names
from queuegate.policy.names import (
    RECOVERY_QUEUE,
    ROOT,
    SEPARATOR,
    is_queue_name,
    parent_path,
)
from queuegate.policy.tree import Cluster
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    Positioned,
    Severity,
    quoted,
)
from queuegate_server.formats.yaml_text import MAX_BYTES
from queuegate_server.formats.yarn.load import STATES, Read, read
from queuegate_server.formats.yarn.model import YarnOptions
from queuegate_server.formats.yunikorn.write import MAX_LEVELS, WrittenQueue, write_queues

_EVERYBODY: Final = Acl(text=WILDCARD, allows_all=True)
_SHOWN_NAMES: Final = 20
_HEAD: Final = (
    "Access to queues, from {file}, read as {semantics}.",
    "Not converted: resources, limits, placement, and where groups come from.",
)


class Converted(NamedTuple):
    """What came of a conversion."""

    text: str
    """The queues.yaml; empty if the scheduler's file cannot be loaded."""
    remarks: tuple[str, ...]
    """What was done that is not obvious, and is exact."""
    lost: tuple[Diagnostic, ...]
    """What cannot be expressed, with the queue that it is about. It grants less there, and
    below."""
    diagnostics: tuple[Diagnostic, ...]
    """The diagnostics of loading."""


def convert(
    format_name: str,
    data: bytes,
    file: str,
    options: YarnOptions,
    names: AclNames = AclNames.YUNIKORN,
) -> Converted:
    """Convert a text in one of the formats of YARN. `names` says which names the ACLs of the
    result may list.
    """
    found, diagnostics = read(STATES[format_name], data, file, options)
    if found is None:
        return Converted("", (), (), diagnostics)
    conversion = _Conversion(found, file, names)
    queues = conversion.queues()
    head = [
        line.format(file=quoted(file), semantics=options.semantics(options.partition))
        for line in _HEAD
    ]
    text = write_queues(queues, (*head, *conversion.remarks))
    if len(text) > MAX_BYTES:
        message = f"the queues.yaml would be larger than {MAX_BYTES} bytes"
        diagnostic = Diagnostic(file, 0, 0, Severity.ERROR, message, "flatten or split the tree")
        return Converted("", (), (), (*diagnostics, diagnostic))
    return Converted(text, tuple(conversion.remarks), conversion.diagnostics.sorted(), diagnostics)


@dataclass(slots=True)
class _Conversion:
    found: Read
    file: str
    names: AclNames
    remarks: list[str] = field(default_factory=list)
    diagnostics: Diagnostics = field(init=False)

    def __post_init__(self) -> None:
        self.diagnostics = Diagnostics(self.file)

    @property
    def _cluster(self) -> Cluster:
        if self.found.partition.cluster is None:
            raise AssertionError("a partition of YARN has a cluster")
        return self.found.partition.cluster

    def queues(self) -> Sequence[WrittenQueue]:
        """Return the queues to write, and note what is not written."""
        positions = {stated.path: stated.position for stated in self.found.stated.queues}
        queues = self.found.partition.queues
        if not self._cluster.acls_enabled and self._opens_everything():
            acls = {ROOT: _EVERYBODY}
            return [
                WrittenQueue(path, acls.get(path, EMPTY), acls.get(path, EMPTY))
                for path in self._kept(positions)
            ]
        written = []
        for path in self._kept(positions):
            submit, admin = queues[path].submit_acl, queues[path].admin_acl
            if path == ROOT:
                admin = self._with_cluster_admins(admin)
            written.append(
                WrittenQueue(
                    path,
                    self._expressed(submit, "submit", path, positions[path]),
                    self._expressed(admin, "admin", path, positions[path]),
                )
            )
        return written

    def _opens_everything(self) -> bool:
        """Say whether disabled ACLs open all queues, and note what they do."""
        cluster = self._cluster
        if cluster.semantics is Semantics.HADOOP and cluster.checks_submission_always:
            message = "ACLs are disabled, and the fair scheduler still checks who submits:"
            message += " everybody may administer, which in YuniKorn is to submit, too"
            remedy = "the ACLs are written as if they were enabled; set yarn.acl.enable to true"
            self.diagnostics.warning(None, message, remedy, ROOT)
            return False
        self.remarks.append("ACLs are disabled (yarn.acl.enable): root is open to everybody.")
        return True

    def _with_cluster_admins(self, own: Acl) -> Acl:
        """Put the administrators of the cluster into the admin ACL of the root, where they are
        granted what they have in YARN: everything.
        """
        admins, cluster = self._cluster.admins, self._cluster
        if admins.is_empty:
            return own
        if cluster.semantics is Semantics.HADOOP:
            self.remarks.append("yarn.admin.acl is left out: in Hadoop it opens no queue.")
            return own
        self.remarks.append("yarn.admin.acl is part of the admin ACL of root: it opens all queues.")
        return replace(
            own,
            allows_all=own.allows_all or admins.allows_all,
            users=own.users | admins.users,
            groups=own.groups | admins.groups,
            proxies=own.proxies | admins.proxies,
        )

    def _expressed(self, acl: Acl, kind: str, path: str, position: Positioned) -> Acl:
        """Return the part of an ACL that YuniKorn accepts, and note the rest."""
        if acl.allows_all:
            if path == ROOT:
                self.remarks.append(
                    f"The {kind} ACL of root is *, as in YARN: it opens all queues."
                )
            return _EVERYBODY
        users, groups = accepted_names(acl, self.names)
        lost = [*(acl.users - users), *(acl.groups - groups)]
        for names, message in (
            (lost, "YuniKorn drops these names from the {} ACL: {}"),
            ([f"~{name}" for name in acl.proxies], "YuniKorn knows no proxies: {} ACL, {}"),
        ):
            if names:
                shown = ", ".join(quoted(name) for name in sorted(names)[:_SHOWN_NAMES])
                more = len(names) - _SHOWN_NAMES
                shown += f" and {more} more" if more > 0 else ""
                remedy = "rename them, or list other names"
                if names is lost and self.names is AclNames.YUNIKORN:
                    remedy += "; acl_names: extended accepts some"
                self.diagnostics.warning(position, message.format(kind, shown), remedy, path)
        return Acl(users=users, groups=groups)

    def _kept(self, positions: dict[str, Positioned]) -> Iterator[str]:
        """Yield the paths of the queues that YuniKorn can have, as a tree; note the others."""
        below: dict[str, list[str]] = {}
        for path in positions:
            below.setdefault(parent_path(path), []).append(path)
        waiting = [ROOT]
        while waiting:
            path = waiting.pop()
            yield path
            children = below.get(path, [])
            spelled = Counter(child.lower() for child in children if child.isascii())
            kept = []
            for child in children:
                fault = _fault(child, spelled)
                if fault:
                    message, remedy = fault
                    message = f"{message}; it is left out, with all below it"
                    self.diagnostics.warning(positions[child], message, remedy, child)
                else:
                    kept.append(child)
            waiting += reversed(kept)


def _fault(path: str, spelled: Counter[str]) -> tuple[str, str] | None:
    """Say why YuniKorn cannot have a queue, and what to do; None if it can."""
    name = path.rpartition(SEPARATOR)[2]
    if not is_queue_name(name):
        message = f"{quoted(name)} is no name of a queue in YuniKorn"
        return message, "rename it: 1 to 64 letters, digits and _ : # / @ -"
    if path.lower() == RECOVERY_QUEUE:
        return "in YuniKorn this is the recovery queue, to which nobody submits", "rename it"
    if spelled[path.lower()] > 1:
        message = f"{quoted(name)} differs only in case from a queue beside it, which is one queue"
        return f"{message} in YuniKorn", "rename one of them"
    if path.count(SEPARATOR) >= MAX_LEVELS:
        return f"it is on a level below {MAX_LEVELS}", "flatten the tree"
    return None
