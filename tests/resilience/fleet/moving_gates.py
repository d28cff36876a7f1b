"""A gate that moves between the replicas of a fleet, as a state that can be copied and compared.

The protocol is the real one: `GateSession`, `Session`, `EventLog` and `Leases`, `ReplicaLog` and
`OrderFence`. Modelled are connections, lookups, the order of events in Redis, and that a barrier
waits for every replica; `world.py` has the leases of replicas and a Redis that fails. The groups of
the one user and the policy are version numbers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from queuegate_server.fleet.events import Change, Event
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.sync.barrier import Barrier
from queuegate_server.sync.session import SyncRights
from tests.resilience.fleet.modelled_replica import LocalChange, Parts, Replica
from tests.resilience.protocol.gate_model import (
    PARTITION,
    USER,
    Clocks,
    Connection,
    Lookup,
    VersionReplica,
)

START: Final = LogPosition(b"the first epoch.", 0, b"")


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
    """How often a replica loses the order of events; above 0, an append may fail, too."""
    pings: int = 1
    connects: int = 1
    wants: int = 0
    begin: tuple[tuple[str, int], ...] = ()
    """The actions with which each sequence begins."""


class World(Clocks):
    """One state. `actions` lists what can happen next, `act` makes it happen."""

    def __init__(self, bounds: Bounds, parts: type[Parts]) -> None:
        self.version = self.policy = 0
        self.invalidations = self.reloads = self.restarts = self.trims = self.isolations = 0
        self.pings = self.connects = self.wants = 0
        self.promised_groups = self.promised_policy = 0
        self.head = START
        self.order: list[Event] = []
        self.promises: list[Promise] = []
        self.replicas = [Replica(index, parts) for index in range(2)]
        for each in self.replicas:
            each.log.follow([], START, 0.0)
        self.gate = VersionReplica()
        self.session = parts.gate_session(self.gate, "gate")
        self.connection: Connection | None = None
        # The gate has the groups of the user, from the first replica.
        for action in ("connect", "receive", *("send",) * 3, *("take",) * 3, "receive"):
            self.act(action, 0, parts)
        for action in ("want", "receive", "look up", "send", "take"):
            self.act(action, 0, parts)
        assert self.gate.groups == 0
        self.connects = self.pings = self.wants = 0
        for action, index in bounds.begin:
            self.act(action, index, parts)

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
                "hear": each.log.position is not None and each.log.newest != self.head,
                "apply": self._next_event(each) is not None,
                "ship": each.must_reload,
                "restart": self.restarts < bounds.restarts and each.unappended is None,
                "trim": self.trims < bounds.trims and each.unappended is None,
                "lose": self.isolations < bounds.isolations and each.log.position is not None,
                "join": each.log.position is None and not each.is_unsent,
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

    def act(self, action: str, index: int, parts: type[Parts]) -> bool:
        """Make it happen; return False if nothing did. Raises Violation."""
        if action in _ON_REPLICA:
            _ON_REPLICA[action](self, self.replicas[index], parts)
        else:
            assert self.connection is not None
            replica = self.replicas[self.connection.server]
            if _ON_STREAM[action](self, self.connection, replica) is False:
                return False
        self._check()
        return True

    def _tick(self, _each: Replica, _parts: type[Parts]) -> None:
        self.ticks += 1

    def _invalidate(self, each: Replica, _parts: type[Parts]) -> None:
        """Move the user, and have the replica drop the groups."""
        self.invalidations += 1
        self.version += 1
        pending = each.fence.begin(PARTITION, (USER,))
        each.drop()
        sequence = each.events.forget(PARTITION, (USER,))
        each.unappended = LocalChange(
            pending, Change.forget(PARTITION, (USER,), is_awaited=True), sequence, self.version
        )

    def _reload(self, each: Replica, _parts: type[Parts]) -> None:
        self.reloads += 1
        self.policy += 1
        pending = each.fence.begin("", ())
        each.policies.version = self.policy
        sequence = each.events.policy_changed()
        each.unappended = LocalChange(
            pending, Change("reload", is_awaited=True), sequence, self.policy
        )

    def _append(self, each: Replica, _parts: type[Parts]) -> None:
        """Append the own change."""
        own = each.unappended
        assert own is not None
        if each.is_unsent:
            own.pending = each.fence.begin(PARTITION, (USER,))
        event = LogPosition(self.head.epoch, self.head.sequence + 1, b"%d" % len(self.order))
        self.order.append(Event(event, self.head.nonce, own.change))
        self.head = event
        each.unappended, each.is_unsent = None, False
        if each.log.position is not None:
            each.expected.add(event.nonce)
            each.log.note_known(event)
        each.fence.end(own.pending, event)
        promise = Promise(event, own.version)
        if each.log.position is not None:
            promise.barriers[each.index] = each.leases.barrier(own.sequence, self.now)
        self.promises.append(promise)

    def _may_append(self, each: Replica) -> bool:
        if each.log.position is None:
            return each.is_unsent  # before it follows again
        return each.log.newest == self.head

    def _fail(self, each: Replica, _parts: type[Parts]) -> None:
        """Have the append fail: the caller gets an error, and the change is sent later."""
        assert each.unappended is not None
        each.is_unsent = True
        each.fence.end(each.unappended.pending)

    def _next_event(self, each: Replica) -> Event | None:
        position = each.log.position
        if position is None or position.sequence == self.head.sequence:
            return None
        return self.order[position.sequence]

    def _hear(self, each: Replica, _parts: type[Parts]) -> None:
        """Have a heartbeat name the newest event."""
        each.log.note_known(self.head)

    def _apply(self, each: Replica, _parts: type[Parts]) -> None:
        event = self._next_event(each)
        assert event is not None
        is_own = event.position.nonce in each.expected
        sequence = None
        if not is_own and event.change.kind == "forget":
            each.drop()
            sequence = each.events.forget(PARTITION, event.change.users)
        assert each.log.apply(event)
        if sequence is not None:
            self._promise_of(event.position, each, sequence)
        elif not is_own:
            each.must_reload = True

    def _ship(self, each: Replica, _parts: type[Parts]) -> None:
        """Serve the policy of the file."""
        each.must_reload = False
        each.policies.version = self.policy
        sequence = each.events.policy_changed()
        self._confirm_all(each, sequence)

    def _confirm_all(self, each: Replica, sequence: int) -> None:
        """Confirm the events that were applied, once no gate here decides without them."""
        position = each.log.position
        for promise in self.promises:
            if position is not None and promise.event.sequence <= position.sequence:
                self._promise_of(promise.event, each, sequence)

    def _promise_of(self, event: LogPosition, each: Replica, sequence: int) -> None:
        for promise in self.promises:
            if promise.event == event and each.index not in promise.barriers:
                promise.barriers[each.index] = each.leases.barrier(sequence, self.now)

    def _lose(self, each: Replica, _parts: type[Parts]) -> None:
        self.isolations += 1
        each.lose()
        self._withdraw_confirmations(each)

    def _withdraw_confirmations(self, each: Replica) -> None:
        for promise in self.promises:
            promise.barriers.pop(each.index, None)

    def _join(self, each: Replica, parts: type[Parts]) -> None:
        missed = each.log.missed(self.order, self.head)
        has_reload = missed is None or any(event.change.kind == "reload" for event in missed)
        each.lose()
        each.log.follow(self.order, self.head, self.now)
        each.must_reload = has_reload or (each.must_reload and not parts.forgets_reloads)
        if not each.must_reload:
            self._confirm_all(each, each.events.head)

    def _restart(self, each: Replica, parts: type[Parts]) -> None:
        self.restarts += 1
        self._replace_process(each, parts, self.order)

    def _trim(self, each: Replica, parts: type[Parts]) -> None:
        self.trims += 1
        self._replace_process(each, parts, [])

    def _replace_process(self, each: Replica, parts: type[Parts], events: list[Event]) -> None:
        if self.connection is not None and self.connection.server == each.index:
            self.connection = None
        self._withdraw_confirmations(each)
        each.start(parts, self.now)
        each.log.follow(events, self.head, self.now)
        each.policies.version = self.policy
        self._confirm_all(each, each.events.policy_changed())

    def _connect(self, each: Replica, parts: type[Parts]) -> None:
        """Have the gate open a stream to this replica; the one before it is cut."""
        self.connects += 1
        if self.connection is not None:
            self.replicas[self.connection.server].leases.remove(self.connection.session, self.now)
        rights = SyncRights(local_decisions=True, assert_groups=True)
        session = parts.session(each.events, each.policies, rights, "", each.fence)
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
        if lookup.drops == each.drops and each.log.position is not None:
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
                kind = self.order[promise.event.sequence - 1].change.kind
                if kind == "forget":
                    self.promised_groups = max(self.promised_groups, promise.version)
                else:
                    self.promised_policy = max(self.promised_policy, promise.version)
        if self.gate_now < self.session.lease_until:
            self.gate.check(self.promised_policy, self.promised_groups)


_ON_REPLICA: Final[Mapping[str, Callable[[World, Replica, type[Parts]], None]]] = {
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
