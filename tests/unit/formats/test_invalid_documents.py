"""One small document per diagnostic, which its first comments state."""

from pathlib import Path
from typing import Final

import pytest

from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.registry import load_policy

INVALID: Final = sorted((Path(__file__).parent / "invalid").glob("*.yaml"))


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_reports_exactly_the_diagnostics_in_its_comments(path: Path) -> None:
    data = path.read_bytes()
    expected = [
        line.removeprefix("# ")
        for line in data.decode().splitlines()
        if line.startswith("# ") and (": error: " in line or ": warning: " in line)
    ]
    loaded = load_policy("yunikorn", data, "f")
    assert [str(diagnostic).removeprefix("f:") for diagnostic in loaded.diagnostics] == expected
    assert expected
    assert all(diagnostic.remedy for diagnostic in loaded.diagnostics)
    assert bool(loaded.partitions) != has_errors(loaded.diagnostics) or path.stem == "no_partition"
