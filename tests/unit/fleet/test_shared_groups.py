"""Groups that replicas share: which values are accepted, and what reaches the directory."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from queuegate_server.fleet.keys import Keys, Signer
from queuegate_server.fleet.replica_log import ReplicaLease
from queuegate_server.fleet.shared_groups import (
    CLOCK_SKEW,
    MAX_VALUE_BYTES,
    GroupCounts,
    InvalidValue,
    PartitionGroups,
    ValueCodec,
)
from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from queuegate_server.identity.shared import SharedResult
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory
from tests.support.fakes.fleet_order import FakeOrder, MemoryStore
from tests.support.fakes.loop import run_ready_callbacks, wait_until
from tests.support.fakes.stack import Stack

SECRET = b"s" * 32
KEY = Keys("q").user("p", "sue")


class Replica:
    """A stack whose partition shares its groups."""

    def __init__(self, fleet: "Fleet", partition: str = "p", secret: bytes = SECRET) -> None:
        self.order = FakeOrder()
        self.order.forgotten += fleet.events
        self.counts = GroupCounts()
        self._codec = ValueCodec(
            Signer(secret, "groups"), Keys("q"), partition, fleet.resolver, fleet.clock
        )
        self._fleet = fleet
        self.stack = Stack(fleet.clock, fleet.directory, self._share)

    def _share(self, lease: ReplicaLease) -> PartitionGroups:
        return PartitionGroups(
            self._fleet.store,
            self._codec,
            self.order,
            lease,
            self.counts,
            self._fleet.clock,
        )

    async def groups(self, user: str = "sue") -> str:
        return (await self.stack.resolve(user))[0]

    def forget(self, user: str | None = "sue") -> None:
        """Carry out an event."""
        self.order.forget("p", user)
        self.stack.groups.invalidate([user] if user else ["sue", "bob"])

    def refused(self) -> dict[str, int]:
        return {cause: count for cause, count in self.counts.refused.items() if count}


class Fleet:
    """Replicas with one store and one directory."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self.directory = FakeDirectory(sue=("g1", "g2"), bob=("g2",))
        self.resolver = "settings"
        self.events: list[tuple[str, str | None]] = []
        self.replicas: list[Replica] = []

    def replica(self, **options: str | bytes) -> Replica:
        replica = Replica(self, **options)  # type: ignore[arg-type]
        self.replicas.append(replica)
        return replica


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    fleet = Fleet()
    yield fleet
    fleet.directory.hold.set()
    for replica in fleet.replicas:
        await replica.stack.groups.close()


async def test_the_directory_is_asked_once_for_all_replicas(fleet: Fleet) -> None:
    replicas = [fleet.replica() for _ in range(3)]
    assert [await each.groups() for each in replicas] == ["g1 g2"] * 3
    assert [await each.groups() for each in replicas] == ["g1 g2"] * 3
    assert fleet.directory.asked["sue"] == 1
    assert [each.counts.reads["hit"] for each in replicas] == [0, 1, 1]


async def test_the_directory_is_asked_once_by_replicas_that_are_asked_at_once(
    fleet: Fleet,
) -> None:
    replicas = [fleet.replica() for _ in range(3)]
    answers = await asyncio.gather(*(each.groups() for each in replicas))
    assert answers == ["g1 g2"] * 3
    assert fleet.directory.asked["sue"] == 1
    assert sum(each.counts.reads["hit"] for each in replicas) == 2


async def test_a_replica_does_not_wait_long_for_the_lookup_of_another(fleet: Fleet) -> None:
    one, two = fleet.replica(), fleet.replica()
    fleet.directory.hold.clear()
    lookups = [asyncio.create_task(each.groups()) for each in (one, two)]
    await wait_until(lambda: fleet.directory.running == 2)
    fleet.directory.hold.set()
    assert await asyncio.gather(*lookups) == ["g1 g2"] * 2


async def test_the_lookup_from_before_an_invalidation_is_not_waited_for(fleet: Fleet) -> None:
    one, two = fleet.replica(), fleet.replica()
    fleet.directory.hold.clear()
    lookups = [asyncio.create_task(one.groups())]
    await wait_until(lambda: fleet.directory.running == 1)
    two.forget()
    lookups.append(asyncio.create_task(two.groups()))
    await run_ready_callbacks()
    assert fleet.directory.running == 2
    fleet.directory.hold.set()
    await asyncio.gather(*lookups)


