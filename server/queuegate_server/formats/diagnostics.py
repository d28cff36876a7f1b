"""Diagnostics of a configuration text: located, bounded, sorted and printed in one way."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from queuegate_server.printable import printable

MAX_DIAGNOSTICS: Final = 10_000
"""How many errors, and how many warnings, are kept of one file."""
MAX_QUOTED: Final = 100


class Severity(StrEnum):
    """How bad a diagnostic is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A diagnostic. Lines and columns count from 1; 0 means the diagnostic has no position."""

    file: str
    line: int
    column: int
    severity: Severity
    message: str
    remedy: str = ""
    queue: str = ""
    """The path of the queue that the diagnostic is about; empty if about none."""

    def __str__(self) -> str:
        """Return `file:line:column: level: message (remedy)` on one line, fit for a terminal."""
        position = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        text = f"{position}: {self.severity}: {self.message}"
        return printable(f"{text} ({self.remedy})" if self.remedy else text)


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics sorted by file and position, errors first at the same position."""
    return sorted(
        diagnostics,
        key=lambda p: (p.file, p.line, p.column, p.severity is not Severity.ERROR, p.message),
    )


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Say whether any diagnostic is an error."""
    return any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)


class Positioned(Protocol):
    """Anything that stands at a position in a file, counted from 1."""

    @property
    def line(self) -> int:
        """The line."""

    @property
    def column(self) -> int:
        """The column, in characters."""


class TooManyErrors(Exception):
    """The bound on errors is reached; whoever reads the file should give up."""


class Diagnostics:
    """The diagnostics of one file. Bounded, so that a hostile file fills no memory."""

    def __init__(self, file: str) -> None:
        """Take the name that the diagnostics show."""
        self._file = file
        self._kept: dict[Severity, list[Diagnostic]] = {severity: [] for severity in Severity}
        self._more_errors = False
        self._more_warnings = 0

    def error(
        self, position: Positioned | None, message: str, remedy: str, queue: str = ""
    ) -> None:
        """Note an error at a position, or about the file as a whole.

        Raises TooManyErrors if there is no room for it.
        """
        if self.error_count >= MAX_DIAGNOSTICS:
            self._more_errors = True
            raise TooManyErrors
        self._note(Severity.ERROR, position, message, remedy, queue)

    def warning(
        self, position: Positioned | None, message: str, remedy: str, queue: str = ""
    ) -> None:
        """Note a warning at a position, or about the file as a whole."""
        if self.remaining_warnings:
            self._note(Severity.WARNING, position, message, remedy, queue)
        else:
            self._more_warnings += 1

    def add(self, diagnostic: Diagnostic) -> None:
        """Note a diagnostic that was made elsewhere, in this file or one read with it."""
        self._kept[diagnostic.severity].append(diagnostic)

    def suppress_warnings(self, number: int) -> None:
        """Count warnings for which there is no room, without writing them."""
        self._more_warnings += number

    @property
    def remaining_warnings(self) -> int:
        """How many more warnings will be kept."""
        return MAX_DIAGNOSTICS - len(self._kept[Severity.WARNING])

    @property
    def error_count(self) -> int:
        """How many errors were noted."""
        return len(self._kept[Severity.ERROR])

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return all diagnostics by position, with a last one for those beyond the bound."""
        found = sort_diagnostics(diagnostic for kept in self._kept.values() for diagnostic in kept)
        if self._more_errors:
            message = f"more than {MAX_DIAGNOSTICS} errors: the rest of the file was not checked"
            found.append(
                Diagnostic(self._file, 0, 0, Severity.ERROR, message, "repair those above")
            )
        if self._more_warnings:
            message = f"{self._more_warnings} more warnings are not shown"
            found.append(
                Diagnostic(self._file, 0, 0, Severity.WARNING, message, "repair those above")
            )
        return tuple(found)

    def _note(
        self, severity: Severity, position: Positioned | None, message: str, remedy: str, queue: str
    ) -> None:
        line, column = (position.line, position.column) if position else (0, 0)
        self._kept[severity].append(
            Diagnostic(self._file, line, column, severity, message, remedy, queue)
        )


def quoted(text: str) -> str:
    """Return a text from a file in quotes, on one line, with a bounded length."""
    if len(text) > MAX_QUOTED:
        text = f"{text[:MAX_QUOTED]}…"
    return json.dumps(text, ensure_ascii=not text.isprintable())
