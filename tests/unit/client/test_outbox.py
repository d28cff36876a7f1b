"""Decisions on disk: none is lost silently, whatever happens to the process and its disk."""

import errno
import fcntl
import logging
import os
import random
from pathlib import Path
from typing import Any

import pytest

from queuegate.gate import outbox as module
from queuegate.gate.outbox import Outbox
from queuegate.v1 import access_pb2, sync_pb2

ALLOWED = access_pb2.CheckQueueAccessResponse(allowed=True, reason=access_pb2.REASON_USER)


def decision(number: int) -> sync_pb2.LocalDecision:
    return sync_pb2.LocalDecision(user=f"user {number}", queue="root", decision=ALLOWED)


def take(box: Outbox) -> list[str]:
    """Report everything; return the users."""
    users: list[str] = []
    while (oldest := box.oldest()) is not None:
        segment, decisions = oldest
        users += [each.user for each in decisions]
        box.remove(segment)
    return users


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "lock")


def written(folder: Path, *numbers: int) -> Path:
    """Have a gate write decisions, and end; return their file."""
    box = Outbox(folder)
    for number in numbers:
        assert box.append(decision(number))
    box.close()
    (segment,) = folder.glob("*.decisions")
    return segment


def test_decisions_come_in_order_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SEGMENT_BYTES", 10_000)
    box = Outbox(tmp_path / "a" / "b")
    assert take(box) == []
    for start in (0, 3_000):
        for number in range(start, start + 3_000):
            assert box.append(decision(number))
        assert len([*(tmp_path / "a" / "b").glob("*.decisions")]) > 1
        assert take(box) == [f"user {number}" for number in range(start, start + 3_000)]
    assert box.counts.waiting_bytes == 0
    box.close()
    assert not box.append(decision(1))
    assert box.counts.not_kept == 0


def test_decisions_that_were_not_confirmed_come_again(tmp_path: Path) -> None:
    box = Outbox(tmp_path)
    box.append(decision(1))
    assert box.oldest() == box.oldest()
    box.append(decision(2))
    box.close()
    again = Outbox(tmp_path)
    assert again.counts.waiting_bytes > 0
    again.append(decision(3))
    assert take(again) == ["user 1", "user 2", "user 3"]
    again.close()


@pytest.mark.parametrize("missing", range(1, 18))
def test_a_truncated_file_is_read_up_to_there(tmp_path: Path, missing: int) -> None:
    segment = written(tmp_path, 0, 1, 2)
    segment.write_bytes(segment.read_bytes()[:-missing])
    again = Outbox(tmp_path)
    assert take(again) == ["user 0", "user 1"]
    again.close()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:40] + b"\xff\xff\xff\xff" + data[44:],
        lambda data: data[: 2 * len(data) // 3] + bytes(len(data)),
        lambda data: data + b"\xff" * 20,
        lambda _: bytes(100),
        lambda _: random.Random(1).randbytes(5_000),
    ],
    ids=["length", "zeros at the end", "rubbish at the end", "only zeros", "only rubbish"],
)
def test_a_damaged_file_is_reported_kept_and_not_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Any
) -> None:
    segment = written(tmp_path, 0, 1, 2)
    damaged = damage(segment.read_bytes())
    segment.write_bytes(damaged)
    for _ in range(2):
        again = Outbox(tmp_path)
        found = take(again)
        again.append(decision(3))
        assert take(again) == ["user 3"]
        again.close()
        assert [each for each in found if each not in ("user 0", "user 1", "user 2")] == []
        assert segment.with_suffix(".damaged").read_bytes() == damaged
        assert names(tmp_path) == [f"{segment.stem}.damaged"]
    [record] = caplog.records
    assert "is damaged" in record.message


def test_a_file_that_cannot_be_read_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = written(tmp_path, 1)
    again = Outbox(tmp_path)
    again.append(decision(2))
    read = Path.read_bytes

    def fails(path: Path) -> bytes:
        if path == first:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", fails)
    assert take(again) == ["user 2"]
    assert again.counts.damaged == 1
    assert names(tmp_path) == [f"{first.stem}.damaged"]
    again.close()


