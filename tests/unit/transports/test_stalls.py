"""Answers that are not read."""

import asyncio
from typing import cast

from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.transports.stalls import SWEEP_SECONDS, Context, Refusal, Stalls


class EndingCall:
    """A call whose peer must not be asked for once it has ended: gRPC would crash."""

    def __init__(self) -> None:
        self.has_ended = False

    def peer(self) -> str:
        assert not self.has_ended
        return "ipv4:192.0.2.1:1"


async def test_the_call_of_an_unread_answer_may_end_before_a_sweep() -> None:
    stalls = Stalls(0, ByteBudget(100), Refusal("", (), {}))
    call = EndingCall()

    async def handle() -> None:
        stalls.send(cast("Context", call), b"answer")
        call.has_ended = True
        await asyncio.sleep(1.5 * SWEEP_SECONDS)

    sweeping = asyncio.create_task(stalls.sweep())
    await asyncio.create_task(handle())
    assert not sweeping.done()
    sweeping.cancel()
