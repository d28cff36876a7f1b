"""The bounds of a lookup: its time, how many at once, and that nothing is raised."""

import asyncio
import logging
import time
from collections.abc import Callable

import pytest

from queuegate_server.identity.guarded_resolver import Bulkhead, ExceptionContainment, Timeout
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory
from tests.support.fakes.loop import run_ready_callbacks

pytestmark = pytest.mark.usefixtures("no_task_left")

SECRET = "hunter2"


class _Answers:
    """Answers whatever the test says, also what no resolver may answer."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    async def resolve(self, user: str) -> Outcome:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        TimeoutError(SECRET),
        OSError(5, SECRET),
        KeyError(SECRET),
        asyncio.CancelledError(SECRET),
        AssertionError(SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_exception_is_an_answer_that_reveals_no_secret(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    directory = FakeDirectory()
    directory.error = error
    outcome = await ExceptionContainment("corp", directory).resolve("sue\nroot")
    assert outcome == LookupFailure(f"the resolver failed: {type(error).__name__}")
    [record] = caplog.records
    assert record.name == "queuegate_server.identity.guarded_resolver"
    assert record.levelno == logging.ERROR
    assert record.getMessage() == r"resolver 'corp' failed for 'sue\nroot'"
    assert record.exc_info is not None


@pytest.mark.parametrize("answer", [None, (), ("g",), [], "g", True], ids=repr)
async def test_an_answer_that_is_no_outcome_is_a_fault(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = await ExceptionContainment("corp", _Answers(answer)).resolve("sue")
    assert outcome == LookupFailure("the resolver returned a value of the wrong type")
    assert caplog.records[0].levelno == logging.ERROR


@pytest.mark.parametrize("outcome", [KnownUser(("g",)), NoSuchUser("no"), LookupFailure("down")])
async def test_outcomes_pass(outcome: Outcome, caplog: pytest.LogCaptureFixture) -> None:
    assert await ExceptionContainment("corp", _Answers(outcome)).resolve("sue") is outcome
    logged = [record.getMessage() for record in caplog.records]
    failed = isinstance(outcome, LookupFailure)
    assert logged == (["resolver 'corp' cannot look up 'sue': down"] if failed else [])


async def test_cancelling_a_lookup_is_not_a_fault() -> None:
    directory = FakeDirectory(sue=("g",))
    directory.hold.clear()
    task = asyncio.create_task(ExceptionContainment("corp", directory).resolve("sue"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_lookup_that_takes_too_long_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    directory = FakeDirectory(sue=("g",))
    directory.hold.clear()
    source = Timeout("corp", 0.01, ExceptionContainment("corp", directory))
    assert await source.resolve("s\tue") == LookupFailure(
        "no answer within 0.01 s (lookup_timeout)"
    )
    assert directory.cancelled == 1
    assert [record.getMessage() for record in caplog.records] == [
        r"resolver 'corp' cannot look up 's\tue': no answer within 0.01 s (lookup_timeout)"
    ]


async def test_a_timeout_of_the_source_is_not_our_time_limit() -> None:
    directory = FakeDirectory()
    directory.error = TimeoutError()
    source = Timeout("corp", 60, ExceptionContainment("corp", directory))
    assert await source.resolve("sue") == LookupFailure("the resolver failed: TimeoutError")


def bulkhead(
    source: FakeDirectory,
    max_concurrent: int,
    max_waiting: int,
    lookup_timeout: float,
    clock: Callable[[], float] = time.monotonic,
) -> Bulkhead:
    options = ResolverOptions(max_concurrent=max_concurrent, lookup_timeout=lookup_timeout)
    built = Bulkhead(options, source, clock)
    built.max_waiting = max_waiting
    return built


async def test_running_and_waiting_lookups_are_bounded() -> None:
    directory = FakeDirectory(**{f"u{number}": ("g",) for number in range(9)})
    directory.hold.clear()
    source = bulkhead(directory, 3, 2, 60)
    tasks = [asyncio.create_task(source.resolve(f"u{number}")) for number in range(5)]
    await asyncio.sleep(0)
    assert (source.running, source.waiting) == (3, 2)
    assert await source.resolve("u5") == LookupFailure("too many lookups", too_many=True)
    directory.hold.set()
    assert list(await asyncio.gather(*tasks)) == [KnownUser(("g",))] * 5
    assert directory.most_running == 3
    assert directory.asked["u5"] == 0
    assert (source.running, source.waiting) == (0, 0)
    assert await source.resolve("u5") == KnownUser(("g",))


async def test_without_a_queue_further_lookups_fail_at_once() -> None:
    directory = FakeDirectory(sue=("g",), bob=("g",))
    directory.hold.clear()
    source = bulkhead(directory, 1, 0, 60)
    first = asyncio.create_task(source.resolve("sue"))
    await asyncio.sleep(0)
    assert await source.resolve("bob") == LookupFailure("too many lookups", too_many=True)
    directory.hold.set()
    assert await first == KnownUser(("g",))


async def test_the_wait_is_bounded() -> None:
    directory = FakeDirectory(sue=("g",), bob=("g",))
    directory.hold.clear()
    source = bulkhead(directory, 1, 1, 0.01)
    first = asyncio.create_task(source.resolve("sue"))
    await asyncio.sleep(0)
    assert await source.resolve("bob") == LookupFailure(
        "too many lookups: none could start within 0.01 s", too_many=True
    )
    assert directory.asked["bob"] == 0
    directory.hold.set()
    assert await first == KnownUser(("g",))
    assert await source.resolve("bob") == KnownUser(("g",))


async def test_a_queue_that_never_gets_shorter_is_kept_short(clock: ManualClock) -> None:
    """A burst is served, however long its queue is. What follows before the queue was empty is
    refused as soon as it would wait for longer than three lookups take.
    """
    directory = FakeDirectory(**{f"u{number}": ("g",) for number in range(99)})
    directory.hold.clear()
    source = bulkhead(directory, 2, 99, 8, clock)
    tasks = [asyncio.create_task(source.resolve(f"u{number}")) for number in range(14)]
    await run_ready_callbacks()
    assert (source.running, source.waiting) == (2, 12)
    clock.advance(0.5)  # what a lookup takes
    directory.hold.set()
    await run_ready_callbacks()
    assert list(await asyncio.gather(*tasks)) == [KnownUser(("g",))] * 14
    directory.hold.clear()
    tasks = [asyncio.create_task(source.resolve(f"u{number}")) for number in range(14)]
    await run_ready_callbacks()
    clock.advance(1.1)
    assert await source.resolve("u50") == LookupFailure("too many lookups", too_many=True)
    directory.hold.set()
    await asyncio.gather(*tasks)
    assert await source.resolve("u50") == KnownUser(("g",))


@pytest.mark.parametrize("whom", ["runs", "waits"])
async def test_a_cancelled_lookup_frees_its_place(whom: str) -> None:
    directory = FakeDirectory(sue=("g",), bob=("g",), eve=("g",))
    directory.hold.clear()
    source = bulkhead(directory, 1, 2, 60)
    tasks = {
        name: asyncio.create_task(source.resolve(user))
        for name, user in (("runs", "sue"), ("waits", "bob"), ("last", "eve"))
    }
    await asyncio.sleep(0)
    tasks[whom].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks.pop(whom)
    directory.hold.set()
    assert list(await asyncio.gather(*tasks.values())) == [KnownUser(("g",))] * 2
    assert (source.running, source.waiting) == (0, 0)


async def test_an_exception_frees_the_place() -> None:
    directory = FakeDirectory(sue=("g",))
    directory.error = ValueError("bad")
    source = bulkhead(directory, 1, 0, 60)
    with pytest.raises(ValueError, match="bad"):
        await source.resolve("sue")
    directory.error = None
    assert await source.resolve("sue") == KnownUser(("g",))