def test_a_file_that_somebody_removes_is_counted(tmp_path: Path) -> None:
    first = written(tmp_path, 1)
    again = Outbox(tmp_path)
    first.unlink()
    assert take(again) == []
    assert (again.counts.damaged, again.counts.waiting_bytes) == (1, 0)
    again.close()


def test_a_file_that_cannot_be_removed_is_not_reported_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    box = Outbox(tmp_path)
    box.append(decision(1))

    def fails(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "unlink", fails)
    assert take(box) == ["user 1"]
    assert take(box) == []
    assert "cannot remove" in caplog.text
    box.close()


def test_the_size_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(module, "MAX_BYTES", 50)
    box = Outbox(tmp_path)
    assert [box.append(decision(number)) for number in range(4)] == [True, True, False, False]
    assert box.counts.not_kept == 2
    assert take(box) == ["user 0", "user 1"]
    assert box.append(decision(5))
    box.close()
    full, again = [record.message for record in caplog.records]
    assert "the limit is 50" in full
    assert "again" in again


class FullDisk:
    """A file on a disk that has room for some bytes more."""

    def __init__(self, file: Any, room: int) -> None:
        self._file = file
        self._room = room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(self._file.write(data[: self._room]))


@pytest.mark.parametrize("room", [0, 7])
def test_a_full_disk_leaves_whole_decisions_and_no_empty_files(tmp_path: Path, room: int) -> None:
    box = Outbox(tmp_path)
    box.append(decision(1))
    good = box._segment
    box._segment = FullDisk(good, room)  # type: ignore[assignment]
    assert [box.append(decision(2)) for _ in range(5)] == [False] * 5
    box._segment = good
    assert box.counts.not_kept == 5
    assert len(names(tmp_path)) == 1
    assert box.append(decision(3))
    assert take(box) == ["user 1", "user 3"]
    assert box.counts.damaged == 0
    box.close()


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        Outbox(tmp_path / "file")
    box = Outbox(tmp_path / "box")
    (tmp_path / "box" / "00000000000000000001.decisions").touch()
    assert not box.append(decision(1))
    assert box.append(decision(1))
    box.close()


def test_a_folder_has_one_user(tmp_path: Path) -> None:
    box = Outbox(tmp_path)
    with pytest.raises(BlockingIOError, match=r"give each gate a folder of its own.*"):
        Outbox(tmp_path)
    box.append(decision(1))
    assert take(box) == ["user 1"]
    box.close()
    Outbox(tmp_path).close()


def test_a_folder_of_a_gate_in_java(tmp_path: Path) -> None:
    """Java locks ranges of files only."""
    with (tmp_path / "lock").open("wb") as theirs:
        fcntl.lockf(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError, match="another gate"):
            Outbox(tmp_path)
    box = Outbox(tmp_path)
    with (tmp_path / "lock").open("wb") as theirs, pytest.raises(BlockingIOError):
        fcntl.lockf(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
    box.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # from Python 3.12 on
def test_a_child_process_does_not_keep_the_folder(tmp_path: Path) -> None:
    box = Outbox(tmp_path)
    box.append(decision(1))
    (left, has_left), (end, ends) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ends)
        box.abandon()
        os.write(has_left, b"x")
        os.read(end, 1)
        os._exit(0)
    try:
        os.read(left, 1)
        box.close()
        again = Outbox(tmp_path)
        assert take(again) == ["user 1"]
        again.close()
    finally:
        for descriptor in (left, has_left, end, ends):
            os.close(descriptor)
        os.waitpid(child, 0)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.decisions", "7.txt", "-1.decisions"):
        (tmp_path / name).write_text("mine")
    box = Outbox(tmp_path)
    box.append(decision(1))
    assert take(box) == ["user 1"]
    box.close()
    assert names(tmp_path) == ["-1.decisions", "7.txt", "notes.decisions"]


def test_a_rejected_decision_is_kept_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = Outbox(tmp_path)
    box.reject([decision(1)], "no such reason")
    assert (box.counts.rejected, names(tmp_path)) == (1, ["rejected"])
    assert "no such reason" in caplog.text
    assert "user 1" in caplog.text
    box.close()
    again = Outbox(tmp_path)
    assert again.counts.waiting_bytes == (tmp_path / "rejected").stat().st_size
    assert take(again) == []
    again.close()
