"""One entry of the tables of findings."""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """What a command says about a mistake, and what to do about it."""

    identifier: str
    """Names the finding in SARIF, JSON and the reference."""
    message: str
    """The message. In a table it may have fields, as in `str.format`."""
    remedy: str
    """What to do, with the same fields."""
    source: str
    """Where the rule comes from."""
    is_error: bool = False
    """Whether the file is refused; otherwise the finding is a warning."""

    def about(self, **fields: Any) -> "Finding":
        """Return the finding with its fields filled in."""
        message, remedy = self.message.format(**fields), self.remedy.format(**fields)
        return replace(self, message=message, remedy=remedy)

    def instead(self, remedy: str) -> "Finding":
        """Return the finding with the remedy that fits this case."""
        return replace(self, remedy=remedy)
