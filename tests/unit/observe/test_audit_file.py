"""The file of the audit log, for faults that a running server does not show."""

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.observe.audit_file import AuditFile, split_lines

RECORD = b'{"time":"2026-11-21T00:00:00Z"}\n'
BIG = 1 << 20


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", RECORD),
        (RECORD, RECORD * 2),
        # The part of a record that a crash has left: nobody was answered for it.
        (RECORD[:12], RECORD),
        (RECORD + RECORD[:1], RECORD * 2),
        (RECORD + RECORD[:-1], RECORD * 2),
        # Text of other programs stays, on a line of its own.
        (b"something else", b"something else\n" + RECORD),
        (RECORD + b"{x", RECORD + b"{x\n" + RECORD),
    ],
)
def test_an_incomplete_record_is_removed(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(before)
    file = AuditFile(path, BIG, 5)
    file.write(RECORD)
    file.close()
    assert path.read_bytes() == after


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_only_the_configured_number_of_rotated_files_is_kept(tmp_path: Path, keep: int) -> None:
    file = AuditFile(tmp_path / "audit.log", len(RECORD), keep)
    for _ in range(6):
        file.write(RECORD)
    file.close()
    names = {"audit.log", *(f"audit.log.{number}" for number in range(1, keep + 1))}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert all(path.read_bytes() == RECORD for path in tmp_path.iterdir())


def test_a_rotation_that_fails_loses_nothing(tmp_path: Path) -> None:
    """A folder has the name of the rotated file."""
    path = tmp_path / "audit.log"
    (tmp_path / "audit.log.1").mkdir()
    file = AuditFile(path, len(RECORD), 1)
    for _ in range(3):
        file.write(RECORD)
    assert file.failed_rotations == 2
    (tmp_path / "audit.log.1").rmdir()
    file.write(RECORD)
    file.close()
    assert (tmp_path / "audit.log.1").read_bytes() == RECORD * 3
    assert path.read_bytes() == RECORD


def test_repeated_failing_rotations_keep_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mounted file cannot be renamed, but the other files of its folder can."""
    path = tmp_path / "audit.log"
    for number in range(1, 4):
        (tmp_path / f"audit.log.{number}").write_text(str(number))
    replace = Path.replace

    def refuse(source: Path, target: Path) -> Path:
        if source == path:
            raise OSError(errno.EBUSY, "Device or resource busy")
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", refuse)
    file = AuditFile(path, len(RECORD), 3)
    for _ in range(6):
        file.write(RECORD)
    file.close()
    assert file.failed_rotations == 5
    assert path.read_bytes() == RECORD * 6
    assert (tmp_path / "audit.log.2").read_text() == "1"
    assert (tmp_path / "audit.log.3").read_text() == "2"


LINES = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"") + b"\n"))


@given(LINES, st.integers(1, 30))
def test_pieces_are_whole_lines_that_fit_a_pipe(lines: list[bytes], max_bytes: int) -> None:
    pieces = list(split_lines(b"".join(lines), max_bytes))
    assert b"".join(pieces) == b"".join(lines)
    for piece in filter(None, pieces):
        assert piece.endswith(b"\n")
        assert len(piece) <= max_bytes or piece.count(b"\n") == 1
