"""Replicas and their Redis as a state that can be copied and compared.

The protocol is the real one: `ReplicaLog`, `OrderFence`, `FleetBarrier` and `ReplicaLease`. Only
what lies around it is modelled: heartbeats that Redis takes and answers late, lookups that take
long, clocks, a Redis that is emptied, trimmed, loses an event or is restored to its state before it
was emptied, and replicas that pause at any point. The groups of the one user are a version number;
a second change is about another user.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from queuegate_server.fleet.barrier import HEARTBEAT_TIMEOUT, FleetBarrier, Peers
from queuegate_server.fleet.events import Change, Event, ReplicaStatus
from queuegate_server.fleet.fence import OrderFence
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.lease import ReplicaLease
from queuegate_server.fleet.replica_log import LEASE, ReplicaLog
from tests.resilience.protocol.gate_model import Violation

PARTITION: Final = "default"
USER: Final = "u"
TICK: Final = LEASE / 2
CLOCK_RATE: Final = 0.96
"""The clocks of replicas but the first are slow, as far as the margin allows."""
NEVER: Final = -1.0
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


@dataclass
class Heartbeat:
    """A heartbeat on its way."""

    status: ReplicaStatus
    known: LogPosition | None
    sent_at: float
    answer: "tuple[LogPosition | None, list[ReplicaStatus]] | None" = None


@dataclass
class Promise:
    """A change whose caller waits for the barrier."""

    barrier: FleetBarrier
    event: LogPosition
    version: int
    ended_at: float | None = None
    """When leases had ended, if not all replicas confirmed."""


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

    def begin(self) -> None:
        """Begin another history."""
        self.epoch += 1
        self.head = LogPosition(b"%016d" % self.epoch, 0, b"")
        self.events = []


def _is_never_behind() -> bool:
    return False


def _forgets(event: Event) -> bool:
    return USER in event.change.users


class Replica:
    """A replica."""

    def __init__(self, name: str, parts: "type[Parts]") -> None:
        self.name = name
        self.log = parts.log()
        self.fence = OrderFence(self.log, _is_never_behind)
        self.peers = Peers(name, name)
        self.lease = ReplicaLease()
        self.lease.on_end(self.lost)
        self.groups: Groups | None = None
        self.lookup: Lookup | None = None
        self.heartbeat: Heartbeat | None = None
        self.promise: Promise | None = None
        self.confirmed: dict[str, list[str]] = {}
        self.confirmed_through: tuple[int, str] | None = None
        self.late: Event | None = None
        self.statuses = 0
        self.heartbeats = 0
        self.lookups = 0
        self.reads = 0

    def lost(self) -> None:
        self.log.lose()
        self.lookup = None
        self.confirmed = {}
        self.confirmed_through = None

    def forget(self) -> None:
        self.groups = None
        self.lookup = None

    def status(self, now: float) -> ReplicaStatus:
        self.statuses += 1
        position = self.log.position
        age = 0.0 if position is None else now - self.peers.began_by(position.epoch, now)
        return ReplicaStatus(
            self.name,
            self.name,
            self.statuses,
            epoch="" if position is None else position.epoch.hex(),
            epoch_age=age,
            sequence=0 if position is None else position.sequence,
            confirmed=dict(self.confirmed),
            confirmed_through=self.confirmed_through,
        )


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


class Parts:
    """The classes that a search runs, and what a planted fault changes."""

    log: type[ReplicaLog] = ReplicaLog
    lease_from_answer = False
    confirms_first = False


class World:
    """One state. `actions` lists what can happen next, `act` makes it happen."""

    def __init__(self, bounds: Bounds, parts: type[Parts]) -> None:
        self.ticks = 0
        self.version = 0
        self.promised = 0
        self.changes = self.flushes = self.trims = self.rewinds = self.restores = 0
        self.nonces = 0
        self.redis = Redis()
        self.redis.begin()
        self.replicas = [Replica("abc"[index], parts) for index in range(bounds.replicas)]
        epoch = b"%016d" % self.redis.epoch
        left = ReplicaStatus("left", "left", 1, epoch=epoch.hex(), epoch_age=OLD, has_left=True)
        for each in self.replicas:
            each.peers.merge([left], self.now(0), epoch=epoch)
        for _ in range(2):  # all have seen each other
            for index in range(bounds.replicas):
                for action in ("send", "take", "answer"):
                    self.act(action, index, parts)
        for each in self.replicas:
            each.heartbeats = 0
            each.groups = Groups(0, each.lease.generation, asked_alone=False)
        for action, index in bounds.begin:
            self.act(action, index, parts)

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
            if each.late is not None or self._next_event(each) is not None:
                yield "event", index
            yield from ((action, index) for action in self._calls(each, bounds))

    def _calls(self, each: Replica, bounds: Bounds) -> Iterator[str]:
        if each.heartbeat is not None:
            yield "take" if each.heartbeat.answer is None else "answer"
        elif each.heartbeats < bounds.heartbeats:
            yield "send"
        if each.lookup is not None:
            yield "lookup ends"
        elif each.lookups < bounds.lookups:
            yield "look up"
        if each.reads < bounds.reads and self.redis.value is not None:
            yield "read shared"

    def act(self, action: str, index: int, parts: type[Parts]) -> bool:
        if action in _ON_REDIS:
            _ON_REDIS[action](self)
        else:
            _ON_REPLICA[action](self, self.replicas[index], self.now(index), parts)
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

    def _send(self, each: Replica, now: float, _parts: type[Parts]) -> None:
        each.heartbeats += 1
        each.heartbeat = Heartbeat(each.status(now), each.log.newest, now)

    def _take(self, each: Replica, _now: float, _parts: type[Parts]) -> None:
        assert each.heartbeat is not None
        self.redis.statuses[each.name] = each.heartbeat.status
        each.heartbeat.answer = self.redis.head, [*self.redis.statuses.values()]

    def _look_up(self, each: Replica, _now: float, _parts: type[Parts]) -> None:
        each.lookups += 1
        each.lookup = Lookup(self.version, each.lease.generation, each.log.position)

    def _lookup_ends(self, each: Replica, _now: float, _parts: type[Parts]) -> None:
        lookup, each.lookup = each.lookup, None
        assert lookup is not None
        is_alone = lookup.position is None
        each.groups = Groups(lookup.version, each.lease.generation, asked_alone=is_alone)
        if lookup.position is not None:
            self.redis.value = lookup.position, lookup.version

    def _change(self, each: Replica, now: float, _parts: type[Parts]) -> None:
        """Move a user, and have a replica invalidate it."""
        self.changes += 1
        is_first = self.changes == 1
        user = USER if is_first else "another"
        pending = each.fence.begin(PARTITION, (user,))
        if is_first:
            self.version += 1
            each.forget()
        head = each.log.newest
        if head is None or head != self.redis.head:
            return  # the call fails
        self.nonces += 1
        position = LogPosition(head.epoch, head.sequence + 1, b"%d" % self.nonces)
        each.fence.end(pending, position)
        change = Change.forget(PARTITION, (user,), is_awaited=True)
        self.redis.events.append(Event(position, head.nonce, change))
        self.redis.head = position
        each.log.note_known(position)
        each.peers.merge(self.redis.statuses.values(), now, epoch=position.epoch)
        if is_first:
            barrier = FleetBarrier(
                *(each.peers, position, now),
                has_event=each.log.has_event,
                leases_timeout=HEARTBEAT_TIMEOUT,
                isolation_timeout=0.0,
            )
            each.promise = Promise(barrier, position, self.version)

    def _answer(self, each: Replica, now: float, parts: type[Parts]) -> None:
        heartbeat, each.heartbeat = each.heartbeat, None
        assert heartbeat is not None
        assert heartbeat.answer is not None
        head, statuses = heartbeat.answer
        each.peers.merge(statuses, now, epoch=b"" if head is None else head.epoch)
        sent_at = now if parts.lease_from_answer else heartbeat.sent_at
        position = each.log.position
        if position is None or heartbeat.known is None:
            if head is None:
                if self.redis.head is None:
                    self.redis.begin()
            elif position is None:
                self._join(each, head, sent_at)
        elif head is not None and each.log.heartbeat_answered(head, heartbeat.known, sent_at):
            each.lease.ends_at = each.log.lease_until
            self._certify(each, heartbeat)
        else:
            if self.redis.head is None or self.redis.head.epoch == heartbeat.known.epoch:
                self.redis.begin()
            each.lease.end()
        each.lease.end_if_expired(now)

    def _join(self, each: Replica, head: LogPosition, sent_at: float) -> None:
        events = [item for item in self.redis.events if item.position[1] <= head.sequence]
        if each.log.has_lost_events(events, head):
            self.redis.begin()
            return
        missed = each.log.missed(events, head)
        if missed is None or any(map(_forgets, missed)):
            each.forget()
        each.lease.end()
        each.log.follow(events, head, sent_at)
        each.lease.ends_at = each.log.lease_until
        each.confirmed_through = head.sequence, head.nonce.hex()

    def _next_event(self, each: Replica) -> Event | None:
        position, head = each.log.position, self.redis.head
        if position is None or head is None:
            return None
        newer = (item for item in self.redis.events if item.position[1] > position.sequence)
        return next(newer, None)

    def _receive(self, each: Replica, _now: float, parts: type[Parts]) -> None:
        late, each.late = each.late, None
        event = self._next_event(each) if late is None else late
        assert event is not None
        if not each.log.fits(event):
            if each.log.shows_loss(event):
                self.redis.begin()
            if each.log.position is not None:
                each.lease.end()
            return
        if parts.confirms_first and late is None:
            each.confirmed[event.position.nonce.hex()] = []
            each.late = event
            return
        if _forgets(event):
            each.forget()
        if each.log.apply(event):
            each.lease.ends_at = each.log.lease_until
            each.confirmed[event.position.nonce.hex()] = []

    def _read(self, each: Replica, now: float, _parts: type[Parts]) -> None:
        """Use the groups that another replica has shared, if they still hold."""
        each.reads += 1
        each.lease.end_if_expired(now)
        if each.log.position is None or self.redis.value is None:
            return
        position, version = self.redis.value
        if each.fence.accepts(PARTITION, USER, position):
            each.groups = Groups(version, each.lease.generation, asked_alone=False)

    def _certify(self, each: Replica, heartbeat: Heartbeat) -> None:
        """Let a barrier return whose leases have ended: Redis still has the event."""
        promise, newest = each.promise, each.log.newest
        if promise is None or promise.ended_at is None or newest is None:
            return
        has_event = newest.epoch == promise.event.epoch
        if has_event and heartbeat.sent_at >= promise.ended_at:
            self.promised = max(self.promised, promise.version)

    def _check(self) -> None:
        """Let barriers return, and compare each cache that answers with what they promised."""
        for index, each in enumerate(self.replicas):
            promise = each.promise
            if promise is None or promise.ended_at is not None:
                continue
            if promise.barrier.next_end(self.now(index)) is None:
                if promise.barrier.relies_on_leases:
                    promise.ended_at = self.now(index)
                else:
                    self.promised = max(self.promised, promise.version)
                    promise.ended_at = NEVER
        for index, each in enumerate(self.replicas):
            groups, lease = each.groups, each.lease
            if groups is None or self.now(index) >= lease.ends_at:
                continue
            if each.log.position is None and (
                groups.asked_alone or groups.generation != lease.generation
            ):
                continue  # they are asked for again, or were a moment ago
            # One that follows the fleet uses groups of an earlier lease if the directory fails.
            if groups.version < self.promised:
                raise Violation(f"replica {each.name} answers from old groups")


_ON_REDIS: Final[Mapping[str, Callable[[World], None]]] = {
    "tick": World._tick,
    "flush": World._flush,
    "trim": World._trim,
    "rewind": World._rewind,
    "restore": World._restore,
}
_ON_REPLICA: Final[Mapping[str, Callable[[World, Replica, float, type[Parts]], None]]] = {
    "change": World._change,
    "send": World._send,
    "take": World._take,
    "answer": World._answer,
    "event": World._receive,
    "look up": World._look_up,
    "lookup ends": World._lookup_ends,
    "read shared": World._read,
}
