"""Detects YARN ACLs that probably do not mean what was intended."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.yarn_acl import TRIMMED, Semantics, describe_difference, parse_yarn
from queuegate_server.formats.diagnostics import quoted
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.suspicious_names import (
    YARN,
    hide_known,
    not_a_list,
    spelled_in_two_cases,
    split_name,
    suspicious_name,
    suspicious_text,
)

_LINE_BREAK_OR_TAB: Final = re.compile(r"[\t\n\r]")
_BLANK_AT_COMMA: Final = re.compile(r"^[^ ]*(?:, | ,)")
_SEPARATOR: Final = re.compile("[,\n]")
_ONE_NAME: Final = re.compile(r"(?i)domain |.* (?:[-&+/] |[(\[])")
"""Matches a group's name whose spaces are unlikely to separate names, such as `Sales - EMEA`."""
_WORD: Final = re.compile(r"(?<!\S)[^\w\s]*+\w\S*")
_PROXY: Final = "~"
_MAX_REPORTED: Final = 3


def advice(text: str, semantics: Semantics, known: frozenset[str]) -> Finding | None:
    """Return a single warning about an ACL's ambiguities and unknown suspicious names, or None.

    It joins the messages of all findings, and has the identifier and the remedy of the first
    finding.
    """
    unknown = hide_known(text, known)
    if whole := not_a_list(unknown, YARN):
        return whole
    suspicions = (*spelled_in_two_cases(text, known), *_suspicions(unknown))
    faults = [*islice(suspicions, _MAX_REPORTED), *_ambiguities(text, semantics, known)]
    if not faults:
        return None
    message = "; ".join(dict.fromkeys(each.message for each in faults))
    return replace(faults[0], message=message)


def _ambiguities(text: str, semantics: Semantics, known: frozenset[str]) -> Iterator[Finding]:
    """Yield warnings about an ACL that Hadoop's code and its documentation read differently."""
    if _LINE_BREAK_OR_TAB.search(text):
        # The first space of the indentation separates users from groups.
        yield finding("line-break-in-acl")
    elif _BLANK_AT_COMMA.match(text):
        yield finding("space-beside-comma")
    hadoop = parse_yarn(text, Semantics.HADOOP)
    if WILDCARD in hadoop.users | hadoop.groups:
        yield finding("everyone-among-names")
    is_stated = semantics is Semantics.HADOOP and _is_meant_for_hadoop(text, hadoop, known)
    if not is_stated and (differs := describe_difference(text)):
        has_spaces = any(" " in name for name in hadoop.groups)
        remedy = phrase("if-one-group") if semantics is Semantics.HADOOP and has_spaces else ""
        words = {"text": quoted(text), "differs": differs, "semantics": semantics}
        yield finding("ambiguous-acl", remedy=remedy, **words)


def _is_meant_for_hadoop(text: str, acl: Acl, known: frozenset[str]) -> bool:
    """Return whether an ACL that Hadoop and its documentation read differently is clear to Hadoop.

    A space in an unknown group's name may be meant as a separator, unless commas separate the
    groups. Between known names, a space is a separator.
    """
    if acl.allows_all or _LINE_BREAK_OR_TAB.search(text) or _BLANK_AT_COMMA.match(text):
        return False
    if split_name(text, known):  # has a warning of its own
        return True
    names = [name for name in acl.groups if " " in name and name not in known]
    if any(known.issuperset(_WORD.findall(name)) for name in names):
        return False
    return "," in text.partition(" ")[2] or all(map(_ONE_NAME.match, names))


def _suspicions(text: str) -> Iterator[Finding]:
    yield from suspicious_text(text, YARN)
    users, _, groups = text.partition(" ")
    for kind, field in (("user", users), ("group", groups)):
        for entry in filter(None, _SEPARATOR.split(field)):
            name = entry.strip(TRIMMED)
            if kind == "user":
                if name == _PROXY:
                    yield finding("proxy-without-service")
                name = name.removeprefix(_PROXY)
            if name and (suspicion := suspicious_name(kind, name, YARN)):
                yield suspicion.finding
