"""Reads that hang do not stop later ones."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuegate_server.policystore.sources import OneFile
from queuegate_server.policystore.watched_file import WatchedFile
from tests.support.fakes.loop import until


class Hanging(OneFile):
    """A file on a file system that does not answer while `hangs` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
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
    file = WatchedFile(hanging, seconds=0.05)
    with pytest.raises(OSError, match=r"reading took longer than 0\.05 s"):
        await file.read()
    hanging.hangs = False
    file._seconds = 60
    assert (await file.read()).data == b"new"


async def test_threads_that_hang_are_bounded(hanging: Hanging) -> None:
    file = WatchedFile(hanging, seconds=60)
    for number in range(1, 5):
        given_up = asyncio.create_task(file.read())
        await until(lambda number=number: hanging.begun == number)  # type: ignore[misc]
        given_up.cancel()
        await asyncio.wait([given_up])
    for _ in range(2):
        with pytest.raises(OSError, match="earlier attempts to read it still hang"):
            await file.read()
    assert hanging.begun == 4
