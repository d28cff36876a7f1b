"""Findings in a configuration text, located, sorted and printed in one way."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from queuegate_server.printable import printable


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding. Lines and columns count from 1; 0 means the finding has no place."""

    file: str
    line: int
    column: int
    severity: Severity
    message: str
    remedy: str = ""
    queue: str = ""
    """The path of the queue that the finding is about; empty if about none."""

    def __str__(self) -> str:
        """Return `file:line:column: level: message (remedy)` on one line, fit for a terminal."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        text = f"{place}: {self.severity}: {self.message}"
        return printable(f"{text} ({self.remedy})" if self.remedy else text)


def in_order(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the findings sorted by file and place, errors first at the same place."""
    return sorted(
        problems,
        key=lambda p: (p.file, p.line, p.column, p.severity is not Severity.ERROR, p.message),
    )


def has_errors(problems: Iterable[Diagnostic]) -> bool:
    """Say whether any finding is an error."""
    return any(problem.severity is Severity.ERROR for problem in problems)