async def test_users_who_do_not_exist_are_shared_and_failures_are_not(fleet: Fleet) -> None:
    one, two = fleet.replica(), fleet.replica()
    assert await one.groups("eve") == await two.groups("eve") == "no such user"
    assert fleet.directory.asked["eve"] == 1
    fleet.directory.broken = True
    assert await one.groups() == await two.groups() == "the directory is down"
    assert fleet.directory.asked["sue"] == 2
    assert KEY not in fleet.store.values


async def test_a_shared_answer_lives_as_long_as_the_first_one(fleet: Fleet) -> None:
    one, two = fleet.replica(), fleet.replica()
    await one.groups()
    resolved_at = fleet.clock.now
    assert fleet.store.lifetimes[KEY] == 300
    fleet.clock.advance(100)
    await two.groups()
    entry = two.stack.groups.known("sue")
    assert entry is not None
    assert (entry.resolved_at_wall, entry.expires_at_wall) == (resolved_at, resolved_at + 300)
    assert entry.expires_at == resolved_at + 300
    fleet.clock.advance(200)
    assert two.stack.cached() is None
    await two.groups()
    assert two.refused() == {"expired": 1}
    assert fleet.directory.asked["sue"] == 2


async def test_replicas_refresh_from_each_other(fleet: Fleet) -> None:
    """One of them asks the directory in a lifetime, not each."""
    replicas = [fleet.replica() for _ in range(3)]
    for _ in range(10):
        for each in replicas:
            assert await each.groups() == "g1 g2"
            await run_ready_callbacks()
        fleet.clock.advance(60)
    assert fleet.directory.asked["sue"] <= 4
    assert sum(each.stack.groups.stats.refreshes for each in replicas) >= 6


async def test_bypassing_the_cache_asks_the_directory_and_publishes(fleet: Fleet) -> None:
    one, two = fleet.replica(), fleet.replica()
    await one.groups()
    fleet.directory.users["sue"] = ("new",)
    assert (await two.stack.resolve(bypass_cache=True))[0] == "new"
    assert await fleet.replica().groups() == "new"


async def test_a_slow_lookup_from_before_an_invalidation_is_not_accepted_after_it(
    fleet: Fleet,
) -> None:
    """The writer has not carried out the event yet, so only the reader can know."""
    slow, reader = fleet.replica(), fleet.replica()
    fleet.directory.hold.clear()
    lookup = asyncio.create_task(slow.groups())
    await run_ready_callbacks()
    assert fleet.directory.running == 1
    fleet.directory.users["sue"] = ("new",)
    reader.forget()
    fleet.directory.hold.set()
    assert await lookup == "g1 g2"
    assert KEY in fleet.store.values
    assert await reader.groups() == "new"
    assert reader.refused() == {"outdated": 1}


@pytest.mark.parametrize("user", ["sue", None])
async def test_a_writer_that_knows_of_an_invalidation_does_not_publish(
    fleet: Fleet, user: str | None
) -> None:
    one = fleet.replica()
    fleet.directory.hold.clear()
    lookup = asyncio.create_task(one.groups())
    await run_ready_callbacks()
    assert fleet.directory.running == 1
    one.forget(user)
    fleet.directory.hold.set()
    await lookup
    assert not fleet.store.values


async def test_events_about_others_leave_values_valid(fleet: Fleet) -> None:
    one, two = fleet.replica(), fleet.replica()
    await one.groups()
    two.forget("bob")
    assert await two.groups() == "g1 g2"
    assert fleet.directory.asked["sue"] == 1


async def test_values_from_events_that_the_reader_does_not_know_are_refused(fleet: Fleet) -> None:
    ahead, behind = fleet.replica(), fleet.replica()
    ahead.forget("bob")
    await ahead.groups()
    await behind.groups()
    assert behind.refused() == {"outdated": 1}
    # Another event took the place of the one that the writer knew: history was lost.
    await ahead.groups("bob")
    behind.forget("eve")
    await behind.groups("bob")
    assert behind.refused() == {"outdated": 2}


async def test_values_of_another_history_are_refused(fleet: Fleet) -> None:
    one, two = fleet.replica(), fleet.replica()
    two.order.epoch = b"other"
    await one.groups()
    await two.groups()
    assert two.refused() == {"outdated": 1}


async def test_without_the_order_of_events_nothing_is_read_or_written(fleet: Fleet) -> None:
    one, two = fleet.replica(), fleet.replica()
    one.order.known = False
    await one.groups()
    assert (fleet.store.reads, fleet.store.values) == (0, {})
    assert one.counts.reads["unavailable"] == 1
    await two.groups()
    assert await one.groups("bob") == "g2"
    assert fleet.store.reads == 1


