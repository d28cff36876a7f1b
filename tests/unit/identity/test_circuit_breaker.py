"""The circuit breaker: its states as a table, and what it permits."""

import asyncio
import logging

import pytest

from queuegate_server.identity.guarded_resolver import CircuitBreaker, CircuitState
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory
from tests.support.rows import rows

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN

ANSWERS: dict[str, Outcome] = {
    "unusable": LookupFailure("several groups have the name 'a'", source_works=True),
    "unasked": NoSuchUser("no user can have this name", source_asked=False),
    "busy": LookupFailure("throttled", too_many=True),
}


@rows
async def test_states(steps: str, state: CircuitState, clock: ManualClock) -> None:
    directory = FakeDirectory()
    breaker = _breaker(directory, 3, clock)
    for step in steps.split():
        name, _, value = step.partition(":")
        directory.broken = name == "fail"
        directory.answer = ANSWERS.get(name)
        match name:
            case "wait":
                clock.advance(float(value))
            case "drop":
                look_up, _ = await _held(breaker, directory)
                look_up.cancel()
                await asyncio.wait([look_up])
            case _:
                await breaker.resolve(value or "someone")
    assert breaker.state is state
    assert breaker.refuses is (state is OPEN)


async def test_one_probe_at_a_time(clock: ManualClock) -> None:
    directory = FakeDirectory()
    breaker = await _opened(directory, clock)
    clock.advance(10)
    probe, release = await _held(breaker, directory)
    assert breaker.refuses
    release.set()
    await probe
    assert breaker.state is OPEN


@pytest.mark.parametrize("late", ["success", "failure", "cancelled"])
async def test_a_look_up_from_before_a_change_does_not_count(late: str, clock: ManualClock) -> None:
    directory = FakeDirectory()
    directory.broken = late == "failure"
    breaker = _breaker(directory, 1, clock)
    old, release_old = await _held(breaker, directory)
    directory.broken = True
    await breaker.resolve("a")
    clock.advance(10)
    directory.broken = False
    probe, release_probe = await _held(breaker, directory)
    if late == "cancelled":
        old.cancel()
    else:
        release_old.set()
    await asyncio.wait([old])
    assert breaker.state is HALF_OPEN
    assert breaker.refuses, "the probe is still out"
    release_probe.set()
    await probe
    assert breaker.state is CLOSED


async def test_a_source_behind_an_open_breaker_is_not_asked(clock: ManualClock) -> None:
    directory = FakeDirectory(sue=("g",))
    source = _breaker(directory, 2, clock)
    directory.broken = True
    for user in ("a", "b"):
        assert isinstance(await source.resolve(user), LookupFailure)
    clock.advance(4)
    assert await source.resolve("sue") == LookupFailure(
        "paused after repeated failures, for another 6 s"
    )
    assert directory.asked["sue"] == 0
    assert source.last_failure == (clock() - 4, "the directory is down")
    directory.broken = False
    clock.advance(6)
    assert await source.resolve("sue") == KnownUser(("g",))


async def test_no_such_user_is_a_success(clock: ManualClock) -> None:
    breaker = _breaker(FakeDirectory(), 1, clock)
    for user in "abc":
        assert isinstance(await breaker.resolve(user), NoSuchUser)
    assert breaker.state is CLOSED


async def test_a_cancelled_probe_lets_another_one_go(clock: ManualClock) -> None:
    directory = FakeDirectory(sue=("g",))
    breaker = await _opened(directory, clock)
    directory.broken = False
    clock.advance(10)
    probe, _ = await _held(breaker, directory)
    assert isinstance(await breaker.resolve("bob"), LookupFailure)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert await breaker.resolve("sue") == KnownUser(("g",))
    assert breaker.state is CLOSED


async def test_opening_and_closing_are_logged(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "queuegate_server.identity")
    directory = FakeDirectory(sue=("g",))
    source = _breaker(directory, 1, clock)
    directory.broken = True
    await source.resolve("sue")
    await source.resolve("sue")
    directory.broken = False
    clock.advance(10)
    await source.resolve("sue")
    assert [record.getMessage() for record in caplog.records] == [
        "resolver 'corp' keeps failing and is paused for 10.0 s: the directory is down",
        "resolver 'corp' answers again",
    ]


def _breaker(directory: FakeDirectory, failures: int, clock: ManualClock) -> CircuitBreaker:
    breaker = CircuitBreaker("corp", directory, clock)
    breaker.max_failures, breaker.pause = failures, 10
    return breaker


async def _opened(directory: FakeDirectory, clock: ManualClock) -> CircuitBreaker:
    breaker = _breaker(directory, 1, clock)
    directory.broken = True
    await breaker.resolve("someone")
    return breaker


async def _held(
    breaker: CircuitBreaker, directory: FakeDirectory
) -> tuple[asyncio.Task[Outcome], asyncio.Event]:
    """Return a lookup under way, and the event that releases it."""
    directory.hold = asyncio.Event()
    look_up = asyncio.create_task(breaker.resolve("sue"))
    await asyncio.sleep(0)
    release, directory.hold = directory.hold, asyncio.Event()
    directory.hold.set()
    return look_up, release
