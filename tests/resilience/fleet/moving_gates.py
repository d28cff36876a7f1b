"""A gate that moves between the replicas of a fleet, as a state that can be copied and compared.

The protocol is the real one: `GateSession`, `Session`, `GateLog` and `Leases`, and `FleetSession`.
Modelled are connections, lookups, the order of events in Redis, and that a barrier waits for every
replica; `world.py` has the leases of replicas and a Redis that fails. The groups of
the one user and the policy are version numbers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from queuegate.gate.session import GateSession
from queuegate_server.fleet.events import Change, Event, LogState
from queuegate_server.fleet.fence import PendingInvalidation
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.steps import Join, NewestEvents, OwnState, Receipt
from queuegate_server.sync.barrier import Barrier, Leases
from queuegate_server.sync.change_log import GateLog
from queuegate_server.sync.session import LEASE, Session, SyncRights
from tests.resilience.protocol.gate_model import (
    PARTITION,
    USER,
    Clocks,
    Connection,
    Lookup,
    VersionPolicies,
    VersionReplica,
)

START: Final = LogPosition(b"the first epoch.", 0, b"")


@dataclass(eq=False)
class LocalChange:
    """A change that has taken effect at the replica that was asked for it."""

    pending: PendingInvalidation
    change: Change
    sequence: int
    version: int


class Replica:
    """A replica that can be started again: its session, its gates and its cache."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.starts = 0
        self.policies = VersionPolicies(0)
        self.start([], START, -2 * LEASE)

    def start(self, events: list[Event], head: LogPosition, now: float) -> None:
        """Start a process, which follows the fleet."""
        self.starts += 1
        self.events = GateLog(b"replica no. %02d%02d" % (self.index, self.starts))
        self.leases = Leases(now)
        self.session = FleetSession("ab"[self.index], "ab"[self.index], now)
        self.session.join(Join(events, head, now, None))
        self.session.lease.on_end(self.lose)
        self.cached: int | None = None
        self.drops = 0
        self.unappended: LocalChange | None = None

    @property
    def is_unsent(self) -> bool:
        """Whether its change could not be appended, and will be later."""
        return bool(self.session.unsent)

    def drop(self) -> None:
        self.cached = None
        self.drops += 1

    def lose(self) -> None:
        self.drop()
        self.events.invalidate(PARTITION)


@dataclass(eq=False)
class Promise:
    """A change whose caller waits until every replica has confirmed it."""

    event: LogPosition
    version: int
    barriers: dict[int, Barrier] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Bounds:
    """How often each thing may happen."""

    invalidations: int = 1
    reloads: int = 0
    ticks: int = 0
    restarts: int = 0
    trims: int = 0
    """Restarts of a replica that finds no events in Redis but the newest."""
    isolations: int = 0
    """How often a replica loses the order of events; above 0, an append may also fail."""
    pings: int = 1
    connects: int = 1
    wants: int = 0
    begin: tuple[tuple[str, int], ...] = ()
    """The actions with which each sequence begins."""


