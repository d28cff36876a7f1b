"""Lists of regular expressions, meant as Go means them. Pure.

RE2 is the engine that Go's was made after: the same syntax, and time linear in the text,
whatever the pattern.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

import re2

from queuegate.policy.acl import WHITE_SPACE

_LONGEST: Final = 64 * 1024
_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)
# The one escape that RE2 takes and Go refuses: it could match half a character.
_ONLY_IN_RE2: Final = r"\C"


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
    if _ONLY_IN_RE2 in _ESCAPE.findall(pattern):
        raise BadPattern(f"the pattern {pattern!r} is not valid: invalid escape sequence: \\C")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except (re2.error, UnicodeEncodeError) as error:
        raise BadPattern(f"the pattern {pattern!r} is not valid: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(error)
