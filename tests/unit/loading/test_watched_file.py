"""Reads that hang do not stop later ones."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuegate_server.loading.policy_files import OneFile
from queuegate_server.loading.watched_file import WatchedFile


class Hanging(OneFile):
    """A file on a file system that does not answer while `hangs` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.hangs = True
        self.answers = threading.Event()

    def read(self) -> bytes:
        if self.hangs:
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
    assert (await file.read()).data == b"new"


async def test_threads_that_hang_are_bounded(hanging: Hanging) -> None:
    file = WatchedFile(hanging, seconds=0.01)
    messages = []
    for _ in range(6):
        with pytest.raises(OSError, match=r"reading|earlier") as caught:
            await file.read()
        messages.append(caught.value.strerror)
    assert (
        messages
        == ["reading took longer than 0.01 s"] * 4 + ["earlier attempts to read it still hang"] * 2
    )
