"""Reading regular files within a bound."""

import tracemalloc
from pathlib import Path

import pytest

from queuegate_server.files.safe_open import read_regular

MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "most", "expected"),
    [(0, 10, 0), (10, 10, 10), (11, 10, 11), (12, 10, 11), (3 * MIB, MIB, MIB + 1)],
)
def test_one_byte_more_than_the_bound_is_read(
    tmp_path: Path, size: int, most: int, expected: int
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * size)
    assert len(read_regular(file, most)) == expected


def test_a_small_file_takes_no_room_for_the_largest(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 150)
    tracemalloc.start()
    try:
        assert read_regular(file, 64 * MIB) == b"x" * 150
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB
