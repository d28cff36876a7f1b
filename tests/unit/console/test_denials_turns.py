"""The threads that read the audit log for the Denials page: few, also when browsers leave."""

import asyncio
import threading
from pathlib import Path

import pytest

from queuegate_server.console.pages import denials
from queuegate_server.observe.audit_reader import NewestRecords

ANY = denials.DenialFilter("", "", "", "", "")


async def test_a_reader_keeps_its_turn_when_the_browser_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, go = threading.Semaphore(0), threading.Event()

    def read(*_: object) -> NewestRecords:
        started.release()
        assert go.wait(60)
        return NewestRecords([], searched_all=True)

    turns = asyncio.Semaphore(1)
    monkeypatch.setattr(denials, "_turns", turns)
    monkeypatch.setattr(denials, "newest_records", read)
    left = asyncio.create_task(denials._read(Path("audit.log"), 0, ANY))
    assert await asyncio.to_thread(started.acquire, timeout=60)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    assert turns.locked()
    waiting = asyncio.create_task(denials._read(Path("audit.log"), 0, ANY))
    go.set()
    assert (await asyncio.wait_for(waiting, 60)).searched_all
    assert not turns.locked()
