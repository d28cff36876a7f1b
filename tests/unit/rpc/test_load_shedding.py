"""Long calls come one after another; a caller who leaves or is refused holds up nobody."""

import asyncio
import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from queuegate.v1.access_pb2 import ACCESS_TYPE_SUBMIT, ListQueuesRequest, ListUsersRequest
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.rpc.errors import Overloaded
from queuegate_server.rpc.load_shedding import (
    MAX_REQUESTS,
    LongCallQueue,
    Slot,
)
from queuegate_server.rpc.policy_service import PolicyServicer
from queuegate_server.rpc.wire import MAX_SHORT_REQUEST
from queuegate_server.throttling.byte_budget import ByteBudget
from tests.support.snapshots import serving


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Lines:
    """Calls that stand in line, and in which order they were worked on."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.refused = {"waited": 0, "unread": 0, "bytes": 0}
        self.unread = ByteBudget(100)
        self.queue = LongCallQueue(self.clock, 0.1, self.refused, self.unread)
        self.order: list[str] = []

    async def work(self, name: str, slot: Slot, parts: Iterable[float]) -> None:
        async with slot:
            self.order.append(name)
            for seconds in parts:
                self.clock.now += seconds
                await slot.pause()
                self.order.append(name)

    def call(self, name: str, parts: Iterable[float] = ()) -> "asyncio.Task[None]":
        return asyncio.create_task(self.work(name, self.queue.for_call(b""), parts))

    def batch_of_stream(self, name: str, parts: Iterable[float] = ()) -> "asyncio.Task[None]":
        return asyncio.create_task(self.work(name, self.queue.for_stream(b""), parts))


async def worked_on(tasks: Iterable["asyncio.Task[None]"], lines: Lines) -> str:
    """Let them all get in line, and then their queue."""
    async with asyncio.timeout(60):
        async with lines.queue.for_call(b""):
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
    return "".join(lines.order)


async def test_the_first_come_is_the_first_served() -> None:
    lines = Lines()
    calls = [lines.call(name, parts=[0.001] * 3) for name in "abc"]
    assert await worked_on(calls, lines) == "aaaabbbbcccc"


async def test_a_long_call_lets_others_begin() -> None:
    lines = Lines()
    calls = [lines.call("a", parts=[0.03] * 3), lines.call("b"), lines.call("c")]
    assert await worked_on(calls, lines) == "abacaa"


async def test_no_other_call_begins_while_many_wait_to_go_on() -> None:
    lines = Lines()
    calls = [lines.call(name, parts=[0.03] * 2) for name in "abcdefghijkl"]
    order = await worked_on(calls, lines)
    for place in range(len(order)):
        begun = {name for name in order[:place] if name in order[place:]}
        assert len(begun) <= 6


async def test_streams_and_calls_come_up_alternately() -> None:
    lines = Lines()
    tasks = [lines.batch_of_stream(name) for name in "abcd"]
    tasks += [lines.call(name) for name in "WXYZ"]
    assert await worked_on(tasks, lines) == "aWbXcYdZ"


@pytest.mark.parametrize("is_next", [False, True], ids=["in line", "its turn has just come"])
async def test_a_caller_who_leaves_holds_up_nobody(*, is_next: bool) -> None:
    lines = Lines()
    first = lines.queue.for_call(b"")
    async with first:
        gone, last = lines.call("gone"), lines.call("z")
        await asyncio.sleep(0)
        if is_next:
            first.release()
        gone.cancel()
    assert await worked_on([last], lines) == "z"
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await worked_on([lines.call("a")], lines) == "za"


async def test_a_call_that_fails_ends_its_turn() -> None:
    lines = Lines()

    async def fails() -> None:
        async with lines.queue.for_call(b""):
            raise ValueError

    failing = asyncio.create_task(fails())
    assert await worked_on([lines.call("a")], lines) == "a"
    with pytest.raises(ValueError, match=r"^$"):
        await failing


async def test_calls_whose_turn_comes_too_late_are_refused_in_an_overload() -> None:
    """Batches of streams are not, nor is any call once the line is short again."""
    lines = Lines()
    async with lines.queue.for_call(b""):
        # All of them wait for too long, but not for long enough to rule out a burst.
        burst = [lines.call("b", parts=[0.003]) for _ in range(200)]
        await asyncio.sleep(0)
        lines.clock.now += 0.15
    outcomes = await asyncio.gather(*burst, return_exceptions=True)
    answered = outcomes.count(None)
    assert 32 <= answered < 200
    assert lines.refused["waited"] == 200 - answered
    failures = [error for error in outcomes if error is not None]
    assert all(isinstance(error, Overloaded) and error.retry_after for error in failures)
    async with lines.queue.for_call(b""):
        patient = [lines.batch_of_stream("s") for _ in range(50)]
        await asyncio.sleep(0)
        lines.clock.now += 0.15
    await asyncio.gather(*patient)
    async with lines.queue.for_call(b""):
        soon = lines.call("a")
        await asyncio.sleep(0)
        lines.clock.now += 0.01
    await soon


LONG = bytes(MAX_SHORT_REQUEST + 1)


async def test_work_on_a_long_request_waits_for_its_turn_and_is_done_in_a_thread() -> None:
    lines = Lines()
    here = threading.get_ident()
    assert await lines.queue.in_turn(LONG[1:], threading.get_ident) == here
    async with lines.queue.for_call(b""):
        waiting = asyncio.create_task(lines.queue.in_turn(LONG, threading.get_ident))
        await asyncio.sleep(0)
        assert await lines.queue.in_turn(b"", threading.get_ident) == here
        assert not waiting.done()
    assert await waiting != here


async def test_cancelled_work_is_never_done_beside_other_work() -> None:
    """The thread continues with it, and starts no second one."""
    queue = Lines().queue
    go_on, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(60)

    cancelled = asyncio.create_task(queue.in_turn(LONG, work))
    await asyncio.to_thread(begun.wait, 60)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    following = asyncio.create_task(queue.in_turn(LONG, go_on.is_set))
    await asyncio.sleep(0)
    go_on.set()
    assert await following


@pytest.mark.parametrize(
    "method", ["GetPolicy", "ListQueues", "ListUsers", "BatchCheckApplicationAccess"]
)
async def test_calls_with_long_answers_wait_for_their_turn(method: str) -> None:
    engine, access = serving()
    queue = access._queue
    policy = PolicyServicer(
        engine,
        cast("Any", SimpleNamespace(state=SimpleNamespace(succeeded=True))),
        queue,
        cast("Any", None),
    )
    user = UserGroupInformation(user="alice")
    calls = {
        "GetPolicy": lambda: policy.GetPolicy(b""),
        "ListQueues": lambda: access.ListQueues(
            ListQueuesRequest(user=user, access=ACCESS_TYPE_SUBMIT).SerializeToString(),
            trusted=True,
        ),
        "ListUsers": lambda: access.ListUsers(
            ListUsersRequest(queue="root", access=ACCESS_TYPE_SUBMIT).SerializeToString()
        ),
        "BatchCheckApplicationAccess": lambda: access.BatchCheckApplicationAccess(
            b"\x0a\x00", trusted=True
        ),
    }
    async with queue.for_call(b""):
        waiting = asyncio.ensure_future(calls[method]())
        await asyncio.sleep(0)
        assert queue.has_waiters
    assert await waiting


async def test_no_long_call_begins_while_too_many_answers_are_unread() -> None:
    lines = Lines()
    async with lines.queue.for_call(b"") as begun:
        lines.unread.take(100)
        for slot in (lines.queue.for_call(b""), lines.queue.for_stream(b"")):
            with pytest.raises(Overloaded, match="responses are waiting to be read"):
                await slot.__aenter__()
        begun.release()
        await begun.reacquire()
    assert lines.refused == {"waited": 0, "unread": 2, "bytes": 0}
    lines.unread.give_back(1)
    async with lines.queue.for_call(b""):
        pass


async def test_no_long_call_waits_while_too_many_bytes_of_requests_are_in_progress() -> None:
    lines = Lines()
    large = bytes(MAX_REQUESTS)
    async with lines.queue.for_call(large):
        with pytest.raises(Overloaded, match="requests are waiting to be processed"):
            await lines.queue.for_call(b"").__aenter__()
        # The batch of a stream has been read, and waits.
        batch = lines.batch_of_stream("a")
        await asyncio.sleep(0)
    await batch
    assert lines.order == ["a"]
    assert lines.refused == {"waited": 0, "unread": 0, "bytes": 1}
    assert lines.queue.requests.taken == 0
    async with lines.queue.for_call(b""):
        pass
