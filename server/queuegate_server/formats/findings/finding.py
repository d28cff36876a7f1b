"""One entry of the tables of findings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from queuegate_server.files.toml import read_toml


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


PHRASES: Final[Mapping[str, str]] = read_toml(__file__, "phrases.toml")
"""Remedies and sources that several findings share, by name."""


def read_table(name: str) -> dict[str, Finding]:
    """Return the findings in a TOML file of this package, by identifier.

    Args:
        name: The name of the file, without its ending.

    Raises:
        KeyError: An entry names a phrase that does not exist.
        TypeError: An entry lacks a member, or has an unknown one.
    """
    return {
        identifier: Finding(identifier, **{key: _phrase(value) for key, value in entry.items()})
        for identifier, entry in read_toml(__file__, f"{name}.toml").items()
    }


def _phrase(value: Any) -> Any:
    is_name = isinstance(value, str) and value.startswith("$")
    return PHRASES[value[1:]] if is_name else value
