"""What all streams of a server share, on its event loop."""

import asyncio
from collections.abc import Iterator, Mapping

import pytest

from queuegate.policy.acl import parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Policy, build_partition
from queuegate_server.engine import Engine, NotReady, ServedPartition, Snapshot
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.sync import hub as module
from queuegate_server.sync.compiler import ship
from queuegate_server.sync.hub import CannotShip, SyncHub
from queuegate_server.sync.session import Session, ShippedPolicy, SyncRights
from tests.support.fakes.clock import ManualClock
from tests.support.snapshots import groups_named_as_users, zero
from tests.support.sync_stream import sync_request

RIGHTS = SyncRights(local_decisions=True, assert_groups=True)
LONG = 100.0
"""Seconds after which no lease of another process is left."""


class Served:
    """An engine and its hub."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.engine = Engine(zero)
        self.hub = SyncHub(self.engine, self.clock, b"12345678")
        self.clock.advance(LONG)
        self.groups = groups_named_as_users()
        self.woken = asyncio.Event()

    def serve(self, acl: str, groups: GroupResolver | None = None) -> None:
        partition = build_partition("default", "", [QueueAcls("root", parse(acl), parse(""))])
        served = {"default": ServedPartition(partition, groups or self.groups, True)}
        self.engine.serve(Snapshot(Policy({"default": partition}, revision=1), served, 0.0))

    async def open(
        self, name: str = "gate", caller: str = "loopback", *, stale_millis: int = 0
    ) -> Session:
        """Open a stream whose caller has applied everything and has a lease."""
        session = await self.hub.open_session(RIGHTS, caller, self.woken.set)
        request = sync_request("open", name=name, stale_millis=stale_millis)
        session.receive(request, self.clock())
        self.apply(session)
        session.receive(sync_request("ping", id=1), self.clock())
        assert kinds(session) == ["pong"]
        return session

    def apply(self, session: Session) -> list[str]:
        """Send everything, and let the caller confirm it; return what was sent."""
        sent = kinds(session)
        request = sync_request("applied", sequence=self.hub.log.head)
        session.receive(request, self.clock())
        self.hub.wake_barriers()
        return sent


def kinds(session: Session) -> list[str]:
    sent: list[str] = []
    while (response := session.next_response()) is not None:
        sent.append(response.WhichOneof("message") or "")
    return sent


@pytest.fixture
async def served() -> Served:
    made = Served()
    made.serve("alice")
    return made


@pytest.fixture(autouse=True)
def _tidy(served: Served) -> Iterator[None]:
    yield
    served.hub.close()


async def turns() -> None:
    """Let all tasks run until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_barrier_ends_when_the_last_caller_confirms(served: Served) -> None:
    hub = served.hub
    sessions = [await served.open(f"gate {number}") for number in range(3)]
    barriers = [asyncio.create_task(hub.barrier(hub.invalidate("default"))) for _ in range(4)]
    for session in sessions:
        await turns()
        assert not any(barrier.done() for barrier in barriers)
        assert served.apply(session) == ["forget", "checkpoint"]
    assert await asyncio.gather(*barriers) == [([], [])] * 4
    assert hub.waited == {"confirmed": 4, "waited_out": 0, "stale": 0}


async def test_a_barrier_whose_caller_goes_away_ends_alone(served: Served) -> None:
    hub = served.hub
    session = await served.open()
    gone, kept = (asyncio.create_task(hub.barrier(hub.invalidate("default"))) for _ in range(2))
    await turns()
    gone.cancel()
    await turns()
    assert gone.cancelled()
    assert not kept.done()
    served.apply(session)
    assert await kept == ([], [])
    assert hub.waited == {"confirmed": 1, "waited_out": 0, "stale": 0}


async def test_a_stream_that_ends_with_its_lease_given_up_ends_a_barrier(served: Served) -> None:
    hub = served.hub
    session = await served.open()
    barrier = asyncio.create_task(hub.barrier(hub.invalidate("default")))
    await turns()
    session.receive(sync_request("release"), served.clock())
    hub.close_session(session)
    assert await barrier == ([], [])
    await hub.wait_for_leases()


