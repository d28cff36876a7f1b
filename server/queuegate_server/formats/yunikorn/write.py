"""Queues and their ACLs -> the text of a queues.yaml."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.names import ROOT, SEPARATOR

MAX_LEVELS: Final = 96
"""How many levels of queues a document may have: each is two levels of YAML, of which
`yaml_tree` accepts 200."""


class WrittenQueue(NamedTuple):
    """A queue to write; its names must be those that YuniKorn accepts."""

    path: str
    submit: Acl
    admin: Acl


def write_queues(queues: Sequence[WrittenQueue], remarks: Iterable[str]) -> str:
    """Return a document with one partition, `default`.

    Queues stand in the order of a tree, each after its parent and what is below its elder
    siblings, the root first. Remarks become comments; each must be one line.
    """
    lines = [f"# {remark}" for remark in remarks]
    lines += ["partitions:", "  - name: default", "    queues:"]
    depth = 0
    for path, submit, admin in queues:
        level = path.count(SEPARATOR)
        indent = "      " + "    " * level
        if level > depth:
            lines.append(f"{indent[2:]}queues:")
        depth = level
        # In quotes: a name may also be `null`, or have a `#` in it.
        lines.append(f"{indent}- name: {_quoted(path.rpartition(SEPARATOR)[2]) if level else ROOT}")
        for key, acl in (("submitacl", submit), ("adminacl", admin)):
            if not acl.is_empty:
                lines.append(f"{indent}  {key}: {_quoted(acl_text(acl))}")
    return "\n".join(lines) + "\n"


def acl_text(acl: Acl) -> str:
    """Return an ACL in its shortest spelling, names sorted."""
    if acl.allows_all:
        return WILDCARD
    users, groups = (",".join(sorted(names)) for names in (acl.users, acl.groups))
    return f"{users} {groups}" if groups else users


def _quoted(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
