"""Files are read again when they change; reads that hang do not stop later ones."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuegate_server.files.watcher import (
    MAX_BYTES,
    BadFile,
    Files,
    FileWatcher,
    OneFile,
    WatchedValue,
    checksum,
)
from tests.support.atomic_files import replace
from tests.support.fakes.loop import wait_until


class Hanging(OneFile):
    """A file on a file system that does not answer while `hangs` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, MAX_BYTES)
        self.hangs = True
        self.answers = threading.Event()
        self.begun = 0

    def read(self) -> bytes:
        if self.hangs:
            self.begun += 1
            self.answers.wait()
            return b"old"
        return super().read()


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Hanging]:
    path = tmp_path / "queues.yaml"
    path.write_text("new")
    file = Hanging(path)
    yield file
    file.answers.set()


async def test_a_read_that_hangs_fails_in_time_and_stops_no_later_one(hanging: Hanging) -> None:
    file = FileWatcher(hanging, seconds=0.05)
    with pytest.raises(OSError, match=r"reading took longer than 0\.05 s"):
        await file.read()
    hanging.hangs = False
    file._seconds = 60
    assert (await file.read()).data == b"new"


async def test_threads_that_hang_are_bounded(hanging: Hanging) -> None:
    file = FileWatcher(hanging, seconds=60)
    for number in range(1, 5):
        given_up = asyncio.create_task(file.read())
        await wait_until(lambda number=number: hanging.begun == number)  # type: ignore[misc]
        given_up.cancel()
        await asyncio.wait([given_up])
    for _ in range(2):
        with pytest.raises(OSError, match="earlier attempts to read it are still stuck"):
            await file.read()
    assert hanging.begun == 4


class Numbered:
    """A file whose content is a number, and the value that is parsed from it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("1")
        self.parsed: list[bytes] = []
        self.watched = WatchedValue(Files(path), self._parse)

    def _parse(self, contents: tuple[bytes, ...]) -> int:
        self.parsed.append(contents[0])
        return int(contents[0])

    @property
    def counts(self) -> tuple[int, int]:
        return self.watched.reloads, self.watched.failures


async def test_the_last_good_value_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = Numbered(tmp_path / "number")
    assert (file.watched.value, file.counts) == (1, (1, 0))
    for text, value, counts in (
        ("2", 2, (2, 0)),
        ("two", 2, (2, 1)),
        ("zwei", 2, (2, 2)),
        ("2", 2, (3, 2)),
        ("3", 3, (4, 2)),
    ):
        file.path.write_text(text)
        for _ in range(3):
            await file.watched.reload()
            assert (file.watched.value, file.counts) == (value, counts)
    assert file.parsed == [b"1", b"2", b"two", b"zwei", b"2", b"3"]
    errors = [record.__dict__["error"] for record in caplog.records if record.levelname == "ERROR"]
    assert [error.rpartition(" ")[2] for error in errors] == ["b'two'", "b'zwei'"]


async def test_a_file_that_is_gone_is_reported_once(tmp_path: Path) -> None:
    file = Numbered(tmp_path / "number")
    file.path.rename(tmp_path / "gone")
    for _ in range(3):
        await file.watched.reload()
    assert (file.watched.value, file.counts) == (1, (1, 1))
    (tmp_path / "gone").rename(file.path)
    await file.watched.reload()
    assert (file.watched.value, file.counts) == (1, (2, 1))
    assert file.parsed == [b"1", b"1"]


async def test_changes_are_noticed(tmp_path: Path) -> None:
    file = Numbered(tmp_path / "number")
    replace(file.path, "2")  # before the watch begins
    watching = asyncio.create_task(file.watched.watch())
    await wait_until(lambda: file.watched.value == 2)
    replace(file.path, "3")
    await wait_until(lambda: file.watched.value == 3)
    watching.cancel()
    await asyncio.wait([watching])


def test_the_first_read_names_the_file(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(BadFile, match=f"^{missing}: No such file or directory$"):
        WatchedValue(Files(missing), len)
    large = tmp_path / "large"
    large.write_bytes(b"x" * 2_000_000)
    with pytest.raises(BadFile, match=f"^{large}: is larger than 1048576 bytes$"):
        WatchedValue(Files(large), len)


def test_the_first_read_is_given_up_in_time(hanging: Hanging) -> None:
    with pytest.raises(BadFile, match=r"queues.yaml: reading took longer than 0\.05 s"):
        WatchedValue(hanging, len, seconds=0.05)


def test_the_checksum_of_one_content_is_that_of_its_bytes() -> None:
    assert checksum(b"") == "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"
    others = [(b"",), (b"", b""), (b"a", b""), (b"", b"a"), {"a": b""}, {"a": b"a"}, {"b": b"a"}]
    assert len({checksum(each) for each in others}) == len(others)  # type: ignore[arg-type]
