"""A worker's channel and its process do not end at the same moment."""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator

import pytest

from queuegate_server.supervisor.process import WorkerProcess


@pytest.fixture
async def process() -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import time; time.sleep(600)"
    )
    yield started
    if started.returncode is None:
        started.kill()
        await started.wait()


async def test_a_worker_has_ended_once_its_process_has(
    process: asyncio.subprocess.Process,
) -> None:
    ours, theirs = socket.socketpair()
    worker = WorkerProcess(0, process, {})
    await worker._channel.open(ours)
    begin = time.monotonic()
    assert not await worker.ended(60)  # its channel is open, so there is nothing to wait for
    assert time.monotonic() - begin < 30
    theirs.close()
    await asyncio.wait_for(worker._closed.wait(), 30)
    assert not await worker.ended(0.01)
    asyncio.get_running_loop().call_later(0.1, process.kill)
    assert await worker.ended(60)
