"""Streams of batches at their end: who ends them, and what is still answered."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.engine import Engine
from queuegate_server.identity.resolver import Found, Outcome
from queuegate_server.rpc.errors import Draining
from tests.support.snapshots import asking, servicer, zero

SUBMIT = access_pb2.ACCESS_TYPE_SUBMIT


class HeldResolver:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()

    async def open(self) -> None:
        pass

    async def resolve(self, user: str) -> Outcome:
        await self.let.wait()
        return Found((user,))

    async def close(self) -> None:
        pass


class Caller:
    """Sends what the test puts into the queue; None ends its side."""

    def __init__(self) -> None:
        self.sends: asyncio.Queue[int | None] = asyncio.Queue()

    async def requests(self) -> AsyncIterator[bytes]:
        while (number := await self.sends.get()) is not None:
            check = access_pb2.CheckQueueAccessRequest(
                user=UserGroupInformation(user=f"u{number}"), queue="root", access=SUBMIT
            )
            batch = access_pb2.BatchCheckQueueAccessRequest(checks=[check])
            yield access_pb2.StreamQueueAccessRequest(id=number, batch=batch).SerializeToString()


class Stream:
    """A stream of a servicer, with everything around it in the test's hands."""

    def __init__(self) -> None:
        self.caller, self.directory, self.draining = Caller(), HeldResolver(), asyncio.Event()
        engine = Engine(zero)
        engine.serve(asking(self.directory))
        access = servicer(engine, self.draining)
        self._answers = access.StreamQueueAccess(self.caller.requests(), trusted=True)

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


async def test_a_batch_read_while_an_answer_was_sent_is_answered() -> None:
    stream = Stream()
    stream.caller.sends.put_nowait(1)
    first = asyncio.create_task(stream.answered())
    await idle()
    stream.directory.let.set()
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
    stream.directory.let.set()
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
    stream.directory.let.set()
    assert await rest == [1]


async def test_an_idle_stream_is_ended() -> None:
    stream = Stream()
    stream.draining.set()
    with pytest.raises(Draining):
        await stream.rest()
