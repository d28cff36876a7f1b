"""The results of a part of the benchmark: tables, and targets with the figures reached."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Target:
    """A goal of the project, and whether it was met."""

    what: str
    goal: str
    reached: str
    is_met: bool


@dataclass(slots=True)
class Table:
    """A table with the explanations needed to read it."""

    title: str
    note: str
    """The subject and the method of the measurement."""
    columns: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(list(cells))

    def markdown(self) -> str:
        """Return the table as Markdown, with text to the left and numbers to the right."""
        marks = [":---", *["---:"] * (len(self.columns) - 1)]
        lines = [list(self.columns), marks, *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(slots=True)
class Part:
    """The outcome of one module of the benchmark."""

    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Further remarks, such as why something was not measured."""


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """Return a median with the smallest and the largest value."""
    if len(values) == 1:
        return format(values[0], form)
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def middle(values: Sequence[float], form: str = ",.0f") -> str:
    """Return a median."""
    return format(statistics.median(values), form)


def ratios(ours: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return the ratio for each round, since figures measured side by side are compared."""
    return [mine / other for mine, other in zip(ours, others, strict=True)]
