"""The newest records of an audit log, read back."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.observe import audit_reader
from queuegate_server.observe.audit_reader import newest_records


def written(path: Path, *numbers: int, more: str = "") -> None:
    path.write_text("".join(f"{json.dumps({'n': number})}\n" for number in numbers) + more)


def everything(_: Mapping[str, Any]) -> bool:
    return True


def numbers_of(path: Path, number: int = 100, keep: int = 5) -> tuple[list[int], bool]:
    found = newest_records(path, keep, everything, number)
    return [record["n"] for record in found.records], found.searched_all


def test_the_newest_come_first_and_rotated_files_follow(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    written(path, 5, 6)
    written(tmp_path / "audit.log.1", 3, 4)
    written(tmp_path / "audit.log.2", 1, 2)
    assert numbers_of(path) == ([6, 5, 4, 3, 2, 1], True)
    assert numbers_of(path, keep=1) == ([6, 5, 4, 3], True)
    assert numbers_of(path, number=3) == ([6, 5, 4], False)
    assert numbers_of(path, number=6) == ([6, 5, 4, 3, 2, 1], True)


def test_only_records_that_match_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    written(path, *range(100))
    found = newest_records(path, 5, lambda record: record["n"] % 30 == 0, 2)
    assert ([record["n"] for record in found.records], found.searched_all) == ([90, 60], False)


@pytest.mark.parametrize(
    "other", ['{"time":', "[" * 100_000, "[1]", '"x"', "\x00", '{"n": 1}{"n": 2}']
)
def test_lines_that_are_no_records_are_left_out(tmp_path: Path, other: str) -> None:
    path = tmp_path / "audit.log"
    written(path, 1, more=f'{other}\n{{"n": 2}}\n{{"n": 3')
    assert numbers_of(path) == ([2, 1], True)


def test_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(b"")
    assert numbers_of(tmp_path / "audit.log") == ([], True)


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        numbers_of(tmp_path / "audit.log")


def test_the_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.log"
    written(path, *range(10, 99))
    monkeypatch.setattr(audit_reader, "MAX_READ_BYTES", 50)
    assert numbers_of(path) == ([98, 97, 96, 95, 94], False)


def test_a_line_without_an_end_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.log"
    monkeypatch.setattr(audit_reader, "MAX_LINE_BYTES", 100)
    monkeypatch.setattr(audit_reader, "_BLOCK_BYTES", 64)
    written(path, 1, more=f"{'x' * 1000}\n")
    with path.open("a") as file:
        file.write('{"n": 2}\n')
    assert numbers_of(path) == ([2, 1], True)


@given(
    lengths=st.lists(st.integers(1, 40), max_size=30),
    block=st.integers(1, 64),
)
def test_all_lines_are_found_wherever_blocks_begin(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], block: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "audit.log"
    records = [{"n": number, "text": "x" * length} for number, length in enumerate(lengths)]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_reader, "_BLOCK_BYTES", block)
        assert newest_records(path, 0, everything, 100).records == records[::-1]
