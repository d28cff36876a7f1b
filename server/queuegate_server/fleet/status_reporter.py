"""What this replica reports about itself with each heartbeat: its status."""

import json
from collections.abc import Callable
from typing import Final, NamedTuple

from queuegate_server.engine import Engine, NotReady
from queuegate_server.fleet.barrier import LEASES_TIMEOUT, Peers
from queuegate_server.fleet.events import ReplicaStatus
from queuegate_server.fleet.keys import NONCE_BYTES, LogPosition
from queuegate_server.fleet.refusals import Refusals
from queuegate_server.fleet.replica_log import ReplicaLog
from queuegate_server.sync.hub import SyncHub

CONFIRMED_SECONDS: Final = LEASES_TIMEOUT + 3.0
"""How long a replica reports that it has confirmed a change: longer than the others wait for it."""
MAX_CONFIRMED_BYTES: Final = 48 * 1024
"""The size of what it reports about such changes. Of more, the oldest are left out: a barrier that
waits for one of them waits for leases to end."""
MAX_PROBLEM: Final = 600
"""Characters of what it reports that Redis refuses it."""
STARTING_SECONDS: Final = 10.0
"""How long a replica that does not follow the fleet reports that it is starting. It joins within a
few seconds unless something prevents it."""
MAX_NAMED: Final = 20
"""Gates that it names for each of them."""


class _Confirmed(NamedTuple):
    """A change that was confirmed."""

    at: float
    waited_out: list[str]
    has_failed: bool

    @property
    def size(self) -> int:
        """About as many bytes as it takes in a status."""
        nonce = 2 * NONCE_BYTES + len('"",')
        return nonce * (1 + self.has_failed) + len(json.dumps(self.waited_out)) + 1


class StatusReporter:
    """The status of this replica, and the changes that it has confirmed."""

    def __init__(
        self,
        peers: Peers,
        name: str,
        log: ReplicaLog,
        *,
        version: str,
        engine: Engine,
        hub: SyncHub,
        clock: Callable[[], float],
        refusals: Refusals | None = None,
    ) -> None:
        """Report that nothing is confirmed.

        Args:
            peers: Know the identity of this process, and how old a history is.
            name: The name of the replica, for people.
            log: Its place in the order of events.
            version: The version of queuegate.
            engine: Has the policy.
            hub: The gates.
            clock: A clock that goes on while the machine is suspended, in seconds.
            refusals: What Redis refuses this replica.
        """
        self.wall_clock: tuple[float, float] | None = None
        """How far the wall clock is ahead of that of Redis, in seconds: at least, and at most."""
        self._refusals = Refusals() if refusals is None else refusals
        self._peers = peers
        self._name = name
        self._log = log
        self._version = version
        self._engine = engine
        self._hub = hub
        self._clock = clock
        self._starting_until = clock() + STARTING_SECONDS
        self._serial = 0
        self._confirmed: dict[bytes, _Confirmed] = {}
        """By nonce, the oldest first."""
        self._confirmed_bytes = 0
        self._confirmed_through: tuple[int, str] | None = None
        self._has_left = False

    @property
    def status(self) -> ReplicaStatus:
        """This replica as it would be reported now."""
        position = self._log.position
        now = self._clock()
        age = 0.0 if position is None else now - self._peers.began_by(position.epoch, now)
        revision, checksum = self._policy()
        return ReplicaStatus(
            instance=self._peers.instance,
            name=self._name,
            serial=self._serial,
            version=self._version,
            epoch="" if position is None else position.epoch.hex(),
            epoch_age=max(0.0, age),
            sequence=0 if position is None else position.sequence,
            confirmed_through=self._confirmed_through,
            confirmed={nonce.hex(): each.waited_out for nonce, each in self._confirmed.items()},
            failed=[nonce.hex() for nonce, each in self._confirmed.items() if each.has_failed],
            revision=revision,
            checksum=checksum,
            gates=self._hub.streams,
            clock=self.wall_clock,
            problem="; ".join(self._refusals.sentences)[:MAX_PROBLEM],
            is_starting=position is None and now < self._starting_until,
            has_left=self._has_left,
        )

    def next_status(self) -> ReplicaStatus:
        """Return a status to send, which is newer than those before."""
        self._serial += 1
        self._drop_outdated()
        return self.status

    def confirm(self, nonce: bytes, waited_out: list[str], *, has_failed: bool = False) -> None:
        """Report that neither this replica nor any of its gates decides without a change.

        Args:
            nonce: Identifies the event of the change.
            waited_out: The names of gates whose leases were waited out.
            has_failed: Whether the change could not be carried out.
        """
        more = len(waited_out) - MAX_NAMED
        names = [*waited_out[:MAX_NAMED], *([f"{more} more"] if more > 0 else [])]
        self._confirmed[nonce] = confirmed = _Confirmed(self._clock(), names, has_failed)
        self._confirmed_bytes += confirmed.size
        self._drop_outdated()

    def confirm_through(self, event: LogPosition) -> None:
        """Report all changes up to an event as confirmed."""
        if self._confirmed_through is None or event.sequence >= self._confirmed_through[0]:
            self._confirmed_through = event.sequence, event.nonce.hex()

    def start_over(self) -> None:
        """Report nothing as confirmed: events are missing."""
        self._confirmed_through = None
        self._confirmed.clear()
        self._confirmed_bytes = 0

    def leave(self) -> None:
        """Report that this replica has stopped, and no lease of it or of a gate is left."""
        self._has_left = True

    def _drop_outdated(self) -> None:
        since = self._clock() - CONFIRMED_SECONDS
        for nonce, each in [*self._confirmed.items()]:
            if each.at > since and self._confirmed_bytes <= MAX_CONFIRMED_BYTES:
                break
            del self._confirmed[nonce]
            self._confirmed_bytes -= each.size

    def _policy(self) -> tuple[int, str]:
        """Return the revision and the checksum of the policy, if one is loaded."""
        try:
            policy = self._engine.snapshot.policy
        except NotReady:
            return 0, ""
        return policy.revision, policy.checksum
