"""Tracks peer replicas, and waits until none of them uses the state from before a change.

A replica renews its lease only after applying every event that was in Redis when its heartbeat
arrived there. If it holds a lease on pre-change state, it must therefore have requested the lease
before the change was appended. Such a lease expires within one lease duration, and the leases of
the replica's gates expire at most one gate-lease duration later. A replica that follows no events
uses groups for at most ISOLATED_MAX_AGE.

Redis holds the status of every replica with a lease, unless Redis was emptied (which starts a new
history) or a failover lost the status. Unknown replicas may therefore exist until all leases older
than the history have expired.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations, groupby
from operator import attrgetter
from typing import Final, NamedTuple

from queuegate_server.fleet.events import ReplicaStatus
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.replica_log import CLOCK_MARGIN, ISOLATED_MAX_AGE, LEASE
from queuegate_server.sync.barrier import StaleGate, Unconfirmed
from queuegate_server.sync.session import CLOCK_MARGIN as GATE_MARGIN
from queuegate_server.sync.session import LEASE as GATE_LEASE

LEASES_TIMEOUT: Final = LEASE + CLOCK_MARGIN + GATE_LEASE + GATE_MARGIN
"""How long after a heartbeat a replica or its gates may use old state, in seconds."""
ISOLATION_TIMEOUT: Final = ISOLATED_MAX_AGE + CLOCK_MARGIN
"""How long after a change an isolated replica or its gates may use old groups, in seconds."""
HEARTBEAT_TIMEOUT: Final = LEASE + CLOCK_MARGIN
"""Seconds without a heartbeat after which a replica is considered silent."""
EVICTION_TIMEOUT: Final = 600.0
"""Seconds without a heartbeat after which a replica is removed from the fleet."""
TOMBSTONE_LIFETIME: Final = 60.0
"""Seconds for which a stopped replica's status stays in Redis, so that all replicas see it."""
MAX_TOMBSTONES: Final = 1_000
_NAME: Final = attrgetter("status.name")


class Peer(NamedTuple):
    """Another replica. Times are on this replica's clock."""

    status: ReplicaStatus
    seen_at: float
    """When the newest status was first seen."""
    known_since: float
    """When the first status was seen."""

    def is_silent(self, now: float) -> bool:
        """Return whether the peer's lease has expired, with a margin for clock drift."""
        return now >= self.seen_at + HEARTBEAT_TIMEOUT


class _Tombstone(NamedTuple):
    serial: int
    remove_at: float
    """When every replica will have seen the final status."""


class Peers:
    """The other replicas in the fleet whose statuses this replica has seen."""

    def __init__(self, instance: str, name: str) -> None:
        """Start with no known peers. `instance` and `name` identify this replica."""
        self.instance: Final = instance
        self.own_name: Final = name
        self._peers: dict[str, Peer] = {}
        self._epoch = b""
        self._began_by = -math.inf
        self._incomplete_at = -math.inf
        """When Redis last returned only some of the statuses, so replicas may be unknown."""
        self._tombstones: dict[str, _Tombstone] = {}
        """The final statuses of removed replicas, newest last."""

    def merge(
        self,
        statuses: Iterable[ReplicaStatus],
        now: float,
        *,
        epoch: bytes = b"",
        is_complete: bool = True,
    ) -> list[ReplicaStatus]:
        """Merge statuses read from Redis; return those to delete from Redis.

        The returned statuses are those of removed replicas that all replicas have seen. A peer
        missing from `statuses` is kept, because Redis may have been emptied.

        Args:
            statuses: The statuses. They may include this replica's own status.
            now: The time on this replica's clock, after the read.
            epoch: Identifies the history in Redis; empty if there is none.
            is_complete: Whether all statuses were read. If not, barriers wait for unknown replicas.
        """
        others = [status for status in statuses if status.instance != self.instance]
        if not is_complete:
            self._incomplete_at = now
        if epoch and epoch != self._epoch:
            self._epoch, self._began_by = epoch, now
        for status in others:
            if epoch and status.epoch == epoch.hex():
                self._began_by = min(self._began_by, now - status.epoch_age)
            if self._is_buried(status):
                continue
            self._tombstones.pop(status.instance, None)
            known = self._peers.get(status.instance)
            if known is None or status.serial > known.status.serial:
                known_since = now if known is None else known.known_since
                self._peers[status.instance] = Peer(status, now, known_since)
        self._evict(now)
        return [
            status
            for status in others
            if self._is_buried(status) and now >= self._tombstones[status.instance].remove_at
        ]

    def _is_buried(self, status: ReplicaStatus) -> bool:
        tombstone = self._tombstones.get(status.instance)
        return tombstone is not None and status.serial <= tombstone.serial

    def _evict(self, now: float) -> None:
        """Remove peers that have stopped, were replaced or have been silent for too long."""
        for instance, peer in [*self._peers.items()]:
            is_gone = now >= peer.seen_at + EVICTION_TIMEOUT or self._is_replaced(peer, now)
            if peer.status.has_left or is_gone:
                remove_at = now if is_gone else now + TOMBSTONE_LIFETIME
                self._tombstones[instance] = _Tombstone(peer.status.serial, remove_at)
                del self._peers[instance]
        while len(self._tombstones) > MAX_TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]

    def began_by(self, epoch: bytes, now: float) -> float:
        """Return a time by which the history had begun, and since which no status was missing.

        Returns `now` for a history that this replica has not seen.
        """
        return max(self._began_by, self._incomplete_at) if epoch == self._epoch else now

    def follows(self, epoch: bytes, now: float) -> bool | None:
        """Return whether a running peer follows the history; None while this is unknown.

        A peer is known to be running if it has sent a heartbeat since it was first seen.
        """
        named = [peer for peer in self._peers.values() if peer.status.epoch == epoch.hex()]
        if any(peer.seen_at > peer.known_since for peer in named):
            return True
        return False if all(peer.is_silent(now) for peer in named) else None

    def all(self) -> Mapping[str, Peer]:
        """Return the current peers by `ReplicaStatus.instance`."""
        return self._peers

    def duplicate_names(self) -> list[str]:
        """Return the names used by more than one running replica."""
        running = [peer for peer in self._peers.values() if peer.seen_at > peer.known_since]
        return [
            name
            for name, peers in groupby(sorted(running, key=_NAME), _NAME)
            if name == self.own_name
            or any(
                min(one.seen_at, other.seen_at) > max(one.known_since, other.known_since)
                for one, other in combinations(peers, 2)
            )
        ]

    def _is_replaced(self, peer: Peer, now: float) -> bool:
        """Return whether the peer's lease has expired and another process uses its name."""
        return now >= peer.seen_at + LEASES_TIMEOUT and (
            peer.status.name == self.own_name
            or any(
                other.status.name == peer.status.name and other.seen_at > peer.seen_at
                for other in self._peers.values()
            )
        )


