"""Single flight: one lookup of a user, joined by all callers and owned by none."""

import asyncio
from collections import Counter

import pytest

from queuegate_server.runtime.single_flight import Flight, FlightCancelled, SingleFlight
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.loop import run_ready_callbacks

pytestmark = pytest.mark.usefixtures("no_task_left")


class _Work:
    """Counts its calls; each waits until the test lets it go on."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.go_on = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, flight: Flight) -> str:
        user = flight.key
        self.calls[user] += 1
        number = self.calls[user]
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return f"{user}-{number}"


async def test_ten_thousand_callers_share_one_flight() -> None:
    work = _Work()
    flights = SingleFlight(work)
    callers = [asyncio.create_task(flights.join("sue")) for _ in range(10_000)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    work.go_on.set()
    assert set(await asyncio.gather(*callers)) == {"sue-1"}
    assert work.calls == {"sue": 1}


async def test_users_do_not_share() -> None:
    work = _Work()
    work.go_on.set()
    flights = SingleFlight(work)
    assert list(await asyncio.gather(flights.join("sue"), flights.join("Sue"))) == [
        "sue-1",
        "Sue-1",
    ]


async def test_a_cancelled_leader_does_not_take_the_others_along() -> None:
    work = _Work()
    flights = SingleFlight(work)
    leader, *followers = [asyncio.create_task(flights.join("sue")) for _ in range(4)]
    await asyncio.sleep(0)
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    work.go_on.set()
    assert list(await asyncio.gather(*followers)) == ["sue-1"] * 3


async def test_work_goes_on_when_nobody_waits() -> None:
    work = _Work()
    flights = SingleFlight(work)
    only = asyncio.create_task(flights.join("sue"))
    await asyncio.sleep(0)
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    assert "sue" in flights
    work.go_on.set()
    assert await flights.join("sue") == "sue-1"
    assert not flights._tasks
    assert "sue" not in flights


async def test_a_caller_who_wants_fresh_work_does_not_join_older_work() -> None:
    work = _Work()
    flights = SingleFlight(work)
    old = asyncio.create_task(flights.join("sue"))
    await asyncio.sleep(0)
    alone = asyncio.create_task(flights.join("sue", alone=work))
    await asyncio.sleep(0)
    later = asyncio.create_task(flights.join("sue"))
    await asyncio.sleep(0)
    work.go_on.set()
    assert list(await asyncio.gather(old, alone, later)) == ["sue-1", "sue-2", "sue-2"]


@pytest.mark.parametrize("whom", ["sue", "everyone"])
async def test_outdated_work_goes_on_for_those_who_wait_only(whom: str) -> None:
    work = _Work()
    flights = SingleFlight(work)
    old = asyncio.create_task(flights.join("sue"))
    await asyncio.sleep(0)
    if whom == "sue":
        flights.outdate("sue")
        flights.outdate("nobody")
    else:
        flights.outdate_all()
    assert "sue" not in flights
    new = asyncio.create_task(flights.join("sue"))
    await asyncio.sleep(0)
    work.go_on.set()
    assert list(await asyncio.gather(old, new)) == ["sue-1", "sue-2"]


async def test_older_work_that_ends_does_not_outdate_newer_work() -> None:
    gates = {1: asyncio.Event(), 2: asyncio.Event()}
    calls = 0

    async def work(flight: Flight) -> str:
        nonlocal calls
        calls += 1
        number = calls
        await gates[number].wait()
        return f"{flight.key}-{number}"

    flights = SingleFlight(work)
    old = asyncio.create_task(flights.join("sue"))
    await run_ready_callbacks()
    new = asyncio.create_task(flights.join("sue", alone=work))
    await run_ready_callbacks()
    gates[1].set()
    assert await old == "sue-1"
    await run_ready_callbacks()
    assert "sue" in flights
    later = asyncio.create_task(flights.join("sue"))
    await run_ready_callbacks()
    gates[2].set()
    assert list(await asyncio.gather(new, later)) == ["sue-2"] * 2
    assert calls == 2


async def test_an_exception_reaches_all_and_is_not_kept() -> None:
    work = _Work()
    work.error = ValueError("bad")
    work.go_on.set()
    flights = SingleFlight(work)
    results = await asyncio.gather(*(flights.join("sue") for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["bad"] * 3
    work.error = None
    assert await flights.join("sue") == "sue-2"


async def test_close_cancels_the_work_and_wakes_its_callers() -> None:
    work = _Work()
    flights = SingleFlight(work)
    waiting = [asyncio.create_task(flights.join(user)) for user in ("sue", "bob", "sue")]
    await asyncio.sleep(0)
    await flights.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [FlightCancelled] * 3
    assert not flights._tasks
    with pytest.raises(FlightCancelled):
        await flights.join("sue")


async def test_close_before_the_work_has_begun() -> None:
    work = _Work()
    flights = SingleFlight(work)
    waiting = asyncio.create_task(flights.join("sue"))
    flights.start("bob")
    await flights.close()
    with pytest.raises(FlightCancelled):
        await waiting
    assert work.calls == {}


async def test_a_caller_cancelled_during_close_is_cancelled() -> None:
    work = _Work()
    flights = SingleFlight(work)
    waiting = asyncio.create_task(flights.join("sue"))
    await asyncio.sleep(0)
    waiting.cancel()
    await flights.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_work_that_began_too_long_ago_is_not_joined() -> None:
    clock = ManualClock()
    work = _Work()
    flights = SingleFlight(work, clock)
    old = asyncio.create_task(flights.join("sue"))
    await asyncio.sleep(0)
    clock.advance(4.9)
    joined = asyncio.create_task(flights.join("sue", max_age=5))
    await asyncio.sleep(0)
    clock.advance(0.1)
    new = asyncio.create_task(flights.join("sue", max_age=5))
    await asyncio.sleep(0)
    work.go_on.set()
    assert list(await asyncio.gather(old, joined, new)) == ["sue-1", "sue-1", "sue-2"]


async def test_newer_work_with_a_result_outdates_older_work() -> None:
    flights = list[Flight]()
    go_on = asyncio.Event()

    async def work(flight: Flight) -> None:
        flights.append(flight)
        await go_on.wait()

    flying = SingleFlight(work)
    tasks = [flying.start(user) for user in ("sue", "bob", "sue", "sue")]
    await run_ready_callbacks()
    flights[2].supersede()
    assert [each.is_outdated for each in flights] == [True, False, False, False]
    go_on.set()
    await asyncio.gather(*tasks)


async def test_work_that_does_not_suspend_needs_no_task() -> None:
    work = _Work()
    work.go_on.set()
    flights = SingleFlight(work, has_tasks=False)
    joining = flights.join("sue")
    with pytest.raises(StopIteration) as done:
        joining.send(None)
    assert done.value.value == "sue-1"
    assert "sue" not in flights
    await flights.close()
    with pytest.raises(FlightCancelled):
        await flights.join("sue")
