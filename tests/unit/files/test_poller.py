"""One thread polls all files; one whose file system hangs does not keep the others waiting."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from queuegate_server.files import poller, watcher
from queuegate_server.files.poller import FilePoller
from queuegate_server.files.watcher import MAX_BYTES, FileWatcher, OneFile
from queuegate_server.runtime import pacing
from tests.support.atomic_files import replace
from tests.support.fakes.loop import wait_until


def threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "file-poller"}


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(poller, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(watcher, "next_beat", lambda: pacing.next_beat(0.05))
    monkeypatch.setattr(watcher, "POLLER", FilePoller())


class Slow(OneFile):
    """A file whose status can be made to hang or to change at each call."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, MAX_BYTES)
        self.answers = threading.Event()
        self.answers.set()
        self.is_being_written = False
        self.reads = 0

    def status(self) -> tuple[int, ...]:
        self.answers.wait()
        return (time.monotonic_ns(),) if self.is_being_written else super().status()

    def read(self) -> bytes:
        self.reads += 1
        return super().read()


class Watched:
    """A file that is read again whenever it changes."""

    def __init__(self, path: Path, seconds: float = 60) -> None:
        path.write_text("1")
        self.path = path
        self.source = Slow(path)
        self.watcher = FileWatcher(self.source, seconds)
        self.contents: list[bytes | None] = []

    async def follow(self) -> None:
        await self._read()
        async for _ in self.watcher.changes():
            await self._read()

    async def _read(self) -> None:
        try:
            self.contents.append((await self.watcher.read()).data)
        except OSError:
            self.contents.append(None)


@asynccontextmanager
async def followed(*files: Watched) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(file.follow()) for file in files]
    try:
        await wait_until(lambda: all(file.contents for file in files))
        yield
    finally:
        for file in files:
            file.source.answers.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def has(file: Watched, *contents: bytes | None) -> None:
    await wait_until(lambda: file.contents == [*contents])


async def test_all_files_share_one_thread_that_ends_with_them(tmp_path: Path) -> None:
    before = threads()
    files = [Watched(tmp_path / str(number)) for number in range(5)]
    async with followed(*files):
        for file in files:
            replace(file.path, "2")
        for file in files:
            await has(file, b"1", b"2")
        assert len(threads() - before) == 1
    await wait_until(lambda: threads() <= before)


async def test_a_file_that_hangs_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(poller, "PATIENCE_SECONDS", 0.1)
    before = threads()
    hung, also, other = (Watched(tmp_path / name, 0.2) for name in ("hung", "also", "other"))
    async with followed(hung, also, other):
        for number, file in enumerate((hung, also), 2):
            file.source.answers.clear()
            replace(file.path, "2")
            replace(other.path, str(number))
            await wait_until(lambda text=str(number): other.contents[-1] == text.encode())  # type: ignore[misc]
        await wait_until(lambda: len(caplog.records) == 2)
        assert len(threads() - before) >= 3
        hung.source.answers.set()
        also.source.answers.set()
        await has(hung, b"1", b"2")
        await has(also, b"1", b"2")
        await wait_until(lambda: len(threads() - before) == 1)
    assert {each.__dict__["error"] for each in caplog.records} == {"reading took longer than 0.2 s"}


async def test_a_file_that_is_being_written_is_read_when_it_rests(tmp_path: Path) -> None:
    file = Watched(tmp_path / "file")
    async with followed(file):
        await wait_until(lambda: file.source.reads == 2)  # by `follow`, and by the first poll
        file.source.is_being_written = True
        await wait_until(lambda: file.source.reads > 4)  # but not for ever
        assert file.contents == [b"1"]
        file.source.is_being_written = False
        file.path.write_text("2")
        await has(file, b"1", b"2")


async def test_a_missing_file_counts_once(tmp_path: Path) -> None:
    file = Watched(tmp_path / "file")
    async with followed(file):
        file.path.unlink()
        await has(file, b"1", None)
        await asyncio.sleep(0.1)
        assert file.contents == [b"1", None]
        file.path.write_text("3")
        await has(file, b"1", None, b"3")


async def test_a_fault_that_ends_without_a_new_status_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Watched(tmp_path / "file")
    async with followed(file):

        def fail(_: OneFile) -> bytes:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(Slow, "read", fail)
            file.path.write_text("2")
            await has(file, b"1", None)
        await has(file, b"1", None, b"2")


async def test_timers_of_one_beat_end_together() -> None:
    first = pacing.next_beat()
    assert first == pacing.next_beat()
    assert first % pacing.BEAT_SECONDS == 0
    assert 0 < first - asyncio.get_running_loop().time() <= pacing.BEAT_SECONDS
