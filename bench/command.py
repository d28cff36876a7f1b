"""The command line of every module of the benchmark."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.results import Part, Table, Target


class CannotMeasure(Exception):
    """Raised if something that the benchmark needs is missing or has failed. The text says what."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The amount of measuring."""

    is_quick: bool

    @property
    def rounds(self) -> int:
        """The number of times that everything is measured, in turn."""
        return 2 if self.is_quick else 5

    @property
    def seconds(self) -> float:
        """The approximate duration of a measurement under load."""
        return 0.3 if self.is_quick else 2.0


Measure = Callable[[Scale, Path], Part]
"""Measures, using a folder for its files."""


def main(measure: Measure, description: str | None) -> None:
    """Run one module. Print its tables, or write them for `bench.run`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a short run: to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="queuegate-bench-") as folder:
        try:
            part = measure(Scale(arguments.quick), Path(folder))
        except CannotMeasure as error:
            sys.exit(f"{parser.prog}: {error}")
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(part)))
        return
    for table in part.tables:
        print(f"{table.title}\n\n{table.note}\n\n{table.markdown()}\n")
    for remark in part.remarks:
        print(remark)
    for target in part.targets:
        mark = "reached" if target.is_met else "MISSED"
        print(f"{mark}: {target.what}: {target.reached} (goal: {target.goal})")


def read(file: Path) -> Part:
    """Return the results that a module wrote with `--json`."""
    content = json.loads(file.read_text())
    return Part(
        [Table(**table) for table in content["tables"]],
        [Target(**target) for target in content["targets"]],
        content["remarks"],
    )
