"""Detects leading spaces that YAML drops although they were meant to start a list of groups."""

import re
from typing import Final, NamedTuple

from queuegate_server.formats.yaml_nodes import MappingNode, ScalarNode

_ACLS: Final = frozenset({"submitacl", "adminacl"})
_GAP: Final = re.compile(
    r"""[ \t]*+:
        (?P<gap>(?:\s++(?:[!&]\S*+            # a tag or an anchor
                         |\#[^\n]*+           # a comment
                         |[|>][-+]?(?=\s)     # a block with automatic indentation
                       ))*+\s*+)
        (?P<first>[^\s|>])""",
    re.VERBOSE,
)
"""The text from the end of a key to the first character of its value."""
_COMMENT: Final = re.compile(r"(?<=\s)#[^\n]*+")
_WHITE_SPACE: Final = re.compile(r"\s+")
_NOT_PLAIN: Final = "\"'*[{"
"""The first characters of quoted values, aliases, lists and mappings."""
_MAX_LINES: Final = 4
_MAX_LINE_LENGTH: Final = 200


class _Gap(NamedTuple):
    """The text between a key and its value."""

    spaces: list[str]
    """Runs of white space, separated by tags and anchors."""
    first: str
    """The first character of the value."""
    column: int
    """The column of the value's first character if it is on the key's line, otherwise 0."""

    @property
    def is_wide(self) -> bool:
        """Whether the value is on the key's line, after two or more consecutive spaces."""
        return self.column > 0 and any(len(run) > 1 for run in self.spaces)


def has_lost_blank(
    lines: list[str], mapping: MappingNode | None, key: str, scalar: ScalarNode
) -> bool:
    """Return whether the space before the value was probably meant to start a list of groups.

    The first space after the colon and spaces that align several keys' values are ignored. The
    indentation of a value on its own line is also ignored, unless it is odd and the key's is even.
    """
    if mapping is None or not scalar.text or " " in scalar.text:
        return False
    key_node = mapping.entries[key][0]
    gap = _gap(lines, key_node)
    if gap is None or gap.first in _NOT_PLAIN:
        return False
    if not gap.column:
        return any(_is_off_by_one(spaces, key_node) for spaces in gap.spaces)
    if not gap.is_wide:
        return False
    others = [other for other, _ in mapping.entries.values() if other.text not in _ACLS]
    gaps = filter(None, (_gap(lines, other) for other in others))
    return not any(beside.is_wide and beside.column == gap.column for beside in gaps)


def _gap(source: list[str], key: ScalarNode) -> _Gap | None:
    """Return the gap after the key; None if it cannot be determined."""
    start = key.column - 1 + len(key.text) + (0 if key.plain else len("''"))
    lines = source[key.line - 1 : key.line - 1 + _MAX_LINES]
    lines[:1] = [line[start : start + _MAX_LINE_LENGTH] for line in lines[:1]]
    text = "\n".join(line[:_MAX_LINE_LENGTH] for line in lines)
    match = _GAP.match(text)
    if match is None:
        return None
    spaces = _WHITE_SPACE.findall(_COMMENT.sub("", match["gap"]))
    one_line = "\n" not in match["gap"]
    return _Gap(spaces, match["first"], start + match.start("first") + 1 if one_line else 0)


def _is_off_by_one(spaces: str, key: ScalarNode) -> bool:
    """Return whether a line's indentation is odd, below a key whose indentation is even."""
    if "\n" not in spaces:
        return False
    indentation = len(spaces) - spaces.rfind("\n") - 1
    offset = key.column - 1
    return indentation > offset and offset % 2 == 0 and indentation % 2 == 1
