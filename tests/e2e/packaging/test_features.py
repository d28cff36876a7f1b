"""ARCHITECTURE says what each feature costs in lines, and that is about true."""

import re
from pathlib import Path
from typing import Final

import pytest

_ROW: Final = re.compile(
    r"^\| (?P<feature>[^|]+) \|[^|]+\|[^|]+\| (?P<lines>\d+) \| (?P<code>.+) \|$", re.MULTILINE
)
_SOURCES: Final = ("*.py", "*.go", "*.java")
_MOST_APART: Final = 0.15
FEATURES: Final = [
    (found["feature"], int(found["lines"]), re.findall(r"`([^`]+)`", found["code"]))
    for found in _ROW.finditer(Path("ARCHITECTURE.md").read_text(encoding="utf-8"))
]


def lines_of(path: Path) -> int:
    """Return the lines of what people have written, without tests."""
    files = [path] if path.is_file() else [file for each in _SOURCES for file in path.rglob(each)]
    return sum(
        len(file.read_text(encoding="utf-8").splitlines())
        for file in files
        if not file.name.endswith(("_test.go", ".pb.go", "_pb2.py")) and "target" not in file.parts
    )


def test_there_are_features() -> None:
    assert len(FEATURES) > 10


@pytest.mark.parametrize(("feature", "lines", "code"), FEATURES, ids=lambda each: str(each)[:40])
def test_the_cost_of_a_feature(feature: str, lines: int, code: list[str]) -> None:
    counted = sum(lines_of(Path(each)) for each in code)
    assert abs(counted - lines) <= _MOST_APART * counted, f"{feature}: {counted} lines"
