"""A replica as the model of moving gates sees it: its logs, its fence, its leases and its cache."""

from dataclasses import dataclass

from queuegate.gate.session import GateSession
from queuegate_server.fleet.events import Change
from queuegate_server.fleet.fence import OrderFence, PendingInvalidation
from queuegate_server.fleet.replica_log import ReplicaLog
from queuegate_server.sync.barrier import Leases
from queuegate_server.sync.event_log import EventLog
from queuegate_server.sync.session import LEASE, Session
from tests.resilience.protocol.gate_model import PARTITION, VersionPolicies


@dataclass(eq=False)
class LocalChange:
    """A change that has taken effect at the replica that was asked for it."""

    pending: PendingInvalidation
    change: Change
    sequence: int
    version: int


class Parts:
    """The classes that a search runs; planted faults replace some."""

    gate_session: type[GateSession] = GateSession
    session: type[Session] = Session
    log: type[ReplicaLog] = ReplicaLog
    fence: type[OrderFence] = OrderFence
    forgets_reloads = False
    """Whether a replica that joins forgets a reload that is not finished."""


class Replica:
    """A replica that can be started again."""

    def __init__(self, index: int, parts: type[Parts]) -> None:
        self.index = index
        self.starts = 0
        self.policies = VersionPolicies(0)
        self.start(parts, -2 * LEASE)

    def start(self, parts: type[Parts], now: float) -> None:
        self.starts += 1
        self.events = EventLog(b"replica no. %02d%02d" % (self.index, self.starts))
        self.leases = Leases(now)
        self.log = parts.log()
        self.fence = parts.fence(self.log, self.is_behind)
        self.cached: int | None = None
        self.drops = 0
        self.unappended: LocalChange | None = None
        self.is_unsent = False
        """Whether that could not be appended, and will be later."""
        self.expected: set[bytes] = set()
        self.must_reload = False

    def is_behind(self) -> bool:
        return self.is_unsent

    def drop(self) -> None:
        self.cached = None
        self.drops += 1

    def lose(self) -> None:
        self.log.lose()
        self.drop()
        self.expected.clear()
        self.events.forget(PARTITION)
