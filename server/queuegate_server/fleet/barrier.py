"""Which other replicas there are, and when none of them decides from the state before a change.

A replica extends its lease only after it has applied all events that Redis had when it took the
heartbeat. So a lease that covers the state before a change was asked for before the change was
appended, and ends a lease later; the leases of its gates end one of theirs after that. A replica
that follows no events does not use groups for longer than ALONE_LIFETIME.

Redis has the row of each replica that has a lease, unless it was emptied, or a fail-over lost the
row. If it was emptied, another history begins. Until the leases from before that have ended, there
may be replicas that nobody knows.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from queuegate_server.fleet.events import Row
from queuegate_server.fleet.keys import Position
from queuegate_server.fleet.replica import ALONE_LIFETIME, CLOCK_MARGIN, LEASE
from queuegate_server.sync.session import CLOCK_MARGIN as GATE_MARGIN
from queuegate_server.sync.session import LEASE as GATE_LEASE

HOLDS: Final = LEASE + CLOCK_MARGIN + GATE_LEASE + GATE_MARGIN
"""Seconds after a heartbeat for which a replica or a gate of it may decide without changes."""
ALONE: Final = ALONE_LIFETIME + CLOCK_MARGIN
"""Seconds after a change for which a replica that is cut off, or a gate of it, may use groups that
it has looked up before."""
SILENT: Final = LEASE + CLOCK_MARGIN
"""Seconds without a heartbeat after which a replica works alone, or not at all."""
GONE: Final = 600.0
"""Seconds without a heartbeat after which a replica no longer counts as one of the fleet."""
MAX_GONE: Final = 1_000
"""Replicas that no longer count whose last rows are remembered."""


class Peer(NamedTuple):
    """Another replica."""

    row: Row
    seen_at: float
    """When its newest row was first seen, on the own clock: it was written before."""

    def is_silent(self, now: float) -> bool:
        """Return whether its lease has certainly ended."""
        return now >= self.seen_at + SILENT


class Peers:
    """The other replicas of the fleet, as far as their rows have been seen."""

    def __init__(self, replica: str, name: str) -> None:
        """Know none yet, but the identity of the own process and the name of this replica."""
        self.own: Final = replica
        self._own_name = name
        self._peers: dict[str, Peer] = {}
        self._epoch = b""
        self._began_by = -math.inf
        self._gone: dict[str, int] = {}
        """The counts of the last rows of replicas that no longer count, the newest last."""

    def see(self, rows: Iterable[Row], now: float, *, epoch: bytes = b"") -> list[Row]:
        """Note rows that were read.

        A row that is missing proves nothing: Redis may have been emptied.

        Args:
            rows: The rows.
            now: The time on the own clock, after they were read.
            epoch: Identifies the history that Redis had; empty if it had none.

        Returns:
            Those rows whose replicas have left or have been silent for long. They can be removed.
        """
        read = [row for row in rows if row.replica != self.own]
        if epoch and epoch != self._epoch:
            self._epoch, self._began_by = epoch, now
        for row in read:
            if epoch and row.epoch == epoch.hex():
                self._began_by = min(self._began_by, now - row.age)
        for row in read:
            if row.count <= self._gone.get(row.replica, -1):
                continue
            self._gone.pop(row.replica, None)
            known = self._peers.get(row.replica)
            if known is None or row.count > known.row.count:
                self._peers[row.replica] = Peer(row, now)
        for replica, peer in [*self._peers.items()]:
            if peer.row.has_left or now >= peer.seen_at + GONE or self._is_replaced(peer, now):
                del self._peers[replica]
                self._gone[replica] = peer.row.count
        while len(self._gone) > MAX_GONE:
            del self._gone[next(iter(self._gone))]
        return [row for row in read if row.count <= self._gone.get(row.replica, -1)]

    def began_by(self, epoch: bytes, now: float) -> float:
        """Return a time on the own clock at which a history had begun; now if that is not known."""
        return self._began_by if epoch == self._epoch else now

    def all(self) -> Mapping[str, Peer]:
        """Return all that count, by the identity of their process."""
        return self._peers

    def _is_replaced(self, peer: Peer, now: float) -> bool:
        """Return whether another process of the same name has followed, perhaps this one, and no
        lease is left.
        """
        return now >= peer.seen_at + HOLDS and (
            peer.row.name == self._own_name
            or any(
                other.row.name == peer.row.name and other.seen_at > peer.seen_at
                for other in self._peers.values()
            )
        )


class FleetBarrier:
    """The replicas that, or whose gates, may decide without a change."""

    def __init__(
        self,
        peers: Peers,
        event: Position,
        now: float,
        *,
        holds: float = HOLDS,
        alone: float = ALONE,
    ) -> None:
        """Wait for all replicas but this one, also for those that are not known.

        Args:
            peers: Must have seen the rows that Redis had when it appended the event.
            event: The change.
            now: The time on the own clock, after the event was appended.
            holds: For how many seconds after a heartbeat a replica, or a gate of it, may decide.
            alone: For how many seconds after the event one that is cut off may.
        """
        self._peers = peers
        self._event = event
        self._waiting = {
            replica: max(peer.seen_at + holds, now + alone) for replica, peer in peers.all().items()
        }
        unknown_until = peers.began_by(event.epoch, now) + holds
        self._unknown_until = max(unknown_until, now + alone) if now < unknown_until else -math.inf
        """When replicas that were not seen before another history began can use nothing old."""
        self.waited_out: list[str] = []
        """The names of gates, and of replicas, that have not confirmed, but can use nothing old any
        more."""
        self.refused: list[str] = []
        """The names of replicas that could not carry out the change."""
        self.reached = 1
        """How many replicas have carried it out, this one included."""

    @property
    def relies_on_leases(self) -> bool:
        """Whether it has ended because leases have, and not only because all have confirmed."""
        return bool(self.waited_out) or self._unknown_until > -math.inf

    def next_end(self, now: float, extra: float = 0.0) -> float | None:
        """Return when the next lease ends that has to be waited for; None if there is none.

        Args:
            now: The time on the own clock.
            extra: Seconds that the change itself takes, for replicas that are not silent.
        """
        ends = [self._unknown_until] if now < self._unknown_until else []
        for replica, until in [*self._waiting.items()]:
            peer = self._peers.all().get(replica)
            if peer is None:  # it has stopped, with all its leases
                del self._waiting[replica]
                continue
            end = until if peer.is_silent(now) else until + extra
            confirmed = self._confirmed(peer.row)
            if confirmed is None and now < end:
                ends.append(end)
                continue
            del self._waiting[replica]
            if confirmed is None:
                self.waited_out.append(f"replica {peer.row.name}")
                continue
            self.reached += 1
            self.waited_out += confirmed
            if self._event.nonce.hex() in peer.row.refused:
                self.refused.append(peer.row.name)
        return min(ends, default=None)

    def _confirmed(self, row: Row) -> list[str] | None:
        """Return the gates that a replica has waited out; None if it has not confirmed."""
        if row.epoch != self._event.epoch.hex():
            return None
        confirmed = row.confirmed.get(self._event.nonce.hex())
        if confirmed is not None:
            return [*confirmed]
        settled = row.settled is not None and row.settled >= self._event.sequence
        return [] if settled else None
