"""`queuegate-server audit verify`: its files, its output, its exit status."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queuegate_server.cli.main import command_group
from queuegate_server.observe.audit_chain import START, chained

RECORD = b'{"time":"2026"}\n'
LINES = chained(RECORD * 9, START)[0].splitlines(keepends=True)
HASHES = [json.loads(line)["hash"] for line in LINES]


def verify(*arguments: object, stdin: bytes = b"") -> Result:
    command = ["audit", "verify", *map(str, arguments)]
    return CliRunner().invoke(command_group(), command, input=stdin)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of nine records in three files, beside those of other logs."""
    path = tmp_path / "audit.log"
    for name, lines in (("", LINES[6:]), (".1", LINES[3:6]), (".2", LINES[:3])):
        path.with_name(path.name + name).write_bytes(b"".join(lines))
    for name in ("audit.log.10.gz", "audit.log.worker-1", "audit.log.01", "xaudit.log.3"):
        path.with_name(name).write_bytes(b"something else\n")
    return path


def test_an_intact_log_is_read_with_its_rotated_files(log: Path) -> None:
    result = verify(log)
    intact = f"{log}: records 1 to 9 are intact; the hash of the last one is {HASHES[8]}\n"
    assert (result.stdout, result.stderr, result.exit_code) == (intact, "", 0)


def test_rotated_files_are_ordered_by_number(log: Path) -> None:
    for number in range(9):
        log.with_name(f"audit.log.{12 - number}").write_bytes(LINES[number])
    for number in (1, 2, 3):
        log.with_name(f"audit.log.{number}").write_bytes(b"")
    log.write_bytes(b"")
    assert "records 1 to 9 are intact" in verify(log).stdout


def test_where_the_oldest_files_are_gone_the_first_record_is_named(log: Path) -> None:
    log.with_name("audit.log.2").unlink()
    assert f"{log}: records 4 to 9 are intact" in verify(log).stdout
    assert f"{log}.1: records 4 to 6 are intact" in verify(f"{log}.1").stdout


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("audit.log", LINES[6] + LINES[8], "2:1: error: the records from 8 to 8 are missing"),
        ("audit.log.1", b"", "1:1: error: the records from 4 to 6 are missing before it"),
        ("audit.log.2", LINES[0] + RECORD, "2:1: error: not a record of a hash chain"),
        ("audit.log.2", LINES[0] + LINES[1][:50], "2:1: error: not a record of a hash chain"),
        (
            "audit.log",
            LINES[6].replace(b"2026", b"2027"),
            "1:1: error: record 7 was changed: its hash is not that of its content",
        ),
    ],
)
def test_the_first_broken_record_is_named(log: Path, name: str, content: bytes, fault: str) -> None:
    log.with_name(name).write_bytes(content)
    result = verify(log)
    where = log if name == "audit.log.1" else log.with_name(name)
    assert result.stdout.startswith(f"{where}:{fault}")
    assert (result.stdout.count("\n"), result.stderr, result.exit_code) == (1, "", 1)


def test_all_logs_are_verified_and_the_worst_status_wins(log: Path, tmp_path: Path) -> None:
    empty, missing = tmp_path / "empty", tmp_path / "missing"
    empty.touch()
    other = tmp_path / "audit.log.worker-1"
    result = verify(other, empty, log)
    assert result.exit_code == 1
    assert [line.partition(": ")[0] for line in result.stdout.splitlines()] == [
        f"{other}:1:1", str(empty), str(log),
    ]  # fmt: skip
    result = verify(missing, other, log)
    assert result.exit_code == 2
    unreadable = "error: cannot be read: No such file or directory (check the path)"
    assert result.stderr == f"{missing}: {unreadable}\n"
    assert "records 1 to 9 are intact" in result.stdout


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert verify(tmp_path / "pipe").exit_code == 2


def test_standard_input_is_a_chain_of_files_with_any_names(log: Path) -> None:
    assert "<stdin>: records 1 to 9 are intact" in verify("-", stdin=b"".join(LINES)).stdout
    assert verify("-", stdin=b"".join(LINES[5:] + LINES[:5])).stdout.startswith("<stdin>:5:1: ")


def test_an_incomplete_record_at_the_end_is_noted(log: Path) -> None:
    log.write_bytes(LINES[6] + LINES[7][:40])
    result = verify(log)
    assert (result.exit_code, "records 1 to 7 are intact" in result.stdout) == (0, True)
    assert result.stderr == f"note: {log}: ends in an incomplete record, which is ignored\n"


def test_an_expected_hash_shows_that_records_are_gone(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(chained(RECORD, START)[0])
    expected = ["--expect", HASHES[8], "--expect", HASHES[2]]
    assert verify(log, *expected).exit_code == 0
    assert verify(other, log, *expected).exit_code == 0
    # Known from the record after it.
    log.with_name("audit.log.2").unlink()
    assert verify(log, "--expect", HASHES[2]).exit_code == 0
    log.write_bytes(b"".join(LINES[6:8]))
    result = verify(log, *expected)
    assert result.exit_code == 1
    assert "records 4 to 8 are intact" in result.stdout
    assert f"error: no record has the hash {HASHES[8]}\n" in result.stdout
    for wrong in ("abc", HASHES[0].upper(), HASHES[0] + "0"):
        assert verify(log, "--expect", wrong).exit_code == 2
