"""Lint rule for the blank that begins a list of groups, where YAML took it for its own."""

import re
from typing import Final, NamedTuple

from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yaml_nodes import Scalar
from queuegate_server.formats.yunikorn.lint_subject import ListedAcl, Subject

_ACL_KEYS: Final = frozenset({"submitacl", "adminacl"})
_GAP: Final = re.compile(
    r"""[ \t]*+:
        (?P<gap>(?:\s++(?:[!&]\S*+            # a tag or an anchor
                         |\#[^\n]*+           # a comment
                         |[|>][-+]?(?=\s)     # a block that finds its indentation itself
                       ))*+\s*+)
        (?P<first>[^\s|>])""",
    re.VERBOSE,
)
"""From the end of a key to the first character of its value."""
_COMMENT: Final = re.compile(r"(?<=\s)#[^\n]*+")
_BLANKS: Final = re.compile(r"\s+")
_NO_PLAIN_TEXT: Final = "\"'*[{"
"""What begins a value in quotes, an alias, a list and a mapping."""
_LINES_LOOKED_AT: Final = 4
_CHARACTERS_LOOKED_AT: Final = 200
"""Of each of these lines."""


class _Gap(NamedTuple):
    """What stands between a key and its value."""

    blanks: list[str]
    """White space, in one piece or around tags and anchors."""
    first: str
    """The first character of the value."""
    column: int
    """Where that stands if it is on the line of the key; else 0."""

    @property
    def is_wide(self) -> bool:
        """True if there is more than one blank, and all on one line."""
        return self.column > 0 and any(len(run) > 1 for run in self.blanks)


def swallowed_blank(subject: Subject, diagnostics: Diagnostics) -> None:
    """A list of groups whose leading blank YAML took for indentation."""
    for listed in subject.acls:
        if has_swallowed_blank(subject, listed):
            text = listed.scalar.text.strip()
            message = f"YAML drops the blanks before {quoted(text)}: it lists users, not groups"
            groups = quoted(f" {text}")
            remedy = f"for groups write {groups} in quotes, for users leave one blank"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def has_swallowed_blank(subject: Subject, listed: ListedAcl) -> bool:
    """Say whether a list without groups has a blank before it that nothing else explains.

    One blank belongs to the colon. Blanks that bring the values of several keys into one
    column are no sign, nor is the indentation of a line of its own, unless that is one
    blank off in a document that is indented by twos.
    """
    mapping = listed.queue.position
    if mapping is None or listed.has_groups or listed.acl.allows_all or not listed.scalar.text:
        return False
    key = mapping.entries[listed.key][0]
    gap = _gap(subject, key)
    if gap is None or gap.first in _NO_PLAIN_TEXT:
        return False
    if not gap.column:
        return any(_is_one_off(run, key) for run in gap.blanks)
    return gap.is_wide and not any(
        (beside := _gap(subject, other)) and beside.is_wide and beside.column == gap.column
        for other, _ in mapping.entries.values()
        if other.text not in _ACL_KEYS
    )


def _gap(subject: Subject, key: Scalar) -> _Gap | None:
    """Return what stands behind a key; None if that is not told easily."""
    start = key.column - 1 + len(key.text) + (0 if key.plain else len("''"))
    lines = subject.lines[key.line - 1 : key.line - 1 + _LINES_LOOKED_AT]
    lines[:1] = [line[start : start + _CHARACTERS_LOOKED_AT] for line in lines[:1]]
    text = "\n".join(line[:_CHARACTERS_LOOKED_AT] for line in lines)
    found = _GAP.match(text)
    if found is None:
        return None
    blanks = _BLANKS.findall(_COMMENT.sub("", found["gap"]))
    one_line = "\n" not in found["gap"]
    return _Gap(blanks, found["first"], start + found.start("first") + 1 if one_line else 0)


def _is_one_off(run: str, key: Scalar) -> bool:
    indentation = len(run) - run.rfind("\n") - 1
    offset = key.column - 1
    return "\n" in run and indentation > offset and offset % 2 == 0 and indentation % 2 == 1
