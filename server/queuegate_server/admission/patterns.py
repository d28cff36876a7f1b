"""Lists of regular expressions, with the semantics of Go. Pure."""

from dataclasses import dataclass
from typing import Any, Final

from queuegate.policy.acl import WHITE_SPACE
from queuegate_server.formats.yunikorn import go_regexp

_MAX_CHARACTERS: Final = 64 * 1024


class InvalidPattern(ValueError):
    """A pattern does not compile; the message quotes it and says why."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """A list of patterns. Lists with the same text are equal."""

    text: str
    _compiled: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Patterns) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __bool__(self) -> bool:
        """Whether there is any pattern."""
        return bool(self._compiled)

    def match(self, text: str) -> bool:
        """Return whether any pattern is found anywhere in the text, like Go's MatchString."""
        return any(pattern.search(text) is not None for pattern in self._compiled)


def compile_patterns(text: str) -> Patterns:
    """Compile a list of patterns that are separated by commas; empty ones are skipped.

    A comma always separates, even inside `{1,2}`, as in YuniKorn. Raises InvalidPattern.
    """
    if len(text) > _MAX_CHARACTERS:
        raise InvalidPattern(f"longer than {_MAX_CHARACTERS} characters")
    parts = (part.strip(WHITE_SPACE) for part in text.split(","))
    return Patterns(text, tuple(_compile(part) for part in parts if part))


def _compile(pattern: str) -> Any:
    try:
        return go_regexp.compile_pattern(pattern)
    except go_regexp.BadPattern as error:
        raise InvalidPattern(f"the pattern {pattern!r} is not valid: {error}") from None
