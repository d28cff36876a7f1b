"""Doubtful things in a queues.yaml: the table of rules, and what they look at."""

from collections.abc import Callable
from typing import Final

from queuegate.policy.acl import AclNames
from queuegate_server.formats import yaml_tree
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, TooManyErrors
from queuegate_server.formats.yaml_nodes import Node
from queuegate_server.formats.yaml_text import source_lines
from queuegate_server.formats.yunikorn import lint_acls, lint_blanks, lint_names, lint_queues
from queuegate_server.formats.yunikorn.acls import AclReader
from queuegate_server.formats.yunikorn.decode import decode
from queuegate_server.formats.yunikorn.lint_subject import ListedAcl, Subject
from queuegate_server.formats.yunikorn.queues import normal_name

Rule = Callable[[Subject, Diagnostics], None]

RULES: Final[tuple[Rule, ...]] = (
    lint_blanks.swallowed_blank,
    lint_names.group_as_user,
    lint_acls.blank_after_comma,
    lint_acls.wildcard_in_list,
    lint_acls.wildcard_with_names,
    lint_acls.any_group,
    lint_acls.white_space,
    lint_acls.nobody,
    lint_queues.pointless,
    lint_queues.not_closed,
    lint_queues.recovery_queue,
    lint_names.spelled_in_two_cases,
)


def lint(data: bytes, file: str, *, acl_names: Callable[[str], AclNames]) -> tuple[Diagnostic, ...]:
    """Return the warnings about a text, by position; none if it cannot be read as YAML."""
    document = yaml_tree.read(data, file)
    if document.root is None:
        return ()
    try:
        subject = _subject(document.root, source_lines(data), acl_names)
    except TooManyErrors:
        return ()
    diagnostics = Diagnostics(file)
    for rule in RULES:
        rule(subject, diagnostics)
    return diagnostics.sorted()


def _subject(root: Node, lines: list[str], acl_names: Callable[[str], AclNames]) -> Subject:
    """Decode a document; what is wrong in it is reported by the loader."""
    unwanted = Diagnostics("")
    subject = Subject(lines, decode(root, unwanted))
    for partition in subject.partitions:
        reader = AclReader(acl_names(normal_name(partition.name)), unwanted)
        for queue in partition.queues:
            for key, scalar in (("submitacl", queue.submit_acl), ("adminacl", queue.admin_acl)):
                if scalar is not None:
                    acl = reader.read(scalar, queue.path)
                    subject.acls.append(ListedAcl(queue, key, scalar, acl, reader.names))
    return subject