async def test_a_barrier_that_a_gate_with_stale_does_not_confirm_is_counted(
    served: Served,
) -> None:
    hub = served.hub
    session = await served.open(stale_millis=60_000)
    session.receive(sync_request("release"), served.clock())
    hub.close_session(session)
    waited_out, stale = await hub.barrier(hub.invalidate("default"))
    assert waited_out == []
    assert [each.name for each in stale] == ["gate"]
    assert hub.waited == {"confirmed": 0, "waited_out": 0, "stale": 1}


async def test_streams_are_counted_by_caller(served: Served) -> None:
    hub = served.hub
    first, *_ = [await served.open(caller=caller) for caller in ("a", "a", "b")]
    assert (hub.streams.total(), hub.streams["a"], hub.streams["b"]) == (3, 2, 1)
    hub.close_session(first)
    assert (hub.streams.total(), hub.streams["a"], hub.streams["c"]) == (2, 1, 0)


async def test_streams_that_cannot_be_opened_are_not_counted() -> None:
    unready = Served()
    with pytest.raises(NotReady):
        await unready.hub.open_session(RIGHTS, "a", asyncio.Event().set)
    assert unready.hub.streams.total() == 0


async def test_a_policy_that_cannot_be_sent_ends_leases(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await served.open()

    async def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(module, "ship", fail)
        served.serve("bob")
        with pytest.raises(CannotShip):
            await served.hub.policy_shipped()
        with pytest.raises(CannotShip):
            await served.hub.open_session(RIGHTS, "a", asyncio.Event().set)
    assert served.hub.streams.total() == 1
    session.receive(sync_request("ping", id=2), served.clock())
    assert kinds(session) == []
    served.serve("bob")
    await served.hub.policy_shipped()
    assert kinds(session) == ["policy", "checkpoint", "pong"]


async def test_a_policy_and_the_groups_of_its_resolver_change_at_once(served: Served) -> None:
    session = await served.open()
    served.serve("bob", groups_named_as_users())
    groups = groups_named_as_users()
    served.serve("carol", groups)
    assert kinds(session) == []
    before = served.hub.log.head
    assert await served.hub.policy_shipped() == before + 2
    assert served.apply(session) == ["forget", "policy", "checkpoint"]
    # Groups that were looked up before do not count.
    assert not served.hub.log.is_valid("default", "alice", before)
    served.serve("dora", groups)
    await served.hub.policy_shipped()
    assert served.apply(session) == ["policy", "checkpoint"]


async def test_a_policy_that_replaces_one_as_it_is_sent_is_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await served.open()
    late = ["carol"]

    async def ship_and_replace(
        snapshot: Snapshot,
    ) -> Mapping[str, ShippedPolicy]:
        shipped = await ship(snapshot)
        if late:
            asyncio.get_running_loop().call_soon(served.serve, late.pop())
        return shipped

    monkeypatch.setattr(module, "ship", ship_and_replace)
    served.serve("bob")
    await served.hub.policy_shipped()
    [part] = served.hub.shipped["default"].parts
    assert part.policy.names == ["carol"]
    assert kinds(session) == ["policy", "checkpoint"]


async def test_who_makes_a_change_continues_before_the_gates_are_told(served: Served) -> None:
    """In a fleet, the next request sends the change to the other replicas before any gate wakes."""
    await served.open()
    await asyncio.sleep(0)
    served.woken.clear()
    order: list[str] = []

    async def tell_gates() -> None:
        await served.woken.wait()
        order.append("gates")

    async def tell_replicas() -> None:
        order.append("replicas")

    gates = asyncio.create_task(tell_gates())
    await asyncio.sleep(0)
    served.hub.invalidate("default", ["sam"])
    await asyncio.gather(asyncio.create_task(tell_replicas()), gates)
    assert order == ["replicas", "gates"]
