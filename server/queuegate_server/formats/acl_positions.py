"""Where the ACLs of a policy are written: file, line and column.

The loaded policy does not keep positions. Only commands that show an ACL need them, and these read
the file again.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from queuegate.policy.chain import CLUSTER
from queuegate.policy.created_queues import ANY_NAME, TemplateKind
from queuegate.policy.decision import Access
from queuegate.policy.names import SEPARATOR
from queuegate_server.formats.diagnostics import Diagnostics, Positioned, TooManyErrors
from queuegate_server.formats.envelope import open_envelope
from queuegate_server.formats.registry import YUNIKORN, FormatOptions
from queuegate_server.formats.source_text import ParseError
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yarn.schedulers import SCHEDULERS
from queuegate_server.formats.yarn.site import read_site
from queuegate_server.formats.yunikorn.load import normalized_name
from queuegate_server.formats.yunikorn.model import decode


class AclKey(NamedTuple):
    """Identifies an ACL of a policy."""

    partition: str
    queue: str
    """The path, or empty for the administrators of the cluster."""
    access: Access


class Place(NamedTuple):
    """A position in a file. Lines and columns count from 1; 0 if only the file is known."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return `file:line:column`."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


def acl_positions(
    format_name: str, data: bytes, file: str, options: FormatOptions
) -> Mapping[AclKey, Place]:
    """Return the positions of a valid policy's ACLs. The arguments are as for `load_policy`.

    ACLs missing from the text, such as defaults, get the position of their queue, if any. The ACLs
    of a `leaf-queue-template` have a path with the level `*`. Other templates are left out because
    several of them can apply to one queue.
    """
    positions: dict[AclKey, Place] = {}

    def add(key: AclKey, acl: Positioned | None, queue: Positioned | None) -> None:
        if place := acl or queue:
            other = getattr(place, "file", "")
            column = place.column + (indent if not other or other == file else 0)
            positions[key] = Place(other or file, place.line, column)

    with suppress(TooManyErrors, ParseError):
        data, file, indent, _ = open_envelope(data, file)
        if format_name == YUNIKORN:
            for partition in decode(read_yaml(data, file).root, Diagnostics(file)):
                name = normalized_name(partition)
                for queue in partition.queues:
                    add(AclKey(name, queue.path, Access.SUBMIT), queue.submit_acl, queue.position)
                    add(AclKey(name, queue.path, Access.ADMIN), queue.admin_acl, queue.position)
            return positions
        site, _ = read_site(options.yarn.site, options.yarn.semantics)
        scheduler = SCHEDULERS[format_name](data, Diagnostics(file), site.configuration)
        name = options.yarn.partition
        for entry in scheduler.queues if scheduler else ():
            add(AclKey(name, entry.path, Access.SUBMIT), entry.submit, entry.position)
            add(AclKey(name, entry.path, Access.ADMIN), entry.admin, entry.position)
        for template in scheduler.templates.entries if scheduler else ():
            if template.kind is TemplateKind.LEAF_OF_MANAGED:
                path = f"{template.path}{SEPARATOR}{ANY_NAME}"
                add(AclKey(name, path, Access.SUBMIT), template.submit, None)
                add(AclKey(name, path, Access.ADMIN), template.admin, None)
        if options.yarn.site is not None:
            at = site.admins_position
            key = AclKey(name, CLUSTER, Access.ADMIN)
            place = Place(options.yarn.site[1])
            positions[key] = place._replace(line=at.line, column=at.column) if at else place
    return positions
