"""Finds ACL positions in a policy's text, because loaded policies do not keep them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from queuegate.policy.acl import Acl
from queuegate.policy.chain import CLUSTER
from queuegate.policy.created_queues import TemplateKind
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate_server.formats.diagnostics import Diagnostics, Positioned
from queuegate_server.formats.envelope import open_envelope
from queuegate_server.formats.format_names import YUNIKORN
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yarn.schedulers import SCHEDULERS
from queuegate_server.formats.yarn.site import read_site
from queuegate_server.formats.yarn.variables import LocatedText
from queuegate_server.formats.yunikorn.document import decode
from queuegate_server.formats.yunikorn.model import normalized_name


class AclKey(NamedTuple):
    """Identifies an ACL, queue, partition or queue creation property in a policy."""

    partition: str
    queue: str
    """The queue's path; empty for the cluster's administrators."""
    access: Access | None
    """The kind of ACL. None identifies the queue itself, the partition or YARN's `yarn.acl.enable`
    (if `queue` is empty), or the property that enables creation from the template (if `template`
    is set)."""
    template: TemplateKind | None = None
    """The kind of template at this path; None for the queue's own ACL."""


class Place(NamedTuple):
    """A 1-based position in a file; line and column are 0 if only the file is known."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class DefaultPlace(Place):
    """The position shown for an unset ACL: its queue's, or the file for administrators."""

    __slots__ = ()


def acl_key(partition: Partition, path: str, queue: str, access: Access | None) -> AclKey:
    """Return the key of `queue`'s ACL or, if YARN creates `queue` on demand, its template's ACL.

    `path` is the queue to which access is requested: `queue` itself or a queue below it. Neither
    needs to exist yet.
    """
    for created in partition.created_acls(path):
        is_submit = access is Access.SUBMIT
        template = created.submit_template if is_submit else created.admin_template
        if template and created.path == queue:
            return AclKey(partition.name, template.path, access, template.kind)
    return AclKey(partition.name, queue, access)


def acls_by_key(partition: Partition) -> Iterator[tuple[AclKey, Acl]]:
    """Yield all ACLs in effect in a partition, with their keys."""
    name = partition.name
    for path, queue in partition.queues.items():
        yield AclKey(name, path, Access.SUBMIT), queue.submit_acl
        yield AclKey(name, path, Access.ADMIN), queue.admin_acl
    for kind, path, *texts in partition.creation.templates if partition.creation else ():
        for access, text in zip(Access, texts, strict=True):
            if text is not None:
                yield AclKey(name, path, access, kind), partition.parse_acl(text)
    if partition.cluster is not None:
        yield AclKey(name, CLUSTER, Access.ADMIN), partition.cluster.admins


def acl_positions(
    format_name: str, data: bytes, file: str, options: FormatOptions
) -> Mapping[AclKey, Place]:
    """Return the positions of the ACLs and queues in a valid policy.

    The arguments are the same as for `load_policy`. Unset ACLs get their queue's position, if any.
    """
    positions: dict[AclKey, Place] = {}

    def add(key: AclKey, *candidates: Positioned | None) -> None:
        if place := next(filter(None, candidates), None):
            other = getattr(place, "file", "")
            column = place.column + (indent if place.line and other in {"", file} else 0)
            kind = Place if candidates[0] else DefaultPlace
            positions[key] = kind(other or file, place.line, column)

    with Diagnostics(file):
        data, file, indent, _ = open_envelope(data, file)
        if format_name == YUNIKORN:
            for partition in decode(read_yaml(data, file).root, Diagnostics(file)):
                name = normalized_name(partition)
                add(AclKey(name, CLUSTER, None), partition.position)
                for queue in partition.queues:
                    add(AclKey(name, queue.path, None), queue.position)
                    add(AclKey(name, queue.path, Access.SUBMIT), queue.submit_acl, queue.position)
                    add(AclKey(name, queue.path, Access.ADMIN), queue.admin_acl, queue.position)
            return positions
        site, _ = read_site(options.yarn.site, options.yarn.semantics)
        scheduler = SCHEDULERS[format_name](data, Diagnostics(file), site.configuration)
        name = options.yarn.partition
        for entry in scheduler.queues if scheduler else ():
            add(AclKey(name, entry.path, None), entry.position)
            add(AclKey(name, entry.path, Access.SUBMIT), entry.submit, entry.position)
            add(AclKey(name, entry.path, Access.ADMIN), entry.admin, entry.position)
        for template in scheduler.templates.entries if scheduler else ():
            add(AclKey(name, template.path, Access.SUBMIT, template.kind), template.submit)
            add(AclKey(name, template.path, Access.ADMIN, template.kind), template.admin)
        for (path, kind), switch in scheduler.templates.switches.items() if scheduler else ():
            add(AclKey(name, path, None, kind), switch)
        if options.yarn.site is not None:
            unset = LocatedText(0, 0, "", options.yarn.site[1])
            add(AclKey(name, CLUSTER, None), site.switch, unset)
            add(AclKey(name, CLUSTER, Access.ADMIN), site.admin_acl, unset)
    return positions
