"""Located, bounded and sorted diagnostics for configuration files."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from queuegate_server.formats.findings.finding import Finding, Severity
from queuegate_server.formats.findings.table import finding

MAX_DIAGNOSTICS: Final = 10_000
"""The maximum number of errors, and separately of warnings, kept for one file."""
MAX_QUOTED: Final = 100
MAX_MESSAGE: Final = 1_000
"""The maximum length of messages and remedies. They may quote untrusted text."""
MAX_PATH: Final = 4_096


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message about a file. Lines and columns are 1-based; 0 means no position."""

    file: str
    line: int
    column: int
    severity: Severity
    message: str
    remedy: str = ""
    queue: str = ""
    finding: str = ""
    """The finding's identifier; empty if no table contains it, as for findings about settings."""

    def __post_init__(self) -> None:
        for name, most in (("message", MAX_MESSAGE), ("remedy", MAX_MESSAGE), ("queue", MAX_PATH)):
            if len(text := getattr(self, name)) > most:
                object.__setattr__(self, name, shortened(text, most))

    def __str__(self) -> str:
        """Return `file:line:column: severity: message (remedy)` as one printable line."""
        position = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        text = f"{position}: {self.severity}: {self.message}"
        return printable(f"{text} ({self.remedy})" if self.remedy else text)


class Positioned(Protocol):
    """Anything with a 1-based position in a file.

    An optional attribute `file` names the file when several files are read together.
    """

    @property
    def line(self) -> int:
        """The line number."""

    @property
    def column(self) -> int:
        """The column, in characters."""


@dataclass(frozen=True, slots=True)
class Position:
    """A 1-based position in a text."""

    line: int
    column: int


class ParseError(Exception):
    """Raised when text cannot be parsed beyond a position."""

    def __init__(self, position: Positioned | None, finding: Finding) -> None:
        super().__init__(finding.message)
        self.position = position
        self.finding = finding

    def diagnostic(self, file: str) -> Diagnostic:
        """Return the error as a diagnostic for a file."""
        line, column = (self.position.line, self.position.column) if self.position else (0, 0)
        return diagnostic_of(self.finding, file, line, column)


class TooManyErrors(Exception):
    """Raised to stop reading a file that has reached the maximum number of errors."""


class Diagnostics:
    """The diagnostics for one file, bounded so that a hostile file cannot exhaust memory.

    As a context manager, it records and suppresses a ParseError, and suppresses TooManyErrors.
    """

    def __init__(self, file: str) -> None:
        """Create an empty collection. `file` is the file name shown in diagnostics."""
        self.file = file
        self.indent = 0
        """The number of columns by which the lines of an XML text were dedented."""
        self._kept: dict[Severity, list[Diagnostic]] = {severity: [] for severity in Severity}
        self._has_more_errors = False
        self._suppressed_warnings = 0

    def __enter__(self) -> None:
        """Start handling errors; see `__exit__`."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        del kind, traceback
        if isinstance(error, ParseError):
            with self:
                self.add(error.position, error.finding)
        return isinstance(error, ParseError | TooManyErrors)

    def add(self, position: Positioned | None, found: Finding, queue: str = "") -> None:
        """Add a finding. Without a position, the finding is about the whole file. Raises
        TooManyErrors.

        Callers add only a few notes to a file.
        """
        severity = found.severity
        if severity is Severity.ERROR and self.error_count >= MAX_DIAGNOSTICS:
            self._has_more_errors = True
            raise TooManyErrors
        if severity is Severity.WARNING and not self.remaining_warnings:
            self._suppressed_warnings += 1
            return
        line, column = (position.line, position.column) if position else (0, 0)
        file = getattr(position, "file", "") or self.file
        self._kept[severity].append(diagnostic_of(found, file, line, column, queue))

    def suppress_warnings(self, number: int) -> None:
        """Count warnings that the caller did not add because the limit has been reached."""
        self._suppressed_warnings += number

    @property
    def remaining_warnings(self) -> int:
        """The number of warnings that can still be added."""
        return MAX_DIAGNOSTICS - len(self._kept[Severity.WARNING])

    @property
    def error_count(self) -> int:
        """The number of errors so far."""
        return len(self._kept[Severity.ERROR])

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return the diagnostics sorted by position, then a message if some were omitted."""
        diagnostics = sort_diagnostics(
            diagnostic for kept in self._kept.values() for diagnostic in kept
        )
        if self._has_more_errors:
            found = finding("too-many-errors", most=MAX_DIAGNOSTICS)
            diagnostics.append(diagnostic_of(found, self.file))
        if self._suppressed_warnings:
            found = finding("more-warnings", count=self._suppressed_warnings)
            diagnostics.append(diagnostic_of(found, self.file))
        return tuple(diagnostics)


def diagnostic_of(
    found: Finding, file: str, line: int = 0, column: int = 0, queue: str = ""
) -> Diagnostic:
    """Return the diagnostic that reports a finding at a place."""
    texts = found.message, found.remedy, queue, found.identifier
    return Diagnostic(file, line, column, found.severity, *texts)


def finding_of(diagnostic: Diagnostic) -> Finding:
    """Return the finding that a diagnostic reports, to report it elsewhere."""
    texts = diagnostic.message, diagnostic.remedy
    return Finding(diagnostic.finding, diagnostic.severity, *texts)


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return diagnostics sorted by file and position, errors first at the same position."""
    return sorted(
        diagnostics,
        key=lambda d: (d.file, d.line, d.column, d.severity is not Severity.ERROR, d.message),
    )


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Return whether any diagnostic is an error."""
    return any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)


def quoted(text: str) -> str:
    """Quote text from a file, on one line and truncated if necessary."""
    text = shortened(text, MAX_QUOTED)
    return json.dumps(text, ensure_ascii=not text.isprintable())


def quoted_names(names: Iterable[str], most: int) -> str:
    """Return at most `most` names, sorted and quoted, followed by the number of omitted names."""
    first = sorted(names)
    more = f" and {len(first) - most} more" if len(first) > most else ""
    return ", ".join(map(quoted, first[:most])) + more


def shortened(text: str, most: int) -> str:
    """Truncate text longer than `most` characters, adding an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}…"


def printable(text: str) -> str:
    """Replace nonprintable characters with escape sequences, the same as in `quoted`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
