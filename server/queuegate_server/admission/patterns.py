"""Lists of regular expressions, as Go reads them. Pure."""

from dataclasses import dataclass
from typing import Any, Final

from queuegate.policy.acl import WHITE_SPACE
from queuegate_server.formats.yunikorn import go_regexp

_LONGEST: Final = 64 * 1024


class BadPattern(ValueError):
    """A pattern does not compile; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """A list of patterns. Equal if written alike."""

    text: str
    _compiled: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Patterns) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __bool__(self) -> bool:
        """True if there is any pattern."""
        return bool(self._compiled)

    def match(self, text: str) -> bool:
        """Say whether any pattern is found anywhere in the text, as Go's MatchString does."""
        return any(pattern.search(text) is not None for pattern in self._compiled)


def compile_patterns(text: str) -> Patterns:
    """Compile a list: separated by commas, trimmed, empty ones left out.

    A comma always separates, also inside `{1,2}`: YuniKorn reads the list so. Raises
    BadPattern.
    """
    if len(text) > _LONGEST:
        raise BadPattern(f"longer than {_LONGEST} characters")
    parts = (part.strip(WHITE_SPACE) for part in text.split(","))
    return Patterns(text, tuple(_compile(part) for part in parts if part))


def _compile(pattern: str) -> Any:
    try:
        return go_regexp.compile_pattern(pattern)
    except go_regexp.BadPattern as error:
        raise BadPattern(f"the pattern {pattern!r} is not valid: {error}") from None
