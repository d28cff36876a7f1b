"""The entries in the tables of findings."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """The file is rejected."""
    WARNING = "warning"
    NOTE = "note"
    """A fact worth knowing, not a mistake. Only commands show notes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a command reports about a mistake, and how to correct it."""

    identifier: str
    """The name of the finding in SARIF, JSON and the reference."""
    severity: Severity
    message: str
    """The message. In a table it may have fields, as in `str.format`."""
    remedy: str = ""
    """What to do, with the same fields; empty for notes."""
    source: str = ""
    """Where the rule comes from."""
