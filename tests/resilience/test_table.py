"""The table of faults and the tests belong together."""

import ast

from tests.resilience import table


def in_files() -> set[str]:
    return {
        f"{file.name}::{node.name}"
        for file in table.FOLDER.glob("test_*.py")
        if file.name != "test_table.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def test_every_row_has_its_test_and_every_test_its_row() -> None:
    named = [row.test for row in table.rows()]
    assert len(named) == len(set(named))
    assert set(named) == in_files()


def test_every_row_is_complete() -> None:
    assert all(all(row) for row in table.rows())
