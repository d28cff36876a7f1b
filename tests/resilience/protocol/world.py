"""A server, its gates and the network between them, as a state that can be copied and compared.

The protocol is the real one: `queuegate.gate.session` and `queuegate_server.sync`. Only what lies
around it is modelled: connections that deliver in order but at any time, or break; processes that
pause at any point; clocks; a server that is killed and starts again, or that drains and is followed
by one that knows nothing of its leases. A policy or the groups of the one user are a version
number.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from queuegate.gate.session import GateSession
from queuegate_server.sync.barrier import Barrier, Leases
from queuegate_server.sync.change_log import GateLog
from queuegate_server.sync.session import Session, SyncRights
from tests.resilience.protocol.gate_model import (
    PARTITION,
    TICK,
    USER,
    Clocks,
    Connection,
    Lookup,
    VersionPolicies,
    VersionReplica,
)

LONG_AGO = -10
"""When the first server started, in ticks."""


@dataclass(eq=False)
class Gate:
    """A gate and its stream."""

    session: GateSession
    replica: VersionReplica
    connection: Connection | None = None
    server: int = 0
    """Whose state it has."""
    pings: int = 0
    connects: int = 0
    wants: int = 0


@dataclass(eq=False)
class Promise:
    """A change whose caller waits for the barrier."""

    barrier: Barrier
    policy: int
    groups: int


@dataclass(frozen=True)
class Bounds:
    """How often each thing may happen."""

    gates: int = 2
    policy_changes: int = 1
    invalidations: int = 1
    ticks: int = 4
    restarts: int = 1
    fail_overs: int = 0
    drains: int = 0
    pings: int = 2
    connects: int = 1
    wants: int = 1


class Parts:
    """The classes that a search runs; planted faults replace some."""

    gate_session: type[GateSession] = GateSession
    session: type[Session] = Session
    log: type[GateLog] = GateLog
    leases: type[Leases] = Leases


class World(Clocks):
    """One state. `actions` lists what can happen next, `act` makes it happen."""

    def __init__(self, bounds: Bounds, parts: type[Parts]) -> None:
        self.ticks = 0
        self.policy = 0
        self.groups = 0
        self.restarts = 0
        self.drains = 0
        self.is_draining = False
        self.server = 0
        self.promised_policy = 0
        self.promised_groups = 0
        self.promises: list[Promise] = []
        self.gates = []
        for index in range(bounds.gates):
            replica = VersionReplica()
            self.gates.append(Gate(parts.gate_session(replica, f"gate {index}"), replica))
        self.ticks = LONG_AGO
        self._start(parts, self.now)
        self._connect_all(parts)
        self.ticks = 0

    def _connect_all(self, parts: type[Parts]) -> None:
        """Have all gates hold the policy, without a lease."""
        for index, gate in enumerate(self.gates):
            self.act("connect", index, parts)
            gate.connects = 0
            self.act("server receives", index, parts)
            while self.act("server sends", index, parts):
                self.act("gate receives", index, parts)
            self.act("server receives", index, parts)

    def _start(self, parts: type[Parts], now: float) -> None:
        self.log = parts.log(b"process no. %02d%02d" % (self.server, self.restarts))
        self.leases = parts.leases(now)
        self.policies = VersionPolicies(self.policy)

    def actions(self, bounds: Bounds) -> Iterator[tuple[str, int]]:
        """Return what can happen next."""
        happened = {
            "reload": self.policy < bounds.policy_changes,
            "invalidate": self.groups < bounds.invalidations,
            "tick": self.ticks < bounds.ticks,
            "restart": self.restarts < bounds.restarts,
            "fail over": self.server < bounds.fail_overs,
            "drain": self.drains < bounds.drains,
            "stop": self.is_draining and self._may_stop(),
        }
        yield from ((action, 0) for action, may in happened.items() if may)
        for index, gate in enumerate(self.gates):
            may_connect = gate.connects < bounds.connects and not self.is_draining
            connection = gate.connection
            if connection is None:
                if may_connect:
                    yield "connect", index
                continue
            on_stream = {
                "cut": may_connect,
                "ping": gate.pings < bounds.pings,
                "want": gate.wants < bounds.wants,
                "server receives": connection.up,
                "gate receives": connection.down,
                "lookup ends": connection.lookups,
                "server sends": True,
                "stream ends": self.is_draining and connection.session.lease_until <= self.now,
            }
            yield from ((action, index) for action, may in on_stream.items() if may)

    def act(self, action: str, index: int, parts: type[Parts]) -> bool:
        """Make it happen; return False if nothing did. Raises Violation."""
        gate = self.gates[index]
        if action in _ON_SERVER:
            _ON_SERVER[action](self, gate, parts)
        else:
            assert gate.connection is not None
            if _ON_STREAM[action](self, gate, gate.connection) is False:
                return False
        self._check()
        return True

    def _reload(self, _gate: Gate, _parts: type[Parts]) -> None:
        self.policy += 1
        self.policies.version = self.policy
        self._promise(self.log.policy_changed())

    def _invalidate(self, _gate: Gate, _parts: type[Parts]) -> None:
        self.groups += 1
        self._promise(self.log.invalidate(PARTITION, (USER,)))

    def _tick(self, _gate: Gate, _parts: type[Parts]) -> None:
        self.ticks += 1

    def _restart(self, _gate: Gate, parts: type[Parts]) -> None:
        self.restarts += 1
        self._lose_connections()
        self._start(parts, self.now)

    def _fail_over(self, _gate: Gate, parts: type[Parts]) -> None:
        """Have the gates connect to another server, which makes promises of its own."""
        self.server += 1
        self._lose_connections()
        self.promised_policy = self.promised_groups = 0
        self._start(parts, self.now + LONG_AGO * TICK)

    def _drain(self, _gate: Gate, _parts: type[Parts]) -> None:
        """Have the server take its leases back."""
        self.drains += 1
        self.is_draining = True
        for each in self.gates:
            if each.connection is not None:
                each.connection.session.drain()

    def _may_stop(self) -> bool:
        """Return whether all streams and leases of the server that drains have ended."""
        has_streams = any(each.connection is not None for each in self.gates)
        return not has_streams and self.leases.last_end(self.now) is None

    def _stop(self, _gate: Gate, parts: type[Parts]) -> None:
        """Replace the server by one that waits for no lease of the server before it."""
        self.is_draining = False
        self.restarts += 1
        self.promises.clear()
        self._start(parts, self.now + LONG_AGO * TICK)

    def _lose_connections(self) -> None:
        for each in self.gates:
            each.connection = None
        self.promises.clear()

    def _connect(self, gate: Gate, parts: type[Parts]) -> None:
        gate.connects += 1
        rights = SyncRights(local_decisions=True, assert_groups=True)
        session = parts.session(self.log, self.policies, rights)
        self.leases.add(session)
        gate.connection = Connection(session, self.server)
        gate.connection.up.append(gate.session.open())

    def _cut(self, gate: Gate, connection: Connection) -> None:
        self.leases.remove(connection.session, self.now)
        gate.connection = None

    def _ping(self, gate: Gate, connection: Connection) -> None:
        gate.pings += 1
        connection.up.append(gate.session.ping(self.gate_now))

    def _want(self, gate: Gate, connection: Connection) -> None:
        gate.wants += 1
        connection.up.append(gate.session.want(PARTITION, (USER,), self.gate_now))

    def _server_receives(self, _gate: Gate, connection: Connection) -> None:
        if connection.session.receive(connection.up.popleft(), self.now) is not None:
            connection.lookups.append(Lookup(self.groups, self.log.head))

    def _look_up_ends(self, _gate: Gate, connection: Connection) -> None:
        connection.offer(connection.lookups.pop(0))

    def _server_sends(self, _gate: Gate, connection: Connection) -> bool:
        return connection.server_sends()

    def _gate_receives(self, gate: Gate, connection: Connection) -> None:
        response = connection.down.popleft()
        if response.HasField("opened"):
            gate.server = connection.server
        try:
            answer = gate.session.receive(response, self.gate_now)
        except ValueError:  # the message breaks the protocol
            gate.session.drop_everything()
            self._cut(gate, connection)
            return
        if answer is not None:
            connection.up.append(answer)

    def _promise(self, sequence: int) -> None:
        barrier = self.leases.barrier(sequence, self.now)
        self.promises.append(Promise(barrier, self.policy, self.groups))

    def _check(self) -> None:
        """Let barriers return, and compare each gate that decides with what they promised."""
        for promise in [*self.promises]:
            if promise.barrier.next_end(self.now) is None:
                self.promises.remove(promise)
                self.promised_policy = max(self.promised_policy, promise.policy)
                self.promised_groups = max(self.promised_groups, promise.groups)
        for gate in self.gates:
            if self.gate_now < gate.session.lease_until and gate.server == self.server:
                gate.replica.check(self.promised_policy, self.promised_groups)


_ON_SERVER: Final[Mapping[str, Callable[[World, Gate, type[Parts]], None]]] = {
    "reload": World._reload,
    "invalidate": World._invalidate,
    "tick": World._tick,
    "restart": World._restart,
    "fail over": World._fail_over,
    "drain": World._drain,
    "stop": World._stop,
    "connect": World._connect,
}
_ON_STREAM: Final[Mapping[str, Callable[[World, Gate, Connection], bool | None]]] = {
    "cut": World._cut,
    "stream ends": World._cut,
    "ping": World._ping,
    "want": World._want,
    "server receives": World._server_receives,
    "server sends": World._server_sends,
    "gate receives": World._gate_receives,
    "lookup ends": World._look_up_ends,
}
