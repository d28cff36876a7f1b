"""The threat model: each threat has kinds, a defence, what remains, and tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from docs.generate.threats import load_tests

PAGE: Final = Path("docs/explanation/threat-model.md")
STRIDE: Final = set("STRIDE")
CELL: Final = re.compile(r"(?<!\\)\|")
WORDS_IN_TEN_MINUTES: Final = 3_250


class Threat(NamedTuple):
    boundary: str
    title: str
    kinds: str
    defence: str
    remaining: str


def threats() -> list[Threat]:
    found: list[Threat] = []
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        boundary, _, rest = part.partition("\n")
        rows = [line for line in rest.splitlines() if line.startswith("| ")]
        cells = ((each.strip() for each in CELL.split(row)[1:-1]) for row in rows[1:])
        found += (Threat(boundary, *each) for each in cells)
    return found


THREATS: Final = threats()


@cache
def functions_of(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_boundaries_and_threats() -> None:
    assert len({threat.boundary for threat in THREATS}) > 5
    assert len({threat.title for threat in THREATS}) == len(THREATS) > 30


@pytest.mark.parametrize("threat", THREATS, ids=lambda threat: threat.title)
def test_a_threat_is_complete(threat: Threat) -> None:
    assert threat.kinds
    assert set(threat.kinds) <= STRIDE
    assert len(set(threat.kinds)) == len(threat.kinds)
    assert threat.defence
    assert threat.remaining
    assert threat.title in load_tests() or threat.defence.startswith("None: ")


def test_named_tests_exist() -> None:
    missing = []
    for test in {test for tests in load_tests().values() for test in tests}:
        file, _, name = test.partition("::")
        is_case = file.startswith("tests/cases/")
        if not Path(file).is_file() or not (is_case or name in functions_of(Path(file))):
            missing.append(test)
    assert missing == []
    assert set(load_tests()) <= {threat.title for threat in THREATS}


def test_the_page_is_read_in_ten_minutes() -> None:
    words = re.findall(r"\w[\w'`.-]*", PAGE.read_text(encoding="utf-8"))
    assert len(words) <= WORDS_IN_TEN_MINUTES
