"""Finds webhook settings that are valid but probably unintended. Pure.

They cause only warnings, because YuniKorn and queuegate accept them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from queuegate.policy.names import similar_name
from queuegate_server.admission.annotations.yunikorn_settings import (
    BOOLEANS,
    LISTS,
    MAX_PATTERN_CHARACTERS,
    MAX_PATTERNS,
    InvalidPattern,
    compile_patterns,
    given_setting,
    split_patterns,
)

_PREFIX: Final = "admissioncontroller."
_KNOWN: Final = frozenset(
    {
        *(key for key, *_ in (*BOOLEANS.values(), *LISTS.values())),
        # Keys for YuniKorn's own admission controller. They have no effect here.
        "admissionController.webHook.amServiceName",
        "admissionController.webHook.schedulerServiceAddress",
    }
)
_BY_FOLDED_KEY: Final = {key.casefold(): key for key in _KNOWN}
_BY_LAST_PART: Final = {key.casefold().rpartition(".")[2]: key for key in _KNOWN}
_NAMES_PEOPLE: Final = frozenset({"system_users", "external_users", "external_groups"})
_MAX_KEY: Final = 100
_MAX_QUOTED: Final = 60
_NOBODY: Final = "\x01 \x01"
"""A string that cannot be the name of a user, group or namespace."""
# Constructs to skip as a unit, because brackets inside them need not be paired.
_COMPLETE: Final = re.compile(
    r"""(?s:
      \\Q.*?(?:\\E|\Z)                                      # a literal
    | \\[pPx]\{[^}]{0,64}\}                                     # a class or character by name
    | \\(?:.|\Z)                                            # an escape
    | \[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*+\]              # a class
    )""",
    re.VERBOSE,
)
_PARTNERS: Final = {"}": "{", "]": "[", ")": "("}


def lint_settings(
    values: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return one-line warnings about settings that are probably mistakes.

    For each setting, only the first pattern with each kind of mistake is reported.

    Args:
        values: The ConfigMaps' contents. Keys for the scheduler are ignored.
        environment: The environment variables, possibly with legacy settings.
    """
    return (*_unknown_keys(values), *_odd_patterns(values, environment or {}))


def _unknown_keys(values: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(values.keys() - _KNOWN):
        folded = key.casefold()
        meant = _BY_FOLDED_KEY.get(folded) or _BY_LAST_PART.get(folded.rpartition(".")[2])
        below = folded.startswith(_PREFIX)
        if not meant and (below or folded.startswith("admi")):
            meant = similar_name(key, _KNOWN)
        if meant or below:
            remedy = f"did you mean {meant}?" if meant else "remove it"
            shown = key if len(key) <= _MAX_KEY and key.isprintable() else _quoted(key)
            yield f"{shown}: unknown key, which is ignored ({remedy})"


def _odd_patterns(values: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[str]:
    for field, (key, variable, _) in LISTS.items():
        name, text = given_setting(key, variable, values, environment)
        if len(text or "") > MAX_PATTERN_CHARACTERS:
            continue  # reported as an error elsewhere
        patterns = split_patterns(text or "")[:MAX_PATTERNS]
        cut = next(filter(_is_cut, patterns), None)
        if cut is not None:
            yield (
                f"{name}: the pattern {_quoted(cut)} has an unmatched bracket:"
                " commas always separate patterns (write the pattern without a comma)"
            )
        for pattern in patterns:
            matched = _too_much(pattern, names_people=field in _NAMES_PEOPLE)
            if matched:
                yield f"{name}: the pattern {_quoted(pattern)} matches {matched}"
                break


def _is_cut(pattern: str) -> bool:
    """Return whether a pattern has an unpaired bracket, brace or parenthesis."""
    opened: list[str] = []
    position = 0
    while position < len(pattern):
        if (complete := _COMPLETE.match(pattern, position)) is not None:
            position = complete.end()
            continue
        sign = pattern[position]
        position += 1
        # The class is not closed. Stop here, because each search for a class end takes linear time.
        if sign == "[":
            return True
        if sign in "{(":
            opened.append(sign)
        elif sign in _PARTNERS and (not opened or opened.pop() != _PARTNERS[sign]):
            return True
    return bool(opened)


def _too_much(pattern: str, *, names_people: bool) -> str:
    """Describe the names that a pattern probably matches by mistake, or return "" if there are
    none.
    """
    try:
        compiled = compile_patterns(pattern)
    except InvalidPattern:
        return ""  # reported as an error elsewhere
    empty, everything = compiled.match(""), compiled.match(_NOBODY)
    if everything and (empty or names_people):
        return "every name (write the names between ^ and $)"
    return "the empty name (write at least one character between ^ and $)" if empty else ""


def _quoted(text: str) -> str:
    """Quote the text, truncating it and escaping unprintable characters."""
    return repr(text if len(text) <= _MAX_QUOTED else f"{text[: _MAX_QUOTED - 1]}…")
