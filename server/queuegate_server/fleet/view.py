"""The fleet as one of its replicas sees it, for people and monitoring."""

from collections.abc import Mapping
from typing import Literal

from queuegate_server.fleet.barrier import SILENT, Peer
from queuegate_server.fleet.events import Row
from queuegate_server.fleet.keys import Position
from queuegate_server.sync.fleet_view import FleetView, ReplicaView


def fleet_view(
    own: Row,
    peers: Mapping[str, Peer],
    newest: Position | None,
    now: float,
    *,
    is_reachable: bool,
) -> FleetView:
    """Return the fleet as a replica sees it.

    Args:
        own: The row of the replica that looks.
        peers: The other replicas.
        newest: The newest event that is known; None while the replica follows no history.
        now: The time on its own clock, in seconds.
        is_reachable: Whether it reaches Redis.
    """
    rows = [(own, 0.0), *((peer.row, now - peer.seen_at) for peer in peers.values())]
    replicas = [
        _replica_view(row, silent, newest, is_self=row is own, is_reachable=is_reachable)
        for row, silent in rows
    ]
    return FleetView(sorted(replicas), is_reachable)


def _replica_view(
    row: Row, silent: float, newest: Position | None, *, is_self: bool, is_reachable: bool
) -> ReplicaView:
    state: Literal["following", "joining", "silent"] = "following"
    if silent >= SILENT or (is_self and not is_reachable):
        state = "silent"
    elif row.epoch != (None if newest is None else newest.epoch.hex()):
        state = "joining"
    behind = 0 if newest is None else newest.sequence - row.sequence
    return ReplicaView(
        name=row.name,
        state=state,
        is_self=is_self,
        version=row.version,
        lag=max(0, behind) if state != "joining" else 0,
        revision=row.revision,
        checksum=row.checksum,
        gates=row.gates,
        silent_seconds=silent,
    )
