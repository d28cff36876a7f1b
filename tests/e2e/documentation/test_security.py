"""SECURITY.md: each threat has its letters of STRIDE, and the tests that show the defence."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

SECTION: Final = (
    Path("SECURITY.md").read_text().partition("\n## Threats\n")[2].partition("\n## ")[0]
)
HEAD: Final = "| STRIDE | threat | defence | remaining risk | shown by |"
TEST: Final = re.compile(r"\[`(test_\w+\.py)::(test_\w+)`\]\((tests/[\w/]+\.py)\)")


class Row(NamedTuple):
    boundary: str
    letters: str
    threat: str
    defence: str
    remaining: str
    shown_by: str


def rows() -> list[Row]:
    found: list[Row] = []
    for part in SECTION.split("\n### ")[1:]:
        title, *lines = part.splitlines()
        table = [line for line in lines if line.startswith("|")]
        assert table[:2] == [HEAD, "|---" * 5 + "|"], title
        found += [
            Row(title, *(cell.strip() for cell in line.strip("|").split("|"))) for line in table[2:]
        ]
    return found


ROWS: Final = rows()


@cache
def functions_of(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_boundary_has_threats() -> None:
    assert len({row.boundary for row in ROWS}) == SECTION.count("\n### ") > 5
    assert len({row.threat for row in ROWS}) == len(ROWS) > 30


@pytest.mark.parametrize("row", ROWS, ids=[row.threat for row in ROWS])
def test_a_row_is_complete(row: Row) -> None:
    assert all(row)
    assert re.fullmatch("[STRIDE](, [STRIDE])*", row.letters)
    if not row.shown_by.startswith("none: "):
        assert TEST.search(row.shown_by)
        assert re.fullmatch("[, ]*", TEST.sub("", row.shown_by))


def test_named_tests_exist() -> None:
    named = {found for row in ROWS for found in TEST.findall(row.shown_by)}
    assert [
        f"{path}::{name}"
        for file, name, path in sorted(named)
        if Path(path).name != file
        or not Path(path).is_file()
        or name not in functions_of(Path(path))
    ] == []
