"""Compiles Go regular expressions with RE2.

Go's engine is modeled on RE2. Both run in linear time and accept the same syntax, except for two
constructs that only RE2 accepts; they are rejected here.
"""

import re
from typing import Any, Final

import re2

# An unterminated construct extends to the end of the pattern, so the search takes linear time.
_PART: Final = re.compile(
    r"""(?s:
      \\Q.*?(?:\\E|\Z)                                           # a literal
    | \\(?:.|\Z)                                                 # an escape
    | \[\^?\]?(?:\[:\^?\w+:\]|\\(?:.|\Z)|[^\]\\])*+(?:\]|\Z)     # a class
    | \{[0-9]{9,}(?:,[0-9]*)?\}|\{[0-9]*,[0-9]{9,}\}             # a count that RE2 ignores
    )""",
    re.VERBOSE,
)


class BadPattern(ValueError):
    """Raised for a pattern that does not compile. The message gives the reason."""


def compile_pattern(pattern: str) -> Any:
    """Compile a pattern for use with `search`. Raises BadPattern if Go rejects the pattern."""
    for part in _PART.findall(pattern):
        if part == r"\C":
            # Go rejects this sequence, because it could match half a character.
            raise BadPattern(r"invalid escape sequence: \C")
        if part.startswith("{"):
            raise BadPattern(f"invalid repeat count: {part}")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(error)
        raise BadPattern(text) from None
