"""FAULTS.md: a row for each fault, with its test and the figures of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
FILE = FOLDER / "FAULTS.md"


class Row(NamedTuple):
    fault: str
    promise: str
    made_by: str
    test: str
    measured: str


def rows() -> list[Row]:
    lines = FILE.read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    table = [line for line in lines[begin + 1 :] if line.startswith("|")]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in table]


def write_measured(properties: Mapping[str, Mapping[str, object]]) -> None:
    """Put the figures of tests, by their node ids, into the last column."""
    text = FILE.read_text()
    for row in rows():
        found = [figures for name, figures in properties.items() if name.endswith(f"/{row.test}")]
        if not found:
            continue
        measured = "; ".join(f"{name}: {value}" for name, value in found[0].items())
        before, after = (
            f"| {' | '.join(row)} |",
            f"| {' | '.join(row._replace(measured=measured))} |",
        )
        text = text.replace(before, after)
    FILE.write_text(text)
