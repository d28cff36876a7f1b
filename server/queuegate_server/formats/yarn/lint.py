"""Doubtful things in the files of YARN's schedulers."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from queuegate_server.formats.findings import Findings, quoted
from queuegate_server.formats.problems import Problem
from queuegate_server.formats.yarn.load import State, read_stated
from queuegate_server.formats.yarn.model import Stated, StatedQueue, Text, YarnOptions
from queuegate_server.formats.yarn.site import read_site
from queuegate_server.policy.acl import WILDCARD
from queuegate_server.policy.names import ROOT
from queuegate_server.policy.yarn_acl import Semantics, difference, parse_yarn

_SPLIT_LINE: Final = re.compile(r"[\t\n\r]")
_BLANK_AT_COMMA: Final = re.compile(r"^[^ ]*(?:, | ,)")


def lint(state: State, data: bytes, file: str, semantics: Semantics) -> tuple[Problem, ...]:
    """Return the warnings about a text, by place; none if it cannot be read."""
    stated = read_stated(state, data, file, Findings(file))
    if stated is None:
        return ()
    findings = Findings(file)
    for rule in RULES:
        rule(stated, findings, semantics)
    return findings.in_order()


def lint_site(options: YarnOptions) -> tuple[Problem, ...]:
    """Return the warnings about `yarn.admin.acl` in a yarn-site.xml; none without one."""
    site, _ = read_site(options)
    if options.site is None or site.place is None:
        return ()
    findings = Findings(options.site[1])
    of_acl = Stated("", "", checks_submission_always=False)
    of_acl.queues.append(StatedQueue("", site.place, admin=site.place))
    for rule in RULES_OF_ACLS:
        rule(of_acl, findings, options.semantics(options.partition))
    return findings.in_order()


def _acls(stated: Stated) -> Iterator[tuple[StatedQueue, Text]]:
    for queue in stated.queues:
        for text in (queue.submit, queue.admin):
            if text is not None:
                yield queue, text


def open_root(stated: Stated, findings: Findings, _: Semantics) -> None:
    """A root that lets everybody in, and with that each queue below it."""
    root = stated.queues[0]
    for name, text, effect in (
        (stated.submit_name, root.submit, "submit to"),
        (stated.admin_name, root.admin, "administer, and so submit to,"),
    ):
        if text is None:
            message = f"root has no {name}: in Hadoop it is then * and everybody may {effect}"
            message += " every queue, whatever the other ACLs say"
            remedy = "set both ACLs of root; a single space lets nobody in"
            findings.warning(root.place, message, remedy, ROOT)
        elif parse_yarn(text.text, Semantics.HADOOP).allows_all and len(stated.queues) > 1:
            message = f"everybody may {effect} every queue: a queue inherits what root grants"
            findings.warning(text, message, "write a single space, and open the queues below", ROOT)


def pretty_printed(stated: Stated, findings: Findings, _: Semantics) -> None:
    """An ACL over several lines, in which the first blank of the indentation separates."""
    for queue, text in _acls(stated):
        if _SPLIT_LINE.search(text.text):
            message = "a line break or tab stands in this ACL: blanks after it turn users"
            message += " into groups"
            remedy = "write the ACL on one line, right between the tags"
            findings.warning(text, message, remedy, queue.path)


def two_meanings(stated: Stated, findings: Findings, semantics: Semantics) -> None:
    """An ACL that Hadoop reads otherwise than its documents."""
    for queue, text in _acls(stated):
        told = difference(text.text)
        if told:
            message = f"{quoted(text.text)} is ambiguous: {told}; it is read as {semantics}"
            remedy = "write users, one space, groups, with nothing but commas between names"
            findings.warning(text, message, remedy, queue.path)


def blank_at_comma(stated: Stated, findings: Findings, _: Semantics) -> None:
    """A blank beside a comma of the list of users, behind which the list of groups begins."""
    for queue, text in _acls(stated):
        if _BLANK_AT_COMMA.match(text.text):
            message = "the blank beside the comma turns the names behind it into groups"
            findings.warning(text, message, "remove the blank", queue.path)


def wildcard_in_list(stated: Stated, findings: Findings, _: Semantics) -> None:
    """A `*` among names, where it is a name."""
    for queue, text in _acls(stated):
        acl = parse_yarn(text.text, Semantics.HADOOP)
        if WILDCARD in acl.users | acl.groups:
            message = "a * among names is a name like any other"
            findings.warning(text, message, "write * alone, or remove it", queue.path)


Rule = Callable[[Stated, Findings, Semantics], None]

RULES_OF_ACLS: Final[tuple[Rule, ...]] = (
    pretty_printed,
    two_meanings,
    blank_at_comma,
    wildcard_in_list,
)
RULES: Final[tuple[Rule, ...]] = (open_root, *RULES_OF_ACLS)