class FleetBarrier:
    """The replicas that might still use pre-change state, directly or through their gates."""

    def __init__(
        self,
        peers: Peers,
        event: LogPosition,
        now: float,
        *,
        has_event: Callable[[LogPosition], bool],
        leases_timeout: float = LEASES_TIMEOUT,
        isolation_timeout: float = ISOLATION_TIMEOUT,
    ) -> None:
        """Create a barrier that waits for all other replicas, including unknown ones.

        Args:
            peers: The peers, updated with the statuses in Redis at the time of the append.
            event: The change's position in the log.
            now: The time on this replica's clock, after the append.
            has_event: Returns whether this replica has applied an event.
            leases_timeout: See LEASES_TIMEOUT.
            isolation_timeout: See ISOLATION_TIMEOUT.
        """
        self._peers = peers
        self.event: Final = event
        self.ended_at = math.inf
        """When all leases were first seen to have expired, if the barrier relies on expiry."""
        self._has_event = has_event
        self._leases_timeout = leases_timeout
        self._waiting = {
            instance: max(peer.seen_at + leases_timeout, now + isolation_timeout)
            for instance, peer in peers.all().items()
        }
        unknown_until = peers.began_by(event.epoch, now) + leases_timeout
        self._unknown_until = -math.inf
        """Until this time, replicas last seen before the current history began may use old
        state."""
        if now < unknown_until:
            self._unknown_until = max(unknown_until, now + isolation_timeout)
        self.waited_out: list[str] = []
        """Gates and replicas that did not confirm before their leases expired."""
        self.stale: list[StaleGate] = []
        """Gates that may still use the state from before the change."""
        self.unconfirmed: list[str] = []
        """The names of the replicas in `waited_out`."""
        self.failed: list[str] = []
        """The names of replicas that could not apply the change."""
        self.reached = 1
        """The number of replicas that have applied the change, including this one."""

    @property
    def relies_on_leases(self) -> bool:
        """Whether the barrier had to wait for leases to expire."""
        return bool(self.waited_out) or self._unknown_until > -math.inf

    def next_end(self, now: float, extra: float = 0.0) -> float | None:
        """Return when the next relevant lease expires; None once there is nothing to wait for.

        Running replicas get `extra` seconds to apply the change.
        """
        ends = [self._unknown_until] if now < self._unknown_until else []
        for instance, until in [*self._waiting.items()]:
            peer = self._peers.all().get(instance)
            if peer is None:  # a removed peer holds no lease
                del self._waiting[instance]
                continue
            end = until + extra
            if peer.is_silent(now):
                # The peer may have renewed its lease while applying the change.
                end = max(until, peer.seen_at + self._leases_timeout) if extra else until
            gates = self._confirmation(peer.status)
            if gates is None and now < end:
                ends.append(end)
                continue
            del self._waiting[instance]
            name = peer.status.name
            if gates is None:
                self.unconfirmed.append(name)
                self.waited_out.append(f"replica {name}")
                self.stale += _unknown_gates(peer.status)
                continue
            self.reached += 1
            self.waited_out += [f"{gate} (replica {name})" for gate in gates.waited_out]
            self.stale += gates.stale
            if self.event.nonce.hex() in peer.status.failed:
                self.failed.append(name)
        return min(ends, default=None)

    def _confirmation(self, status: ReplicaStatus) -> Unconfirmed | None:
        """Return a replica's unconfirmed gates; None if the replica has not confirmed the event."""
        if status.epoch != self.event.epoch.hex():
            return None
        nonce = self.event.nonce.hex()
        gates = status.confirmed.get(nonce)
        if gates is not None:
            stale = [
                StaleGate(f"{each.name} (replica {status.name})", each.seconds)
                for each in status.stale.get(nonce, ())
            ]
            return Unconfirmed([*gates], stale)
        through = status.confirmed_through
        if through is None or through[0] < self.event.sequence:
            return None
        # Compare nonces as well, because the number alone may belong to an event lost by Redis.
        position = LogPosition(self.event.epoch, through[0], bytes.fromhex(through[1]))
        if position == self.event or self._has_event(position):
            return Unconfirmed(stale=_unknown_gates(status))
        return None


def _unknown_gates(status: ReplicaStatus) -> list[StaleGate]:
    """Return an entry for a replica's gates that may still use old state, if it may have any."""
    if not status.stale_seconds:
        return []
    return [StaleGate(f"gates of replica {status.name}", status.stale_seconds)]
