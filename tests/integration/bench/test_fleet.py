"""The benchmarks of a fleet run, on a real Redis and a real slapd."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench import command
from bench.results import Part

pytestmark = pytest.mark.timeout(600)


def measured(name: str, folder: Path) -> Part:
    output = folder / "part.json"
    subprocess.run(
        [sys.executable, "-m", f"bench.{name}", "--quick", "--json", str(output)],
        check=True,
        timeout=500,
    )
    return command.read(output)


def test_searches_are_counted(tmp_path: Path) -> None:
    part = measured("fleet_searches", tmp_path)
    [table] = part.tables
    alone, *fleets = [int(row[2].replace(",", "")) for row in table.rows]
    assert alone == 1_500
    assert len(fleets) == 3
    assert all(500 <= searches < alone for searches in fleets)
    assert len(part.targets) == 3


@pytest.mark.parametrize(
    ("name", "targets"),
    [("fleet_effect", 1), ("fleet_hits", 3), ("fleet_moves", 1), ("source_effect", 1)],
)
def test_times_are_measured(name: str, targets: int, tmp_path: Path) -> None:
    part = measured(name, tmp_path)
    assert len(part.targets) == targets
    assert all(len(table.rows) > 1 for table in part.tables)