class World(Clocks):
    """One state. `actions` lists what can happen next, `act` makes it happen."""

    def __init__(self, bounds: Bounds, _parts: object = None) -> None:
        self.version = self.policy = 0
        self.invalidations = self.reloads = self.restarts = self.trims = self.isolations = 0
        self.pings = self.connects = self.wants = 0
        self.promised_groups = self.promised_policy = 0
        self.head = START
        self.order: list[Event] = []
        self.promises: list[Promise] = []
        self.replicas = [Replica(index) for index in range(2)]
        self.gate = VersionReplica()
        self.session = GateSession(self.gate, "gate")
        self.connection: Connection | None = None
        # The gate has the groups of the user, from the first replica.
        for action in ("connect", "receive", *("send",) * 3, *("take",) * 3, "receive"):
            self.act(action, 0)
        for action in ("want", "receive", "look up", "send", "take"):
            self.act(action, 0)
        assert self.gate.groups == 0
        self.connects = self.pings = self.wants = 0
        for action, index in bounds.begin:
            self.act(action, index)

    def actions(self, bounds: Bounds) -> Iterator[tuple[str, int]]:
        if self.ticks < bounds.ticks:
            yield "tick", 0
        for each in self.replicas:
            may = {
                "invalidate": self.invalidations < bounds.invalidations and each.unappended is None,
                "reload": self.reloads < bounds.reloads and each.unappended is None,
                "append": each.unappended is not None and self._may_append(each),
                "fail": each.unappended is not None
                and not each.is_unsent
                and bounds.isolations > 0,
                "hear": each.session.log.position is not None
                and each.session.log.newest != self.head,
                "apply": self._next_event(each) is not None,
                "ship": each.session.unfinished_reloads > 0,
                "restart": self.restarts < bounds.restarts and each.unappended is None,
                "trim": self.trims < bounds.trims and each.unappended is None,
                "lose": self.isolations < bounds.isolations
                and each.session.log.position is not None,
                "join": each.session.log.position is None and not each.is_unsent,
                "connect": self.connects < bounds.connects
                and (self.connection is None or self.connection.server != each.index),
            }
            yield from ((action, each.index) for action, is_possible in may.items() if is_possible)
        if self.connection is not None:
            on_stream = {
                "ping": self.pings < bounds.pings,
                "want": self.wants < bounds.wants,
                "receive": bool(self.connection.up),
                "look up": bool(self.connection.lookups),
                "send": True,
                "take": bool(self.connection.down),
            }
            yield from ((action, 0) for action, is_possible in on_stream.items() if is_possible)

    def act(self, action: str, index: int, _parts: object = None) -> bool:
        """Make it happen; return False if nothing did. Raises Violation."""
        if action in _ON_REPLICA:
            _ON_REPLICA[action](self, self.replicas[index])
        else:
            assert self.connection is not None
            replica = self.replicas[self.connection.server]
            if _ON_STREAM[action](self, self.connection, replica) is False:
                return False
        self._check()
        return True

    def _tick(self, _each: Replica) -> None:
        self.ticks += 1

    def _invalidate(self, each: Replica) -> None:
        """Move the user, and have the replica drop the groups."""
        self.invalidations += 1
        self.version += 1
        pending = each.session.fence.begin(PARTITION, (USER,))
        each.drop()
        sequence = each.events.invalidate(PARTITION, (USER,))
        each.unappended = LocalChange(
            pending, Change.invalidate(PARTITION, (USER,), is_awaited=True), sequence, self.version
        )

    def _reload(self, each: Replica) -> None:
        self.reloads += 1
        self.policy += 1
        pending = each.session.fence.begin("", ())
        each.policies.version = self.policy
        sequence = each.events.policy_changed()
        each.unappended = LocalChange(
            pending, Change("reload", is_awaited=True), sequence, self.policy
        )

    def _append(self, each: Replica) -> None:
        """Append the own change."""
        own, nonce = each.unappended, b"%d" % len(self.order)
        assert own is not None
        if each.is_unsent:
            _, nonce = each.session.pop_unsent()
            own.pending = each.session.fence.begin(PARTITION, (USER,))
        request = each.session.append(own.change, nonce, self.head)
        assert request is not None
        event = LogPosition(self.head.epoch, self.head.sequence + 1, nonce)
        self.order.append(Event(event, self.head.nonce, own.change))
        self.head = event
        each.unappended = None
        assert each.session.handle_append(request, self._state(has_appended=True)) == event
        each.session.fence.end(own.pending, event)
        promise = Promise(event, own.version)
        if each.session.log.position is not None:
            promise.barriers[each.index] = each.leases.barrier(own.sequence, self.now)
        self.promises.append(promise)

    def _may_append(self, each: Replica) -> bool:
        if each.session.log.position is None:
            return each.is_unsent  # before it follows again
        return each.session.log.newest == self.head

    def _fail(self, each: Replica) -> None:
        """Have the append fail: the caller gets an error, and the change is sent later."""
        assert each.unappended is not None
        each.session.keep_unsent(each.unappended.change, b"unsent %d" % len(self.order))
        each.session.fence.end(each.unappended.pending)

    def _next_event(self, each: Replica) -> Event | None:
        position = each.session.log.position
        if position is None or position.sequence == self.head.sequence:
            return None
        return self.order[position.sequence]

    def _hear(self, each: Replica) -> None:
        """Have a heartbeat name the newest event."""
        heartbeat = each.session.heartbeat(self.now, OwnState())
        each.session.handle_heartbeat(heartbeat, self._state(), self.now)

    def _state(self, *, has_appended: bool = False) -> LogState:
        return LogState(self.head.epoch, self.head, [], has_appended)

    def _apply(self, each: Replica) -> None:
        event = self._next_event(each)
        assert event is not None
        receipt = each.session.receive(event)
        assert isinstance(receipt, Receipt)
        sequence = 0
        if receipt.must_invalidate:
            each.drop()
            sequence = each.events.invalidate(PARTITION, event.change.users)
        assert each.session.apply(receipt)
        if receipt.must_reload:
            each.session.unfinished_reloads += 1
        elif receipt.must_confirm:
            self._promise_of(event.position, each, sequence)

    def _ship(self, each: Replica) -> None:
        """Serve the policy of the file."""
        each.session.unfinished_reloads = 0
        each.policies.version = self.policy
        sequence = each.events.policy_changed()
        self._confirm_all(each, sequence)

    def _confirm_all(self, each: Replica, sequence: int) -> None:
        """Confirm the events that were applied, once no gate here decides without them."""
        position = each.session.log.position
        for promise in self.promises:
            if position is not None and promise.event.sequence <= position.sequence:
                self._promise_of(promise.event, each, sequence)

    def _promise_of(self, event: LogPosition, each: Replica, sequence: int) -> None:
        for promise in self.promises:
            if promise.event == event and each.index not in promise.barriers:
                promise.barriers[each.index] = each.leases.barrier(sequence, self.now)

    def _lose(self, each: Replica) -> None:
        self.isolations += 1
        each.session.stop("an event cannot be applied")
        self._withdraw_confirmations(each)

    def _withdraw_confirmations(self, each: Replica) -> None:
        for promise in self.promises:
            promise.barriers.pop(each.index, None)

    def _join(self, each: Replica) -> None:
        join = each.session.read(NewestEvents(self.head, self.now), [*self.order])
        assert isinstance(join, Join)
        if each.session.join(join):
            each.session.unfinished_reloads += 1
        else:
            self._confirm_all(each, each.events.head)

    def _restart(self, each: Replica) -> None:
        self.restarts += 1
        self._replace_process(each, [*self.order])

    def _trim(self, each: Replica) -> None:
        self.trims += 1
        self._replace_process(each, [])

    def _replace_process(self, each: Replica, events: list[Event]) -> None:
        if self.connection is not None and self.connection.server == each.index:
            self.connection = None
        self._withdraw_confirmations(each)
        each.start(events, self.head, self.now)
        each.policies.version = self.policy
        self._confirm_all(each, each.events.policy_changed())

    def _connect(self, each: Replica) -> None:
        """Have the gate open a stream to this replica; the one before it is cut."""
        self.connects += 1
        if self.connection is not None:
            self.replicas[self.connection.server].leases.remove(self.connection.session, self.now)
        rights = SyncRights(local_decisions=True, assert_groups=True)
        session = Session(each.events, each.policies, rights, "", each.session.fence)
        each.leases.add(session)
        self.connection = Connection(session, each.index)
        self.connection.up.append(self.session.open())

    def _ping(self, connection: Connection, _each: Replica) -> None:
        self.pings += 1
        connection.up.append(self.session.ping(self.gate_now))

    def _want(self, connection: Connection, _each: Replica) -> None:
        self.wants += 1
        connection.up.append(self.session.want(PARTITION, (USER,), self.gate_now))

    def _receive(self, connection: Connection, each: Replica) -> None:
        if connection.session.receive(connection.up.popleft(), self.now) is not None:
            version = self.version if each.cached is None else each.cached
            connection.lookups.append(Lookup(version, each.events.head, each.drops))

    def _look_up(self, connection: Connection, each: Replica) -> None:
        lookup = connection.lookups.pop(0)
        if lookup.drops == each.drops and each.session.log.position is not None:
            each.cached = lookup.version
        connection.offer(lookup)

    def _send(self, connection: Connection, _each: Replica) -> bool:
        return connection.server_sends()

    def _take(self, connection: Connection, _each: Replica) -> None:
        try:
            answer = self.session.receive(connection.down.popleft(), self.gate_now)
        except ValueError:  # the message breaks the protocol
            self.session.drop_everything()
            self.replicas[connection.server].leases.remove(connection.session, self.now)
            self.connection = None
            return
        if answer is not None:
            connection.up.append(answer)

    def _check(self) -> None:
        """Let barriers return, and compare the gate with what they promised."""
        for promise in self.promises:
            for index, barrier in promise.barriers.items():
                if barrier.next_end(self.now) is None:
                    promise.confirmed.add(index)
            if len(promise.confirmed) == len(self.replicas):
                if self.order[promise.event.sequence - 1].change.is_reload:
                    self.promised_policy = max(self.promised_policy, promise.version)
                else:
                    self.promised_groups = max(self.promised_groups, promise.version)
        if self.gate_now < self.session.lease_until:
            self.gate.check(self.promised_policy, self.promised_groups)


_ON_REPLICA: Final[Mapping[str, Callable[[World, Replica], None]]] = {
    "tick": World._tick,
    "invalidate": World._invalidate,
    "reload": World._reload,
    "append": World._append,
    "fail": World._fail,
    "hear": World._hear,
    "apply": World._apply,
    "ship": World._ship,
    "lose": World._lose,
    "join": World._join,
    "restart": World._restart,
    "trim": World._trim,
    "connect": World._connect,
}
_ON_STREAM: Final[Mapping[str, Callable[[World, Connection, Replica], bool | None]]] = {
    "ping": World._ping,
    "want": World._want,
    "receive": World._receive,
    "look up": World._look_up,
    "send": World._send,
    "take": World._take,
}
