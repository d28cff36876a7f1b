"""Replicas and their Redis as a state that can be copied and compared.

A replica is the real `FleetSession`. Only what lies around it is modelled: heartbeats that Redis
takes and answers late, lookups that take long, clocks, a Redis that is emptied, trimmed, loses an
event or is restored to its state before it was emptied, and replicas that pause at any point. The
groups of the one user are a version number; a second change is about another user.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from queuegate_server.fleet.barrier import HEARTBEAT_TIMEOUT, FleetBarrier
from queuegate_server.fleet.events import Change, Event, LogState, ReplicaStatus
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.replica_log import LEASE
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.steps import (
    Append,
    Heartbeat,
    Loss,
    NewestEvents,
    NewHistory,
    OwnState,
    Receipt,
    UnsentChanges,
)
from queuegate_server.sync.barrier import Unconfirmed
from tests.resilience.protocol.gate_model import Violation

PARTITION: Final = "default"
USER: Final = "u"
TICK: Final = LEASE / 2
CLOCK_RATE: Final = 0.96
"""The clocks of replicas but the first are slow, as far as the margin allows."""
OLD: Final = 1_000.0
"""Seconds for which the first history has existed."""


class Groups(NamedTuple):
    """The groups of the user in a cache."""

    version: int
    generation: int
    asked_alone: bool


class Lookup(NamedTuple):
    """A question to the directory, which answers late."""

    version: int
    generation: int
    position: LogPosition | None
    asked_alone: bool


@dataclass
class Promise:
    """A change whose caller waits for the barrier."""

    barrier: FleetBarrier
    version: int


@dataclass
class Redis:
    """What Redis has."""

    epoch: int = 1
    head: LogPosition | None = None
    events: list[Event] = field(default_factory=list)
    statuses: dict[str, ReplicaStatus] = field(default_factory=dict)
    value: tuple[LogPosition, int] | None = None
    backup: "Redis | None" = None
    """Its state before it was emptied."""

    def begin(self, before: bytes) -> bytes:
        """Begin another history in the place of one."""
        epoch = b"%016d" % (self.epoch + 1)
        if before == self.state().epoch:
            self.epoch += 1
            self.head = LogPosition(epoch, 0, b"")
            self.events = []
        return epoch

    def append(self, request: Append) -> LogState:
        """Append an event, if it fits."""
        if request.head != self.head:
            return self.state()
        position = request.head._replace(sequence=request.head.sequence + 1, nonce=request.nonce)
        self.events.append(Event(position, request.head.nonce, request.change))
        self.head = position
        return self.state()._replace(has_appended=True)

    def state(self) -> LogState:
        """Return what it answers."""
        epoch = b"" if self.head is None else self.head.epoch
        return LogState(epoch, self.head, [*self.statuses.values()])


class Nonces:
    """Counts events."""

    def __init__(self) -> None:
        self.count = 0

    def new(self) -> bytes:
        self.count += 1
        return b"%d" % self.count


def _invalidates(event: Event) -> bool:
    return not event.change.is_reload and USER in (event.change.users or {USER})


class Replica:
    """A replica, and the cache that its session governs."""

    def __init__(self, name: str, nonces: Nonces) -> None:
        self.name = name
        self.session = FleetSession(name, name, 0.0, new_nonce=nonces.new)
        self.session.lease.on_end(self.lost)
        self.groups: Groups | None = None
        self.lookup: Lookup | None = None
        self.heartbeat: Heartbeat | None = None
        self.answer: LogState | None = None
        self.receipt: Receipt | None = None
        """An event that it is about to carry out."""
        self.promise: Promise | None = None
        self.heartbeats = 0
        self.lookups = 0
        self.reads = 0

    def lost(self) -> None:
        self.lookup = None

    def invalidate(self) -> None:
        self.groups = None
        self.lookup = None


@dataclass(frozen=True)
class Bounds:
    """How often each thing may happen; what counts for each replica is marked so."""

    replicas: int = 2
    ticks: int = 4
    changes: int = 1
    heartbeats: int = 2
    """Of each."""
    lookups: int = 1
    """Of each."""
    reads: int = 1
    """Of shared groups, of each."""
    flushes: int = 0
    trims: int = 0
    rewinds: int = 0
    restores: int = 0
    begin: tuple[tuple[str, int], ...] = ()
    """The actions with which each sequence begins."""


class World:
    """One state. `actions` lists what can happen next, `act` makes it happen."""

    def __init__(self, bounds: Bounds, _parts: object = None) -> None:
        self.ticks = 0
        self.version = 0
        self.promised = 0
        self.changes = self.flushes = self.trims = self.rewinds = self.restores = 0
        self.nonces = Nonces()
        self.redis = Redis()
        epoch = self.redis.begin(b"")
        self.replicas = [Replica("abc"[index], self.nonces) for index in range(bounds.replicas)]
        left = ReplicaStatus("left", "left", 1, epoch=epoch.hex(), epoch_age=OLD, has_left=True)
        for each in self.replicas:
            each.session.begun = epoch
            each.session.merge(LogState(epoch, self.redis.head, [left]), self.now(0))
        for _ in range(2):  # all have seen each other
            for index in range(bounds.replicas):
                for action in ("send", "take", "answer"):
                    self.act(action, index)
        for each in self.replicas:
            each.heartbeats = 0
            each.groups = Groups(0, each.session.lease.generation, asked_alone=False)
        for action, index in bounds.begin:
            self.act(action, index)

    def now(self, index: int) -> float:
        return 100.0 + self.ticks * TICK * (CLOCK_RATE if index else 1.0)

    def actions(self, bounds: Bounds) -> Iterator[tuple[str, int]]:
        if self.ticks < bounds.ticks:
            yield "tick", 0
        if self.flushes < bounds.flushes:
            yield "flush", 0
        if self.trims < bounds.trims and self.redis.events:
            yield "trim", 0
        if self.rewinds < bounds.rewinds and self.redis.events:
            yield "rewind", 0
        if self.restores < bounds.restores and self.redis.backup is not None:
            yield "restore", 0
        if self.changes < bounds.changes:
            yield "change", 0
        for index, each in enumerate(self.replicas):
            yield from ((action, index) for action in self._calls(each, bounds))

    def _calls(self, each: Replica, bounds: Bounds) -> Iterator[str]:
        if each.receipt is not None:
            yield "carry out"
        elif self._next_event(each) is not None:
            yield "event"
        if each.heartbeat is not None:
            yield "take" if each.answer is None else "answer"
        elif each.heartbeats < bounds.heartbeats:
            yield "send"
        if each.lookup is not None:
            yield "lookup ends"
        elif each.lookups < bounds.lookups:
            yield "look up"
        if each.reads < bounds.reads and self.redis.value is not None:
            yield "read shared"

    def act(self, action: str, index: int, _parts: object = None) -> bool:
        if action in _ON_REDIS:
            _ON_REDIS[action](self)
        else:
            _ON_REPLICA[action](self, self.replicas[index], self.now(index))
        self._check()
        return True

    def _tick(self) -> None:
        self.ticks += 1

    def _flush(self) -> None:
        self.flushes += 1
        self.redis.backup = replace(
            self.redis, events=[*self.redis.events], statuses={**self.redis.statuses}
        )
        self.redis.head, self.redis.statuses = None, {}
        self.redis.events, self.redis.value = [], None

    def _trim(self) -> None:
        self.trims += 1
        self.redis.events = []

    def _rewind(self) -> None:
        """Have Redis lose the newest event, as in a fail-over."""
        self.rewinds += 1
        lost = self.redis.events.pop()
        self.redis.head = LogPosition(
            lost.position.epoch, lost.position.sequence - 1, lost.previous
        )

    def _restore(self) -> None:
        self.restores += 1
        backup = self.redis.backup
        assert backup is not None
        self.redis = replace(backup, epoch=self.redis.epoch)

    def _send(self, each: Replica, now: float) -> None:
        each.heartbeats += 1
        each.heartbeat = each.session.heartbeat(now, OwnState())

    def _take(self, each: Replica, _now: float) -> None:
        assert each.heartbeat is not None
        self.redis.statuses[each.name] = each.heartbeat.status
        each.answer = self.redis.state()

    def _answer(self, each: Replica, now: float) -> None:
        heartbeat, answer, session = each.heartbeat, each.answer, each.session
        assert heartbeat is not None
        assert answer is not None
        each.heartbeat = each.answer = None
        session.merge(answer, now)
        match session.handle_heartbeat(heartbeat, answer, now):
            case NewHistory(before):
                session.begun = self.redis.begin(before)
            case Loss() as stop:
                self._stop(stop)
            case UnsentChanges(head):
                change, nonce = session.pop_unsent()
                pending = session.fence.begin(change.partition, change.users)
                event = self._append(each, change, nonce, now, head)
                if event is None:
                    session.keep_unsent(change, nonce)
                session.fence.end(pending, event)
            case NewestEvents() as request:
                self._join(each, request)
        session.lease.end_if_expired(now)

    def _join(self, each: Replica, request: NewestEvents) -> None:
        head = request.head
        of_history = (item for item in self.redis.events if item.position.epoch == head.epoch)
        join = each.session.read(
            request, [item for item in of_history if item.position.sequence <= head.sequence]
        )
        if isinstance(join, NewHistory):
            each.session.begun = self.redis.begin(join.before)
        elif join is not None:
            if join.missed is None or any(map(_invalidates, join.missed)):
                each.invalidate()
            each.session.join(join)
            each.session.confirm_through(head)

    def _look_up(self, each: Replica, _now: float) -> None:
        each.lookups += 1
        session = each.session
        each.lookup = Lookup(
            *(self.version, session.lease.generation, session.fence.position),
            asked_alone=session.log.position is None,
        )

    def _lookup_ends(self, each: Replica, _now: float) -> None:
        lookup, each.lookup = each.lookup, None
        assert lookup is not None
        each.groups = Groups(
            lookup.version, each.session.lease.generation, asked_alone=lookup.asked_alone
        )
        if lookup.position is not None:
            self.redis.value = lookup.position, lookup.version

    def _change(self, each: Replica, now: float) -> None:
        """Move a user, and have a replica invalidate it."""
        self.changes += 1
        is_first = self.changes == 1
        user = USER if is_first else "another"
        pending = each.session.fence.begin(PARTITION, (user,))
        if is_first:
            self.version += 1
            each.invalidate()
        change = Change.invalidate(PARTITION, (user,), is_awaited=True)
        event = self._append(each, change, self.nonces.new(), now)
        each.session.fence.end(pending, event)
        if event is None:
            each.session.send_later(change)  # the call fails
        elif is_first:
            barrier = each.session.barrier(
                event, now, leases_timeout=HEARTBEAT_TIMEOUT, isolation_timeout=0.0
            )
            each.promise = Promise(barrier, self.version)

    def _append(
        self,
        each: Replica,
        change: Change,
        nonce: bytes,
        now: float,
        head: LogPosition | None = None,
    ) -> LogPosition | None:
        request: Append | LogPosition | None = each.session.append(change, nonce, head)
        while isinstance(request, Append):
            answer = self.redis.append(request)
            each.session.merge(answer, now)
            request = each.session.handle_append(request, answer)
        if request is None:
            each.session.not_appended(nonce)
        return request

    def _next_event(self, each: Replica) -> Event | None:
        position, head = each.session.log.position, self.redis.head
        if position is None or head is None:
            return None
        newer = (item for item in self.redis.events if item.position.sequence > position.sequence)
        return next(newer, None)

    def _receive(self, each: Replica, _now: float) -> None:
        event = self._next_event(each)
        assert event is not None
        step = each.session.receive(event)
        if isinstance(step, Loss):
            self._stop(step)
        else:
            each.receipt = step

    def _carry_out(self, each: Replica, now: float) -> None:
        receipt, each.receipt = each.receipt, None
        assert receipt is not None
        if receipt.must_invalidate and _invalidates(receipt.event):
            each.invalidate()
        if each.session.apply(receipt) and receipt.must_confirm:
            each.session.confirmations.add(receipt.event.position.nonce, Unconfirmed(), now)

    def _stop(self, stop: Loss) -> None:
        if stop.begin is not None:
            self.redis.begin(stop.begin)

    def _read(self, each: Replica, now: float) -> None:
        """Use the groups that another replica has shared, if they still hold."""
        each.reads += 1
        each.session.lease.end_if_expired(now)
        if each.session.fence.position is None or self.redis.value is None:
            return
        position, version = self.redis.value
        if each.session.fence.accepts(PARTITION, USER, position):
            each.groups = Groups(version, each.session.lease.generation, asked_alone=False)

    def _check(self) -> None:
        """Let barriers return, and compare each cache that answers with what they promised."""
        for index, each in enumerate(self.replicas):
            promise = each.promise
            if promise and each.session.has_reached_all(promise.barrier, self.now(index)):
                self.promised = max(self.promised, promise.version)
                each.promise = None
        for index, each in enumerate(self.replicas):
            groups, lease = each.groups, each.session.lease
            if groups is None or self.now(index) >= lease.ends_at:
                continue
            if each.session.log.position is None and (
                groups.asked_alone or groups.generation != lease.generation
            ):
                continue  # they are asked for again, or were a moment ago
            # A following replica uses groups of an earlier lease if the directory fails.
            if groups.version < self.promised:
                raise Violation(f"replica {each.name} answers from old groups")


_ON_REDIS: Final[Mapping[str, Callable[[World], None]]] = {
    "tick": World._tick,
    "flush": World._flush,
    "trim": World._trim,
    "rewind": World._rewind,
    "restore": World._restore,
}
_ON_REPLICA: Final[Mapping[str, Callable[[World, Replica, float], None]]] = {
    "change": World._change,
    "send": World._send,
    "take": World._take,
    "answer": World._answer,
    "event": World._receive,
    "carry out": World._carry_out,
    "look up": World._look_up,
    "lookup ends": World._lookup_ends,
    "read shared": World._read,
}
