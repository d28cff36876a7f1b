"""Reviews the patterns of users who are not checked: the settings `controllers` and `exempt`."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from queuegate.policy.named_grants import SERVICE_ACCOUNT
from queuegate_server.admission.queues.kinds import Kind
from queuegate_server.admission.queues.listed_kinds import ListedKinds
from queuegate_server.admission.queues.operators import OPERATORS, Operator
from queuegate_server.admission.queues.places import build_places
from queuegate_server.formats.diagnostics import Diagnostic, quoted
from queuegate_server.formats.yunikorn import go_regexp
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.source_map import SourceMap

_QUEUES: Final = ("admission", "queues")
_UNLIKE_USERS: Final = ("q7x", "wyx@vz.test", f"{SERVICE_ACCOUNT}zy:vw")
"""User names that have no letter in common. A pattern that matches all of them matches everyone."""
_NO_ACCOUNT: Final = "q7x"
"""The name of a service account that does not exist."""
_NAMESPACE: Final = re.compile(rf"{SERVICE_ACCOUNT}([a-z0-9][-a-z0-9]*):")
_PART: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_MAX_NAMED: Final = 5
_UNKNOWN: Final = (
    "is not an account that queuegate knows: if it creates pods from a kind that is not checked,"
    " anyone who can create such objects can use any queue"
)
_REMEDY_OF_UNKNOWN: Final = (
    "list it in the ACLs of its queues instead, or move it to exempt once you have made sure that"
    " all of its kinds are checked"
)
_IN_FULL: Final = r"write each name in full, between ^ and $, with \. for a dot"
_FLAGS: Final = re.compile(r"\(\?[isU]+\)")
"""Flags for a whole pattern that do not change the meaning of ^ and $."""
_WIDE: Final = re.compile(r"\.|\*|\+|\{|\\[dDsSwWpPC]|\[(?!\\?.\]\Z).*", re.DOTALL)
"""A wildcard, repetition or class in a pattern, unless the class contains a single character, as in
`[.]`."""


def pattern_warnings(queues: QueueChecks, source_map: SourceMap) -> Iterator[Diagnostic]:
    """Yield warnings about patterns that exempt users who should be checked.

    Args:
        queues: The settings.
        source_map: The origins of the settings.
    """
    kinds = None if queues.kinds == "all" else ListedKinds(build_places(queues))
    for key in ("controllers", "exempt"):
        for position, pattern in enumerate(getattr(queues, key)):
            location = (*_QUEUES, key, position)
            compiled = go_regexp.compile_pattern(pattern)
            if all(map(compiled.search, _UNLIKE_USERS)):
                yield source_map.warning(
                    location,
                    f"the pattern {quoted(pattern)} matches every user, so nobody is checked",
                    _IN_FULL,
                )
                continue
            fault = _too_wide(pattern, compiled)
            if fault:
                yield source_map.warning(
                    location, f"the pattern {quoted(pattern)} {fault}", _IN_FULL
                )
            if key == "controllers":
                operators = _operators(pattern, compiled, is_wide=bool(fault))
                if not operators and not fault:
                    yield source_map.warning(
                        location, f"{quoted(pattern)} {_UNKNOWN}", _REMEDY_OF_UNKNOWN
                    )
                for operator in operators:
                    if trust := _misplaced_trust(operator, kinds):
                        yield source_map.warning(
                            location, f"{quoted(pattern)} {trust[0]}", trust[1]
                        )


def _too_wide(pattern: str, compiled: Any) -> str:
    """Return why a pattern matches more names than its author may expect; empty if it does not."""
    if not _is_anchored(pattern):
        return "also matches longer names that contain a match"
    for namespace in _namespaces(pattern):
        if compiled.search(f"{SERVICE_ACCOUNT}{namespace}:{_NO_ACCOUNT}"):
            return f"matches every account in the namespace {namespace}"
    for part in filter(_WIDE.fullmatch, _parts(pattern)):
        return f"contains {quoted(part)}, so it also matches names that it does not spell out"
    return ""


def _parts(pattern: str) -> list[str]:
    """Return the parts of a pattern without its flags. Each part is a character, an escape, a class
    or quoted text.
    """
    return _PART.findall(_FLAGS.sub("", pattern, count=1) if _FLAGS.match(pattern) else pattern)


def _is_anchored(pattern: str) -> bool:
    """Return whether each alternative of a pattern begins with ^ and ends with $.

    Anchors inside a group are ignored, so `(^a$|^b$)` is reported, but such patterns are rare.
    """
    depth, starts, last = 0, True, ""
    for part in _parts(pattern):
        if starts and part != "^":
            return False
        starts = False
        if part == "|" and depth == 0:
            if last != "$":
                return False
            starts = True
        depth += {"(": 1, ")": -1}.get(part, 0)
        last = part
    return last == "$"


def _misplaced_trust(operator: Operator, kinds: ListedKinds | None) -> tuple[str, str] | None:
    """Return why an operator's account may use queues that nobody has checked, and the remedy. With
    `kinds: all`, where `kinds` is None, the webhook is asked about all kinds.
    """
    if operator.chooses:
        reason = (
            f"matches the account of {operator.name}, whose users choose queues where nobody checks"
            " the choice, so each user may use every queue"
        )
        return reason, "list the account in the ACLs of its queues instead"
    missing = [kind for kind in operator.kinds if kinds is not None and not kinds.includes(kind)]
    if not missing:
        return _may_fetch(operator) if operator.fetched else None
    reason = (
        f"matches the account of {operator.name}, which creates objects from kinds that are not"
        f" checked: {_listed(missing)}; anyone who may create such an object may use any queue"
    )
    place = f"{{kind: {'/'.join(missing[0])}, field: spec.queue}}"
    remedy = (
        f"add a place for each to admission.queues.schedulers.places, such as {place}, or list the"
        " account in the ACLs of its queues instead; see also admission.queues.kinds"
    )
    return reason, remedy


def _may_fetch(operator: Operator) -> tuple[str, str]:
    """Return why an operator that fetches templates may use queues that nobody has checked, and
    the remedy.
    """
    reason = (
        f"matches the account of {operator.name}, which may fetch {operator.fetched}, where this"
        " webhook checks no queues; anyone who may refer to such an object may use any queue"
    )
    acls = "list the account in the ACLs of its queues instead"
    if operator.condition:
        return reason, f"{acls}, or move it to exempt if {operator.condition}"
    return reason, f"{acls}, or turn the fetching off and move the account to exempt"


def _operators(pattern: str, compiled: Any, *, is_wide: bool) -> list[Operator]:
    """Return the operators whose accounts a pattern matches, in their usual namespaces or, if the
    pattern matches only names that it spells out, in the namespaces that it names.
    """
    found = [each for each in OPERATORS if any(map(compiled.search, each.accounts))]
    if found or is_wide:
        return found
    return [
        operator
        for operator in OPERATORS
        if any(
            compiled.search(f"{SERVICE_ACCOUNT}{namespace}:{name}")
            for namespace in _namespaces(pattern)
            for name in (account.rpartition(":")[2] for account in operator.accounts)
            if "-" in name  # other names, such as `controller`, may belong to any program
        )
    ]


def _namespaces(pattern: str) -> Sequence[str]:
    """Return the namespaces that a pattern names."""
    return list(dict.fromkeys(_NAMESPACE.findall(pattern)))


def _listed(kinds: Sequence[Kind]) -> str:
    """Return kinds as text, such as `ScaledJob (keda.sh)`."""
    texts = [f"{kind} ({group})" if group else kind for group, kind in kinds[:_MAX_NAMED]]
    more = len(kinds) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")
