"""A replica's view of the fleet, and the configuration mistakes that it can detect.

Shared groups expire by the clock of the replica that looked them up, so clocks must not differ too
much. Each replica compares its clock with Redis's clock. Because replies take time, the result is
only a lower and an upper bound on how far the replica's clock is ahead.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Final

from queuegate_server.fleet.barrier import HEARTBEAT_TIMEOUT, Peer, Peers
from queuegate_server.fleet.events import Clock, ReplicaStatus
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.shared_groups import CLOCK_SKEW
from queuegate_server.fleet.view import FleetView, ReplicaState, ReplicaView

_LOG = logging.getLogger("queuegate_server.fleet")
FOREIGN_STATUS_SECONDS: Final = 60.0
"""How long a status written with another secret is reported as a mistake."""
SETTLING_SECONDS: Final = HEARTBEAT_TIMEOUT
"""How long clocks must differ before the difference is reported. After a failover, comparisons
refer to different servers until each replica has sent another heartbeat."""


def fleet_view(
    own: ReplicaStatus,
    peers: Mapping[str, Peer],
    newest: LogPosition | None,
    now: float,
    *,
    has_tried: bool = True,
    mistakes: Sequence[str],
    cause: str = "",
) -> FleetView:
    """Return the fleet as seen by one replica.

    Args:
        own: The replica's status.
        peers: The other replicas.
        newest: The newest event known to the replica.
        now: The time on the replica's clock, in seconds.
        has_tried: Whether the replica's first heartbeat has finished, even if it failed.
        mistakes: Sentences about configuration mistakes.
        cause: Why the replica cannot use Redis; empty if it can.
    """
    statuses = [(own, 0.0), *((peer.status, now - peer.seen_at) for peer in peers.values())]
    is_cut_off = bool(cause) and (has_tried or not own.is_starting)
    replicas = []
    for status, silent in statuses:
        is_silent = silent >= HEARTBEAT_TIMEOUT or (status is own and is_cut_off)
        state = "silent" if is_silent else _state(status, newest)
        behind = 0 if newest is None else newest.sequence - status.sequence
        view = ReplicaView(
            name=status.name,
            state=state,
            is_self=status is own,
            version=status.version,
            role=status.role,
            lag=max(0, behind) if state in {"following", "silent"} else 0,
            revision=status.revision,
            checksum=status.checksum,
            gates=status.gates,
            silent_seconds=silent,
            queue_decisions=status.queue_decisions,
            connected_gates=status.connected_gates,
            http_addresses=status.http_addresses,
        )
        replicas.append(view)
    refused = [
        f"replica {status.name}: {status.problem}"
        for status, silent in statuses
        if status.problem and status.problem != cause and silent < HEARTBEAT_TIMEOUT
    ]
    return FleetView(sorted(replicas), [*refused, *mistakes], cause)


def _state(status: ReplicaStatus, newest: LogPosition | None) -> ReplicaState:
    """Return the state of a replica that sends heartbeats."""
    if status.epoch and (newest is None or status.epoch == newest.epoch.hex()):
        return "following"
    return "starting" if status.is_starting else "joining"


class ClockWatch:
    """Detects replicas whose clocks differ too much. Not thread-safe."""

    def __init__(self) -> None:
        self._names: tuple[str, str] | None = None
        self._since = math.inf
        self._sentence = ""

    def update(self, clocks: Mapping[str, Clock | None], now: float) -> None:
        """Compare running replicas' clocks. `clocks` maps names to clocks, or None if unknown."""
        known = {name: clock for name, clock in clocks.items() if clock is not None}
        late = min(known, key=lambda name: known[name][1], default="")
        early = max(known, key=lambda name: known[name][0], default="")
        seconds = known[early][0] - known[late][1] if known else 0.0
        names = (late, early) if seconds > CLOCK_SKEW else None
        if names != self._names:
            self._names, self._since = names, now
            self._sentence = (
                f"the clocks of the replicas {late} and {early} differ by at least {seconds:.0f} s,"
                f" and sharing groups tolerates at most {CLOCK_SKEW:g} s: synchronize the "
                "clocks of their machines, for example with NTP"
            )

    def mistake(self, now: float) -> str:
        """Return an error message if clocks have differed for SETTLING_SECONDS; otherwise ""."""
        is_settled = self._names is not None and now >= self._since + SETTLING_SECONDS
        return self._sentence if is_settled else ""


class Mistakes:
    """Detects replicas' configuration mistakes. Each is logged once, when it first appears."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._clocks = ClockWatch()
        self._rejected = 0
        self._foreign_until = -math.inf
        self._warned_of: Sequence[str] = ()

    def compare_clocks(self, own: Clock | None, now: float) -> None:
        """Compare the clocks of running replicas with this replica's clock."""
        running = [each for each in self._peers.all().values() if not each.is_silent(now)]
        clocks = {each.status.name: each.status.clock for each in running}
        self._clocks.update(clocks | {self._peers.own_name: own}, now)

    def all(self, rejected: int, now: float) -> Sequence[str]:
        """Return the current mistakes. `rejected` counts statuses written with another secret."""
        if rejected > self._rejected:
            self._rejected, self._foreign_until = rejected, now + FOREIGN_STATUS_SECONDS
        mistakes = [
            f"several running replicas are named {name}: give each its own fleet.replica"
            for name in self._peers.duplicate_names()
        ]
        if now < self._foreign_until:
            mistakes.append(
                "others write statuses to Redis with a different secret: use the same "
                "fleet.secret_file on all replicas, or give another fleet its own fleet.prefix"
            )
        if clocks := self._clocks.mistake(now):
            mistakes.append(clocks)
        return mistakes

    def warn(self, rejected: int, now: float) -> None:
        """Log new mistakes."""
        mistakes = self.all(rejected, now)
        for each in mistakes:
            if each not in self._warned_of:
                _LOG.warning("%s", each)
        self._warned_of = mistakes
