"""Builds the view of the fleet from the statuses that a replica has seen, and names mistakes."""

from collections.abc import Mapping, Sequence

from queuegate_server.fleet.barrier import HEARTBEAT_TIMEOUT, Peer
from queuegate_server.fleet.events import ReplicaStatus
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.view import FleetView, ReplicaState, ReplicaView


def fleet_view(
    own: ReplicaStatus,
    peers: Mapping[str, Peer],
    newest: LogPosition | None,
    now: float,
    *,
    is_reachable: bool,
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
        is_reachable: Whether it reaches Redis.
        has_asked: Whether its first heartbeat was answered or has failed.
        mistakes: Mistakes in the settings of replicas, in sentences.
        cause: Why it does not reach Redis, if an operator has to change something.
    """
    statuses = [(own, 0.0), *((peer.status, now - peer.seen_at) for peer in peers.values())]
    replicas = [
        _replica_view(
            *(status, silent, newest),
            is_self=status is own,
            is_cut_off=status is own and not is_reachable and (has_asked or not own.is_starting),
        )
        for status, silent in statuses
    ]
    refused = [
        f"replica {status.name}: {status.problem}"
        for status, silent in statuses
        if status.problem and status.problem != cause and silent < HEARTBEAT_TIMEOUT
    ]
    return FleetView(sorted(replicas), is_reachable, [*refused, *mistakes], cause)


def mistakes(
    duplicate_names: Sequence[str], *, has_foreign_statuses: bool, clocks: str = ""
) -> Sequence[str]:
    """Return sentences about mistakes in the settings of replicas.

    Args:
        duplicate_names: Names that several running replicas have.
        has_foreign_statuses: Whether somebody writes statuses with another secret.
        clocks: A sentence about clocks that differ; else empty.
    """
    found = [
        f"several running replicas are named {name}: give each its own fleet.replica"
        for name in duplicate_names
    ]
    if has_foreign_statuses:
        found.append(
            "others write statuses to Redis with a different secret: is fleet.secret_file the "
            "same on all replicas? If it is another fleet, give it a fleet.prefix of its own"
        )
    if clocks:
        found.append(clocks)
    return found


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