async def test_a_lease_that_ended_meanwhile_is_noticed_before_a_value_is_used(
    fleet: Fleet,
) -> None:
    one, two = fleet.replica(), fleet.replica()
    await one.groups()
    two.stack.lease.ends_at = fleet.clock.now + 2
    two.stack.lease.on_end(lambda: setattr(two.order, "known", False))
    read = fleet.store.get

    async def stopped_for_long(key: str) -> bytes | None:
        value = await read(key)
        fleet.clock.advance(10)
        return value

    fleet.store.get = stopped_for_long  # type: ignore[method-assign]
    await two.groups()
    assert two.refused() == {"outdated": 1}
    assert fleet.directory.asked["sue"] == 2


async def test_an_invalidation_while_a_value_is_read_keeps_it_out_of_the_cache(
    fleet: Fleet,
) -> None:
    one, two = fleet.replica(), fleet.replica()
    await one.groups()
    read = fleet.store.get

    async def late(key: str) -> bytes | None:
        value = await read(key)
        fleet.directory.users["sue"] = ("new",)
        two.forget()
        return value

    fleet.store.get = late  # type: ignore[method-assign]
    assert await two.groups() == "new"
    assert two.refused() == {"outdated": 1}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda value: b"", id="empty"),
        pytest.param(lambda value: b"garbage", id="garbage"),
        pytest.param(lambda value: value[:-1], id="cut"),
        pytest.param(lambda value: value.replace(b"g1", b"g9"), id="other groups"),
        pytest.param(lambda value: bytes(32) + value[32:], id="no code"),
    ],
)
async def test_garbage_is_refused(fleet: Fleet, change: Callable[[bytes], bytes]) -> None:
    one, two = fleet.replica(), fleet.replica()
    await one.groups()
    fleet.store.values[KEY] = change(fleet.store.values[KEY])
    assert await two.groups() == "g1 g2"
    assert two.refused() == {"mac": 1}
    assert fleet.directory.asked["sue"] == 2
    # The answer of the directory has taken the place of the garbage.
    assert await fleet.replica().groups() == "g1 g2"
    assert fleet.directory.asked["sue"] == 2


async def test_the_value_of_another_user_partition_or_fleet_is_refused(fleet: Fleet) -> None:
    one, two = fleet.replica(), fleet.replica()
    await one.groups("bob")
    fleet.store.values[KEY] = fleet.store.values[Keys("q").user("p", "bob")]
    assert await two.groups() == "g1 g2"
    assert two.refused() == {"mac": 1}
    stranger = fleet.replica(secret=b"t" * 32)
    assert await stranger.groups() == "g1 g2"
    assert stranger.refused() == {"mac": 1}


async def test_values_from_another_resolver_are_refused(fleet: Fleet) -> None:
    await fleet.replica().groups()
    fleet.resolver = "other settings"
    changed = fleet.replica()
    await changed.groups()
    assert changed.refused() == {"settings": 1}


async def test_partitions_do_not_share(fleet: Fleet) -> None:
    await fleet.replica().groups()
    await fleet.replica(partition="other").groups()
    assert fleet.directory.asked["sue"] == 2


async def test_a_store_that_fails_costs_a_lookup_and_nothing_else(fleet: Fleet) -> None:
    fleet.store.available = False
    one = fleet.replica()
    assert await one.groups() == "g1 g2"
    assert one.counts.reads["unavailable"] == 1


def test_values_are_bound_in_time_and_size() -> None:
    clock = ManualClock()
    signer = Signer(SECRET, "groups")
    codec = ValueCodec(signer, Keys("q"), "p", "settings", clock)
    position = FakeOrder().position
    assert position is not None
    for outcome in (KnownUser(("a", "é\udc80")), KnownUser(()), NoSuchUser("not there")):
        for resolved_at, is_valid in ((0, True), (CLOCK_SKEW, True), (CLOCK_SKEW + 1, False)):
            answer = SharedResult(outcome, clock.now + resolved_at, clock.now + 60)
            value = codec.encode(KEY, position, answer)
            assert value is not None
            if is_valid:
                assert codec.decode(KEY, value) == (position, answer)
            else:
                with pytest.raises(InvalidValue, match="expired"):
                    codec.decode(KEY, value)
    large = SharedResult(KnownUser(("g" * MAX_VALUE_BYTES,)), clock.now, clock.now + 60)
    assert codec.encode(KEY, position, large) is None
    content = b"[2]"
    with pytest.raises(InvalidValue, match="format"):
        codec.decode(KEY, signer.mac(KEY.encode(), content) + content)
