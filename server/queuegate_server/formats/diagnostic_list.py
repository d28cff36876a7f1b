"""Collects the findings of one file while it is being read, up to a bound."""

import json
from typing import Final, Protocol

from queuegate_server.formats.diagnostics import Diagnostic, Severity, in_order

MOST_FINDINGS: Final = 10_000
"""How many errors, and how many warnings, are kept of one file."""
_LONGEST_QUOTE: Final = 100


class WorkerSpec(Protocol):
    """Anything that stands at a place in a file, counted from 1."""

    @property
    def line(self) -> int:
        """The line."""

    @property
    def column(self) -> int:
        """The column, in characters."""


class TooManyErrors(Exception):
    """The bound on errors is reached; whoever reads the file should give up."""


class Findings:
    """The findings of one file. Bounded, so that a hostile file fills no memory."""

    def __init__(self, file: str) -> None:
        """Take the name that the findings show."""
        self._file = file
        self._kept: dict[Severity, list[Diagnostic]] = {severity: [] for severity in Severity}
        self._more_errors = False
        self._more_warnings = 0

    def error(self, place: WorkerSpec | None, message: str, remedy: str, queue: str = "") -> None:
        """Note an error at a place, or about the file as a whole.

        Raises TooManyErrors if there is no room for it.
        """
        if self.error_count >= MOST_FINDINGS:
            self._more_errors = True
            raise TooManyErrors
        self._note(Severity.ERROR, place, message, remedy, queue)

    def warning(self, place: WorkerSpec | None, message: str, remedy: str, queue: str = "") -> None:
        """Note a warning at a place, or about the file as a whole."""
        if self.room_for_warnings:
            self._note(Severity.WARNING, place, message, remedy, queue)
        else:
            self._more_warnings += 1

    def add(self, problem: Diagnostic) -> None:
        """Note a finding that was made elsewhere, in this file or one read with it."""
        self._kept[problem.severity].append(problem)

    def count_warnings(self, number: int) -> None:
        """Count warnings for which there is no room, without writing them."""
        self._more_warnings += number

    @property
    def room_for_warnings(self) -> int:
        """How many more warnings will be kept."""
        return MOST_FINDINGS - len(self._kept[Severity.WARNING])

    @property
    def error_count(self) -> int:
        """How many errors were noted."""
        return len(self._kept[Severity.ERROR])

    def in_order(self) -> tuple[Diagnostic, ...]:
        """Return all findings by place, with a last one for those beyond the bound."""
        found = in_order(problem for kept in self._kept.values() for problem in kept)
        if self._more_errors:
            message = f"more than {MOST_FINDINGS} errors: the rest of the file was not checked"
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
        self, severity: Severity, place: WorkerSpec | None, message: str, remedy: str, queue: str
    ) -> None:
        line, column = (place.line, place.column) if place else (0, 0)
        self._kept[severity].append(
            Diagnostic(self._file, line, column, severity, message, remedy, queue)
        )


def quoted(text: str) -> str:
    """Return a text from a file in quotes, on one line, with a bounded length."""
    if len(text) > _LONGEST_QUOTE:
        text = f"{text[:_LONGEST_QUOTE]}…"
    return json.dumps(text, ensure_ascii=not text.isprintable())
