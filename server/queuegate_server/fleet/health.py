"""Builds the view of the fleet from the statuses that a replica has seen, and names mistakes."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Final

from queuegate_server.fleet.barrier import HEARTBEAT_TIMEOUT, Peer, Peers
from queuegate_server.fleet.clocks import Clock, ClockWatch
from queuegate_server.fleet.events import ReplicaStatus
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.view import FleetView, ReplicaState, ReplicaView

_LOG = logging.getLogger("queuegate_server.fleet")
FOREIGN_STATUS_SECONDS: Final = 60.0
"""For how long a status with another secret counts as a mistake after it was written."""


def fleet_view(
    own: ReplicaStatus,
    peers: Mapping[str, Peer],
    newest: LogPosition | None,
    now: float,
    *,
    has_asked: bool = True,
    mistakes: Sequence[str],
    cause: str = "",
) -> FleetView:
    """Return the fleet as a replica sees it.

    Args:
        own: The status of the replica that looks.
        peers: The other replicas.
        newest: The newest event that is known; None while the replica follows no history.
        now: The time on its own clock, in seconds.
        has_asked: Whether its first heartbeat was answered or has failed.
        mistakes: Mistakes in the settings of replicas, in sentences.
        cause: Why it cannot use Redis; empty if it can.
    """
    statuses = [(own, 0.0), *((peer.status, now - peer.seen_at) for peer in peers.values())]
    replicas = [
        _replica_view(
            *(status, silent, newest),
            is_self=status is own,
            is_cut_off=status is own and bool(cause) and (has_asked or not own.is_starting),
        )
        for status, silent in statuses
    ]
    refused = [
        f"replica {status.name}: {status.problem}"
        for status, silent in statuses
        if status.problem and status.problem != cause and silent < HEARTBEAT_TIMEOUT
    ]
    return FleetView(sorted(replicas), [*refused, *mistakes], cause)


class Mistakes:
    """Mistakes in the settings of replicas, in sentences, and those that were logged."""

    def __init__(self, name: str) -> None:
        """Know of none yet, at a replica with this name."""
        self._name = name
        self._clocks = ClockWatch()
        self._rejected = 0
        self._foreign_until = -math.inf
        self._warned_of: Sequence[str] = ()

    def compare_clocks(self, peers: Peers, own: Clock | None, now: float) -> None:
        """Compare the clocks of the replicas that send heartbeats with the own one, when an answer
        has come.
        """
        running = [each for each in peers.all().values() if not each.is_silent(now)]
        clocks = {each.status.name: each.status.clock for each in running}
        self._clocks.update(clocks | {self._name: own}, now)

    def all(self, peers: Peers, rejected: int, now: float) -> Sequence[str]:
        """Return the mistakes that are known.

        Args:
            peers: The other replicas.
            rejected: How many statuses have been written with another secret.
            now: The time on the own clock, in seconds.
        """
        if rejected > self._rejected:
            self._rejected, self._foreign_until = rejected, now + FOREIGN_STATUS_SECONDS
        mistakes = [
            f"several running replicas are named {name}: give each its own fleet.replica"
            for name in peers.duplicate_names()
        ]
        if now < self._foreign_until:
            mistakes.append(
                "others write statuses to Redis with a different secret: is fleet.secret_file the "
                "same on all replicas? If it is another fleet, give it a fleet.prefix of its own"
            )
        if clocks := self._clocks.mistake(now):
            mistakes.append(clocks)
        return mistakes

    def warn(self, peers: Peers, rejected: int, now: float) -> None:
        """Log mistakes that were not there before."""
        mistakes = self.all(peers, rejected, now)
        for each in mistakes:
            if each not in self._warned_of:
                _LOG.warning("%s", each)
        self._warned_of = mistakes


def _replica_view(
    status: ReplicaStatus,
    silent: float,
    newest: LogPosition | None,
    *,
    is_self: bool,
    is_cut_off: bool,
) -> ReplicaView:
    state: ReplicaState = "following"
    if silent >= HEARTBEAT_TIMEOUT or is_cut_off:
        state = "silent"
    elif not status.epoch or (newest is not None and status.epoch != newest.epoch.hex()):
        state = "starting" if status.is_starting else "joining"
    behind = 0 if newest is None else newest.sequence - status.sequence
    return ReplicaView(
        name=status.name,
        state=state,
        is_self=is_self,
        version=status.version,
        lag=max(0, behind) if state in {"following", "silent"} else 0,
        revision=status.revision,
        checksum=status.checksum,
        gates=status.gates,
        silent_seconds=silent,
    )
