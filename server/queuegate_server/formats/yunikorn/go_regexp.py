r"""Says whether Go's regexp package compiles a pattern.

Python's `re` cannot answer that: it takes look-around and back references, which Go
refuses, and lacks `\z`, `\pL` and `[[:alpha:]]`. The grammar is that of Go's package
`regexp/syntax` with Perl flags. Names of Unicode classes are not looked up and the
limits on size and depth of the compiled program are not computed: such a pattern passes.
"""

import re
from typing import Final

_MOST_REPEATS: Final = 1000
_HIGHEST_CHARACTER: Final = 0x10FFFF

_COUNTS: Final = re.compile(r"\{(0|[1-9][0-9]*)(?:,(0|[1-9][0-9]*)?)?\}")
_NAMED_GROUP: Final = re.compile(r"\(\?P?<[A-Za-z0-9_]+>")
_FLAGS: Final = re.compile(r"\(\?[imsU]*(?:-[imsU]+)?([:)])")
_LITERALS: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_UNICODE_CLASS: Final = re.compile(r"\\[pP](?:\{\^?[A-Za-z_ -]+\}|[CLMNPSZclmnpsz])")
_PERL_CLASS: Final = re.compile(r"\\[dDsSwW]")
_ASSERTION: Final = re.compile(r"\\[AbBz]")
_HEXADECIMAL: Final = re.compile(r"\\x(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2}))")
_OCTAL: Final = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_OTHER_ESCAPE: Final = re.compile(r"\\([afnrtv]|[^0-9A-Za-z])")
_POSIX_CLASS: Final = re.compile(r"\[:.*?:\]", re.DOTALL)
_POSIX_NAMES: Final = re.compile(
    r"\[:\^?(?:alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word"
    r"|xdigit):\]"
)
_CONTROLS: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


class _Invalid(Exception):
    """The pattern does not compile."""


def compiles(pattern: str) -> bool:
    """Say whether the pattern compiles."""
    try:
        _Pattern(pattern).check()
    except _Invalid:
        return False
    return True


class _Pattern:
    """A pattern and how far it was read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        # Looked up once: the search for the end of a class name must not start again
        # at each bracket.
        self._last_posix_end = text.rfind(":]")
        self._repeatable = False
        """True if something stands here that a repetition can apply to."""
        self._repeated = False
        """True if the last thing read was a repetition: a second one is not allowed."""

    def check(self) -> None:
        while self._at < len(self._text):
            if not self._repetition():
                self._repeated = False
                self._item(self._text[self._at])
        if self._depth:
            raise _Invalid

    def _take(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        match = expression.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match

    def _repetition(self) -> bool:
        if self._text[self._at] in "*+?":
            self._at += 1
        else:
            counts = self._take(_COUNTS)
            if counts is None:
                return False
            least, most = int(counts[1][:9]), int((counts[2] or counts[1])[:9])
            if least > _MOST_REPEATS or most > _MOST_REPEATS or most < least:
                raise _Invalid
        if self._text.startswith("?", self._at):
            self._at += 1
        if self._repeated or not self._repeatable:
            raise _Invalid
        self._repeated = True
        return True

    def _item(self, character: str) -> None:
        match character:
            case "(":
                self._group()
            case ")":
                self._at += 1
                self._depth -= 1
                self._repeatable = True
                if self._depth < 0:
                    raise _Invalid
            case "|":
                self._at += 1
                self._repeatable = False
            case "[":
                self._at += 1
                self._class()
                self._repeatable = True
            case "\\":
                self._escape()
            case _:
                self._at += 1
                self._repeatable = True

    def _group(self) -> None:
        if self._text.startswith("(?", self._at):
            if not self._take(_NAMED_GROUP):
                flags = self._take(_FLAGS)
                if flags is None:
                    raise _Invalid
                if flags[1] == ")":
                    return
        else:
            self._at += 1
        self._depth += 1
        self._repeatable = False

    def _escape(self) -> None:
        literals = self._take(_LITERALS)
        if literals:
            self._repeatable = self._repeatable or bool(literals[1])
            return
        if not (self._take(_UNICODE_CLASS) or self._take(_PERL_CLASS) or self._take(_ASSERTION)):
            self._escaped_character()
        self._repeatable = True

    def _escaped_character(self) -> int:
        hexadecimal = self._take(_HEXADECIMAL)
        if hexadecimal:
            code = int(hexadecimal[1] or hexadecimal[2], 16)
            if code > _HIGHEST_CHARACTER:
                raise _Invalid
            return code
        octal = self._take(_OCTAL)
        if octal:
            return int(octal[1], 8)
        other = self._take(_OTHER_ESCAPE)
        if other is None or not other[1].isascii():
            raise _Invalid
        return _CONTROLS.get(other[1]) or ord(other[1])

    def _class(self) -> None:
        if self._text.startswith("^", self._at):
            self._at += 1
        first = True
        while first or not self._text.startswith("]", self._at):
            first = False
            posix = self._take(_POSIX_CLASS) if self._at < self._last_posix_end else None
            if posix:
                if not _POSIX_NAMES.fullmatch(posix[0]):
                    raise _Invalid
            elif not (self._take(_UNICODE_CLASS) or self._take(_PERL_CLASS)):
                self._range()
        self._at += 1

    def _range(self) -> None:
        low = self._class_character()
        following = self._text[self._at : self._at + 2]
        if following.startswith("-") and following not in {"-", "-]"}:
            self._at += 1
            if self._class_character() < low:
                raise _Invalid

    def _class_character(self) -> int:
        if self._at >= len(self._text):
            raise _Invalid
        if self._text[self._at] == "\\":
            return self._escaped_character()
        self._at += 1
        return ord(self._text[self._at - 1])
