"""Followers of changes: reports are merged, bounded and never lost; resolvers are restarted."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

import pytest

from queuegate_server.identity import following
from queuegate_server.identity.following import ChangeFollower, FollowState
from queuegate_server.identity.manager import ResolverManager
from queuegate_server.identity.resolver import CannotFollow, ChangeSink
from queuegate_server.identity.shared import OwnSource
from queuegate_server.settings.model import Settings
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory
from tests.unit.identity.test_manager import partitions

ALL: tuple[str, ...] = ()


class Source:
    """A source whose changes a test reports."""

    def __init__(self) -> None:
        self.sink: ChangeSink | None = None
        self.positions: list[bytes | None] = []
        self.restarted = asyncio.Event()
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def changes(self, sink: ChangeSink) -> None:
        self.sink = sink
        self.positions.append(sink.position)
        if len(self.positions) > 1:
            self.restarted.set()
        self.end = asyncio.get_running_loop().create_future()
        await self.end


class Follower:
    """A follower of a source, and what it has invalidated."""

    def __init__(self, clock: ManualClock) -> None:
        self.source = Source()
        self.invalidated: list[tuple[str, ...]] = []
        self.pauses: list[float] = []
        self.fault: BaseException | None = None
        self.reaches_all = True
        self.may_apply = asyncio.Event()
        self.may_apply.set()
        self.clock = clock
        self.follower = ChangeFollower(
            "corp", self.source.changes, self._invalidate, clock, OwnSource(), self._sleep
        )

    @property
    def sink(self) -> ChangeSink:
        assert self.source.sink is not None
        return self.source.sink

    async def _invalidate(self, users: Collection[str]) -> bool:
        await self.may_apply.wait()
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        self.invalidated.append(tuple(users))
        return self.reaches_all

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(seconds)
        await asyncio.sleep(0)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def corp(clock: ManualClock) -> AsyncIterator[Follower]:
    corp = Follower(clock)
    corp.follower.start()
    await settle()
    yield corp
    await corp.follower.close()


async def test_the_first_start_invalidates_everybody_once(corp: Follower) -> None:
    states = [corp.follower.state]
    corp.sink.reached(b"1")
    await settle()
    corp.sink.reached(b"2")
    await settle()
    assert [*states, corp.follower.state] == [FollowState.STARTING, FollowState.FOLLOWING]
    assert corp.invalidated == [ALL]
    assert corp.sink.position == b"2"


async def test_reports_are_merged_while_earlier_ones_take_effect(corp: Follower) -> None:
    corp.may_apply.clear()
    corp.sink.invalidate(["ann"])
    await settle()
    corp.sink.invalidate(["bob", "cid"])
    corp.sink.invalidate(["bob"])
    await settle()
    corp.may_apply.set()
    await settle()
    assert corp.invalidated == [("ann",), ("bob", "cid")]
    assert corp.follower.reported == {"users": 3, "all": 0}


async def test_a_position_counts_once_its_reports_have_taken_effect(corp: Follower) -> None:
    corp.sink.reached(b"1")
    await settle()
    corp.may_apply.clear()
    corp.sink.invalidate(["ann"])
    corp.sink.reached(b"2")
    corp.clock.advance(5)
    await settle()
    assert corp.sink.position == b"1"
    assert corp.follower.lag == 5
    corp.may_apply.set()
    await settle()
    assert corp.sink.position == b"2"
    assert corp.follower.lag == 5  # the position was reached that long ago


async def test_a_storm_invalidates_everybody_at_most_once_a_second(corp: Follower) -> None:
    corp.sink.reached(b"1")
    await settle()
    corp.invalidated.clear()
    corp.clock.advance(2)
    corp.sink.invalidate([f"user{number}" for number in range(following.MAX_USERS_PER_SECOND)])
    await settle()
    assert [len(users) for users in corp.invalidated] == [following.MAX_USERS_PER_SECOND]
    corp.invalidated.clear()
    corp.sink.invalidate([f"other{number}" for number in range(5_000)])
    await settle()
    assert corp.invalidated == [ALL]
    began = corp.clock()
    for number in range(5):
        corp.sink.invalidate_all()
        corp.sink.invalidate([f"ann{number}"])
        await settle()
    assert corp.invalidated == [ALL] * 6
    assert corp.clock() - began >= 5 * following.ALL_INTERVAL


async def test_more_users_than_may_wait_are_everybody(corp: Follower) -> None:
    corp.may_apply.clear()
    corp.sink.invalidate(["ann"])
    await settle()
    for number in range(following.MAX_USERS_PER_SECOND + 1):
        corp.clock.advance(1)
        corp.sink.invalidate([f"user{number}"])
    corp.may_apply.set()
    await settle()
    assert corp.invalidated == [("ann",), ALL]


async def test_a_failed_resolver_is_restarted_at_its_position_with_back_off(
    corp: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    corp.sink.reached(b"7")
    await settle()
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            corp.source.end.set_exception(CannotFollow("the directory is down"))
            await settle()
    assert corp.source.positions == [None, *[b"7"] * 9]
    assert corp.invalidated == [ALL]
    bases = [min(2.0**number, 60.0) for number in range(9)]
    for pause, base in zip(corp.pauses, bases, strict=True):
        assert base * 0.8 <= pause <= base * 1.2
    assert corp.follower.failures == 9
    assert corp.follower.last_error is not None
    assert corp.follower.last_error[1] == "the directory is down"
    assert len(caplog.records) == 1  # one cause is logged once
    caplog.clear()
    for _ in range(2):
        corp.sink.reached()
        corp.sink.reached()
        await settle()
        corp.source.end.set_exception(CannotFollow("the directory is down"))
        await settle()
    recovery = "resolver 'corp' follows changes again"
    failure = (
        "resolver 'corp' does not follow changes; cached groups expire as usual: the directory"
    )
    lines = [record.getMessage() for record in caplog.records]
    assert [line.removesuffix(" is down") for line in lines] == [recovery, failure] * 2


async def test_a_failure_after_a_long_time_counts_as_the_first(corp: Follower) -> None:
    for _ in range(3):
        corp.source.end.set_exception(CannotFollow("the directory is down"))
        await settle()
    corp.sink.reached()
    corp.clock.advance(following.STABLE_SECONDS + 1)
    corp.pauses.clear()
    corp.source.end.set_exception(CannotFollow("the directory is down"))
    await settle()
    assert corp.pauses[-1] <= 1.2


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda future: future.set_result(None), "the resolver stopped following its source"),
        (
            lambda future: future.set_exception(KeyError("secret")),
            "the resolver failed: KeyError",
        ),
        (lambda future: future.cancel(), "the resolver cancelled its own task"),
    ],
)
async def test_bugs_of_a_resolver_are_failures(
    corp: Follower, end: Callable[[asyncio.Future[None]], object], error: str
) -> None:
    end(corp.source.end)
    await settle()
    assert corp.follower.last_error is not None
    assert corp.follower.last_error[1] == error
    assert len(corp.source.positions) == 2


async def test_a_silent_resolver_is_restarted(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MAX_SILENCE", 0.02)
    corp = Follower(clock)
    corp.follower.start()
    try:
        async with asyncio.timeout(60):
            await corp.source.restarted.wait()
    finally:
        await corp.follower.close()
    assert corp.follower.last_error is not None
    assert "nothing has confirmed that the source is followed" in corp.follower.last_error[1]


@pytest.mark.parametrize("fault", [OSError("no more memory"), asyncio.CancelledError()], ids=repr)
async def test_an_invalidation_that_fails_is_repeated_before_later_ones(
    corp: Follower, fault: BaseException
) -> None:
    corp.fault = fault
    corp.sink.invalidate(["ann"])
    corp.sink.reached(b"1")
    await settle()
    corp.sink.invalidate(["bob"])
    await settle()
    assert corp.invalidated == [ALL, ("bob",)]


async def test_a_position_that_is_too_long_is_not_kept(corp: Follower) -> None:
    corp.sink.reached(b"x" * (following.MAX_POSITION_BYTES + 1))
    await settle()
    assert corp.sink.position is None


async def test_a_report_that_did_not_reach_all_processes_comes_again(corp: Follower) -> None:
    corp.sink.reached(b"1")
    await settle()
    corp.reaches_all = False
    corp.sink.invalidate(["ann"])
    corp.sink.reached(b"2")
    await settle()
    assert corp.source.positions == [None, b"1"]
    assert corp.follower.last_error is not None
    assert "did not reach all replicas" in corp.follower.last_error[1]
    corp.reaches_all = True
    corp.sink.reached(b"3")
    await settle()
    assert corp.sink.position == b"3"


async def test_a_resolver_that_does_not_stop_is_left_behind(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "CLOSE_SECONDS", 0.01)
    stop = asyncio.Event()

    async def changes(sink: ChangeSink) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await stop.wait()
        await stop.wait()

    corp = Follower(clock)
    follower = ChangeFollower("corp", changes, corp.follower.invalidate, clock, OwnSource())
    follower.start()
    await settle()
    async with asyncio.timeout(60):
        await follower.close()
    stop.set()
    await settle()


class Lease:
    """A lease that a test gives and takes."""

    def __init__(self) -> None:
        self.is_free = asyncio.Event()
        self.lost = asyncio.Event()
        self.position: bytes | None = b"5"
        self.released: list[bytes | None] = []
        self.fault: Exception | None = None

    async def acquire(self, wait: Callable[[], None]) -> bytes | None:
        if not self.is_free.is_set():
            wait()
        await self.is_free.wait()
        return self.position

    async def keep(self, position: Callable[[], bytes | None]) -> None:
        await self.lost.wait()
        self.position = position()
        self.lost.clear()
        self.is_free.clear()
        raise CannotFollow("another replica follows the source")

    async def release(self, position: bytes | None) -> None:
        self.released.append(position)
        if self.fault is not None:
            raise self.fault


async def test_a_lease_that_cannot_be_released_is_a_failure(clock: ManualClock) -> None:
    corp, lease = Follower(clock), Lease()
    lease.is_free.set()
    lease.fault = KeyError("secret")
    follower = ChangeFollower(
        "corp", corp.source.changes, corp.follower.invalidate, clock, lease, corp.follower.sleep
    )
    follower.start()
    await settle()
    corp.source.end.set_result(None)
    await settle()
    assert follower.last_error is not None
    assert follower.last_error[1] == "the resolver failed: KeyError"
    assert len(corp.source.positions) == 2
    lease.fault = None
    await follower.close()
    assert corp.source.end.cancelled()


async def test_only_the_holder_of_the_lease_follows(clock: ManualClock) -> None:
    corp, lease = Follower(clock), Lease()
    follower = ChangeFollower(
        "corp", corp.source.changes, corp.follower.invalidate, clock, lease, corp.follower.sleep
    )
    follower.start()
    await settle()
    clock.advance(500)
    states = [(follower.state, follower.lag)]
    assert corp.source.sink is None
    lease.is_free.set()
    await settle()
    corp.sink.reached(b"6")
    await settle()
    states.append((follower.state, follower.lag))
    assert corp.source.positions == [b"5"]
    assert corp.invalidated == [], "the position was known"
    lease.lost.set()
    await settle()
    states.append((follower.state, follower.lag))
    assert lease.position == b"6"
    assert corp.source.end.cancelled()
    assert states == [
        (FollowState.STANDBY, 0.0),
        (FollowState.FOLLOWING, 0.0),
        (FollowState.STANDBY, 0.0),
    ]
    await follower.close()
    assert lease.released == [b"6"], "a replica on standby has no lease to release"


async def test_partitions_of_a_resolver_and_of_chains_with_it(clock: ManualClock) -> None:
    source = Source()

    class Followed(FakeDirectory):
        changes = staticmethod(source.changes)

    settings = Settings.model_validate(
        {
            "resolvers": {
                "corp": {"type": "test"},
                "other": {"type": "test"},
                "both": {"type": "chain", "resolvers": ["corp", "other"]},
            },
            "partitions": {
                "a": {"resolver": "corp"},
                "b": {"resolver": "both"},
                "c": {"resolver": "other"},
            },
        }
    )
    resolvers = {"corp": Followed(), "other": FakeDirectory()}
    manager = ResolverManager(settings, clock, clock, around=lambda name, _: resolvers[name])
    calls: list[tuple[str, tuple[str, ...]]] = []

    async def invalidate(partition: str, users: Collection[str]) -> bool:
        calls.append((partition, tuple(users)))
        return True

    manager.follow_changes(invalidate)
    served = await manager.for_partitions(partitions("a", "b", "c"))
    await settle()
    assert source.sink is not None
    source.sink.invalidate(["ann"])
    await settle()
    assert calls == [("a", ("ann",)), ("b", ("ann",))]
    assert [(each.name, each.follower is None) for _, each in manager.resolvers()] == [
        ("corp", False),
        ("other", True),
    ]
    await manager.close_unused([served["c"]])
    assert source.end.cancelled()
    await manager.close()


async def test_commands_do_not_follow(clock: ManualClock) -> None:
    source = Source()

    class Followed(FakeDirectory):
        changes: Callable[[ChangeSink], Awaitable[None]] = staticmethod(source.changes)

    manager = ResolverManager(Settings(), clock, clock, around=lambda _name, _: Followed())
    await manager.for_partitions(partitions("a"))
    await settle()
    assert source.sink is None
    await manager.close()
