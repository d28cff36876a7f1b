"""Detects YARN ACLs that probably do not mean what was intended."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from queuegate.policy.acl import WILDCARD, Acl
from queuegate.policy.yarn_acl import TRIMMED, Semantics, describe_difference, parse_yarn
from queuegate_server.formats.diagnostics import quoted
from queuegate_server.formats.suspicious_names import (
    YARN,
    Suspicion,
    not_a_list,
    spelled_in_two_cases,
    suspicious_name,
    suspicious_text,
)

_LINE_BREAK_OR_TAB: Final = re.compile(r"[\t\n\r]")
_BLANK_AT_COMMA: Final = re.compile(r"^[^ ]*(?:, | ,)")
_SEPARATOR: Final = re.compile("[,\n]")
_PROXY: Final = "~"
_MAX_REPORTED: Final = 3


def advice(text: str, semantics: Semantics) -> Suspicion | None:
    """Return a single warning about an ACL's ambiguities and suspicious names, or None."""
    if whole := not_a_list(text, YARN):
        return whole
    faults = [*islice(_suspicions(text), _MAX_REPORTED), *_ambiguities(text, semantics)]
    if not faults:
        return None
    message = "; ".join(dict.fromkeys(each.message for each in faults))
    return Suspicion(message, faults[0].remedy)


def _ambiguities(text: str, semantics: Semantics) -> Iterator[Suspicion]:
    if _LINE_BREAK_OR_TAB.search(text):
        # The first space of the indentation separates users from groups.
        message = "this ACL contains a line break or tab: spaces after it turn users into groups"
        yield Suspicion(message, "write the ACL on one line, directly between the tags")
    elif _BLANK_AT_COMMA.match(text):
        message = "the space beside the comma turns the names after it into groups"
        yield Suspicion(message, "for users remove the space, for groups remove the comma")
    hadoop = parse_yarn(text, Semantics.HADOOP)
    if WILDCARD in hadoop.users | hadoop.groups:
        yield Suspicion("a * among other names is an ordinary name", "write * alone, or remove it")
    is_stated = semantics is Semantics.HADOOP and _is_meant_for_hadoop(text, hadoop)
    if not is_stated and (differs := describe_difference(text)):
        message = f"{quoted(text)} is ambiguous: {differs}; this file is read with"
        message += f" semantics {semantics}"
        remedy = "write users, one space, groups, and separate names with commas only"
        yield Suspicion(message, remedy)


def _is_meant_for_hadoop(text: str, acl: Acl) -> bool:
    """Return whether an ACL that is read differently as documented is clear in Hadoop.

    A space in a group's name may be meant as a separator unless commas separate the groups.
    """
    if acl.allows_all or _LINE_BREAK_OR_TAB.search(text) or _BLANK_AT_COMMA.match(text):
        return False
    names = (name.lower() for name in acl.groups if " " in name)
    return "," in text.partition(" ")[2] or all(name.startswith("domain ") for name in names)


def _suspicions(text: str) -> Iterator[Suspicion]:
    yield from suspicious_text(text, YARN)
    yield from spelled_in_two_cases(text)
    users, _, groups = text.partition(" ")
    for kind, field in (("user", users), ("group", groups)):
        for entry in filter(None, _SEPARATOR.split(field)):
            name = entry.strip(TRIMMED)
            if kind == "user":
                if name == _PROXY:
                    yield Suspicion(f'"{_PROXY}" names nobody', "write a service's name after it")
                name = name.removeprefix(_PROXY)
            if name and (suspicion := suspicious_name(kind, name, YARN)):
                yield suspicion
