"""Streams of batches at their end: who ends them, and what is still answered."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from queuegate.v1 import access_pb2
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.errors import Draining


class Answers:
    """Stands in for the checks: answers each batch when it is let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()

    def answer_at_once(self, _request: bytes) -> None:
        """Is not asked."""

    def answer_batch_now(self, _batch: bytes) -> bytes | None:
        return b"" if self.let.is_set() else None

    async def answer_batch_of_stream(self, _batch: bytes) -> bytes:
        await self.let.wait()
        return b""


class Principal:
    """Sends what the test puts into the queue; None ends its side."""

    def __init__(self) -> None:
        self.sends: asyncio.Queue[int | None] = asyncio.Queue()

    async def requests(self) -> AsyncIterator[bytes]:
        while (number := await self.sends.get()) is not None:
            yield access_pb2.StreamQueueAccessRequest(id=number).SerializeToString()


class Stream:
    """A stream of a servicer, with everything around it in the test's hands."""

    def __init__(self) -> None:
        self.caller, self.checks, self.draining = Principal(), Answers(), asyncio.Event()
        nothing = cast("Any", None)
        servicer = AccessServicer(
            nothing, cast("Any", self.checks), nothing, 16, self.draining, turns=nothing
        )
        self._answers = servicer.StreamQueueAccess(self.caller.requests())

    async def answered(self) -> int:
        """Return the id of the next answer."""
        data = await asyncio.wait_for(anext(self._answers), 5)
        return access_pb2.StreamQueueAccessResponse.FromString(data).id

    async def rest(self) -> list[int]:
        """Return the ids of all further answers."""
        return [
            access_pb2.StreamQueueAccessResponse.FromString(data).id async for data in self._answers
        ]


async def idle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_was_read_while_an_answer_was_sent_is_answered() -> None:
    stream = Stream()
    stream.caller.sends.put_nowait(1)
    first = asyncio.create_task(stream.answered())
    await idle()
    stream.checks.let.set()
    assert await first == 1
    # The stream waits for its answer to be taken, and reads meanwhile.
    stream.caller.sends.put_nowait(2)
    stream.draining.set()
    await idle()
    assert await stream.answered() == 2
    with pytest.raises(Draining):
        await stream.rest()


async def test_batches_in_progress_are_answered_before_the_end() -> None:
    stream = Stream()
    for number in (1, 2, 3):
        stream.caller.sends.put_nowait(number)
    first = asyncio.create_task(stream.answered())
    await idle()
    stream.draining.set()
    await idle()
    stream.checks.let.set()
    assert {await first, await stream.answered(), await stream.answered()} == {1, 2, 3}
    with pytest.raises(Draining):
        await stream.rest()


@pytest.mark.parametrize("draining", [False, True])
async def test_a_stream_that_its_caller_ended_ends_well(draining: bool) -> None:
    stream = Stream()
    stream.caller.sends.put_nowait(1)
    stream.caller.sends.put_nowait(None)
    rest = asyncio.create_task(stream.rest())
    await idle()
    if draining:
        stream.draining.set()
    stream.checks.let.set()
    assert await rest == [1]


async def test_an_idle_stream_is_ended() -> None:
    stream = Stream()
    stream.draining.set()
    with pytest.raises(Draining):
        await stream.rest()
