"""The circuit breaker: its states as a table, and what it permits."""

import asyncio
import logging

import pytest

from queuegate_server.identity.circuit_breaker import BreakerGuard, CircuitBreaker, CircuitState
from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        pytest.param("", CLOSED, id="new"),
        pytest.param("fail:a fail:b", CLOSED, id="below the threshold"),
        pytest.param("fail:a fail:b fail:c", OPEN, id="at the threshold"),
        pytest.param("fail:a fail:a fail:a fail:a", CLOSED, id="one user counts once"),
        pytest.param("fail:a fail:b ok fail:c", CLOSED, id="a success starts the count anew"),
        pytest.param("fail:a fail:b ok fail:a fail:b fail:c", OPEN, id="counted anew"),
        pytest.param("fail:a fail:b fail:c wait:9.9", OPEN, id="during the pause"),
        pytest.param("fail:a fail:b fail:c wait:10", HALF_OPEN, id="after the pause"),
        pytest.param("fail:a fail:b fail:c wait:1000", HALF_OPEN, id="long after the pause"),
        pytest.param("fail:a fail:b fail:c wait:10 ok", CLOSED, id="the probe succeeds"),
        pytest.param("fail:a fail:b fail:c wait:10 fail:x", OPEN, id="the probe fails"),
        pytest.param("fail:a fail:b fail:c wait:10 fail:x wait:10", HALF_OPEN, id="next probe"),
        pytest.param("fail:a fail:b fail:c wait:10 ok fail:a", CLOSED, id="closed counts anew"),
        pytest.param("fail:a fail:b fail:c wait:10 drop", HALF_OPEN, id="the probe is abandoned"),
        pytest.param("fail:a fail:b fail:c wait:10 drop ok", CLOSED, id="another probe follows"),
    ],
)
def test_states(steps: str, state: CircuitState, clock: ManualClock) -> None:
    breaker = CircuitBreaker(3, 10.0, clock)
    for step in steps.split():
        name, _, value = step.partition(":")
        if name == "wait":
            clock.advance(float(value))
            continue
        permit = breaker.acquire()
        assert permit is not None
        match name:
            case "ok":
                breaker.record_success(permit)
            case "fail":
                breaker.record_failure(permit, value)
            case _:
                breaker.release(permit)
    assert breaker.state is state
    assert (breaker.remaining > 0) is (state is OPEN)
    assert (breaker.acquire() is None) is (state is OPEN)


def test_one_probe_at_a_time(clock: ManualClock) -> None:
    breaker = _opened(clock)
    clock.advance(10)
    probe = breaker.acquire()
    assert probe is not None
    assert breaker.acquire() is None
    breaker.record_failure(probe, "x")
    assert breaker.state is OPEN


@pytest.mark.parametrize("late", ["record_success", "record_failure", "release"])
def test_a_permit_from_before_a_change_does_not_count(late: str, clock: ManualClock) -> None:
    breaker = CircuitBreaker(1, 10.0, clock)
    old, trigger = breaker.acquire(), breaker.acquire()
    assert old is not None
    assert trigger is not None
    breaker.record_failure(trigger, "a")
    clock.advance(10)
    probe = breaker.acquire()
    if late == "record_failure":
        breaker.record_failure(old, "b")
    else:
        getattr(breaker, late)(old)
    assert breaker.state is HALF_OPEN
    assert breaker.acquire() is None, "the probe is still out"
    assert probe is not None
    breaker.record_success(probe)
    assert breaker.state is CLOSED


async def test_a_source_behind_an_open_breaker_is_not_asked(clock: ManualClock) -> None:
    directory = FakeDirectory(sue=("g",))
    source = BreakerGuard("corp", CircuitBreaker(2, 10.0, clock), directory)
    directory.broken = True
    for user in ("a", "b"):
        assert isinstance(await source.resolve(user), CouldNotAsk)
    clock.advance(4)
    assert await source.resolve("sue") == CouldNotAsk(
        "not asked after repeated failures, for another 6.0 s"
    )
    assert directory.asked["sue"] == 0
    directory.broken = False
    clock.advance(6)
    assert await source.resolve("sue") == Found(("g",))


async def test_no_such_user_is_a_success(clock: ManualClock) -> None:
    breaker = CircuitBreaker(1, 10.0, clock)
    source = BreakerGuard("corp", breaker, FakeDirectory())
    for user in "abc":
        assert isinstance(await source.resolve(user), NoSuchUser)
    assert breaker.state is CLOSED


async def test_a_cancelled_probe_lets_another_one_go(clock: ManualClock) -> None:
    directory = FakeDirectory(sue=("g",))
    breaker = _opened(clock)
    clock.advance(10)
    source = BreakerGuard("corp", breaker, directory)
    directory.hold.clear()
    probe = asyncio.create_task(source.resolve("sue"))
    await asyncio.sleep(0)
    assert isinstance(await source.resolve("bob"), CouldNotAsk)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    directory.hold.set()
    assert await source.resolve("sue") == Found(("g",))
    assert breaker.state is CLOSED


async def test_opening_and_closing_are_logged(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "queuegate_server.identity")
    directory = FakeDirectory(sue=("g",))
    source = BreakerGuard("corp", CircuitBreaker(1, 10.0, clock), directory)
    directory.broken = True
    await source.resolve("sue")
    await source.resolve("sue")
    directory.broken = False
    clock.advance(10)
    await source.resolve("sue")
    assert [record.getMessage() for record in caplog.records] == [
        "resolver 'corp' keeps failing and is not asked for 10.0 s: the directory is down",
        "resolver 'corp' answers again",
    ]


def _opened(clock: ManualClock) -> CircuitBreaker:
    breaker = CircuitBreaker(1, 10.0, clock)
    permit = breaker.acquire()
    assert permit is not None
    breaker.record_failure(permit, "someone")
    return breaker
