"""What this replica reports about itself with each heartbeat: its row."""

import json
from collections.abc import Callable
from typing import Final, NamedTuple

from queuegate_server.engine import Engine, NotReady
from queuegate_server.fleet.barrier import HOLDS, Peers
from queuegate_server.fleet.events import Row
from queuegate_server.fleet.replica import ReplicaState
from queuegate_server.fleet.stream import NONCE_BYTES
from queuegate_server.sync.hub import SyncHub

CONFIRMED_SECONDS: Final = HOLDS + 3.0
"""How long a replica reports that it has confirmed a change: longer than the others wait for it."""
MAX_CONFIRMED_BYTES: Final = 48 * 1024
"""The size of what it reports about such changes. Of more, the oldest are left out: a barrier that
waits for one of them waits for leases to end."""
MAX_NAMED: Final = 20
"""Gates that it names for each of them."""


class _Confirmed(NamedTuple):
    """A change that was confirmed."""

    at: float
    waited_out: list[str]
    is_refused: bool

    @property
    def size(self) -> int:
        """About as many bytes as it takes in a row."""
        nonce = 2 * NONCE_BYTES + len('"",')
        return nonce * (1 + self.is_refused) + len(json.dumps(self.waited_out)) + 1


class Report:
    """The row of this replica, and the changes that it has confirmed."""

    def __init__(
        self,
        peers: Peers,
        name: str,
        state: ReplicaState,
        *,
        version: str,
        engine: Engine,
        hub: SyncHub,
        clock: Callable[[], float],
    ) -> None:
        """Report that nothing is confirmed.

        Args:
            peers: Know the identity of this process, and how old a history is.
            name: The name of the replica, for people.
            state: Its place in the order of events.
            version: The version of queuegate.
            engine: Has the policy.
            hub: The gates.
            clock: A clock that goes on while the machine is suspended, in seconds.
        """
        self._peers = peers
        self._name = name
        self._state = state
        self._version = version
        self._engine = engine
        self._hub = hub
        self._clock = clock
        self._count = 0
        self._confirmed: dict[bytes, _Confirmed] = {}
        """By nonce, the oldest first."""
        self._confirmed_bytes = 0
        self._settled: int | None = None
        self._has_left = False

    @property
    def row(self) -> Row:
        """This replica as it would be reported now."""
        position = self._state.position
        now = self._clock()
        age = 0.0 if position is None else now - self._peers.began_by(position.epoch, now)
        revision, checksum = self._policy()
        return Row(
            replica=self._peers.own,
            name=self._name,
            count=self._count,
            version=self._version,
            epoch="" if position is None else position.epoch.hex(),
            age=max(0.0, age),
            sequence=0 if position is None else position.sequence,
            settled=self._settled,
            confirmed={nonce.hex(): each.waited_out for nonce, each in self._confirmed.items()},
            refused=[nonce.hex() for nonce, each in self._confirmed.items() if each.is_refused],
            revision=revision,
            checksum=checksum,
            gates=self._hub.streams,
            has_left=self._has_left,
        )

    def next_row(self) -> Row:
        """Return a row to send, which is newer than those before."""
        self._count += 1
        self._drop_outdated()
        return self.row

    def confirm(self, nonce: bytes, waited_out: list[str], *, is_refused: bool = False) -> None:
        """Report that neither this replica nor any of its gates decides without a change.

        Args:
            nonce: Identifies the event of the change.
            waited_out: The names of gates whose leases were waited out.
            is_refused: Whether the change could not be carried out.
        """
        more = len(waited_out) - MAX_NAMED
        names = [*waited_out[:MAX_NAMED], *([f"{more} more of {self._name}"] if more > 0 else [])]
        self._confirmed[nonce] = confirmed = _Confirmed(self._clock(), names, is_refused)
        self._confirmed_bytes += confirmed.size
        self._drop_outdated()

    def settle(self, sequence: int) -> None:
        """Report that what was cached before an event is forgotten here and by all gates."""
        self._settled = max(sequence, self._settled or 0)

    def start_over(self) -> None:
        """Report nothing as confirmed: the order of events is lost."""
        self._settled = None
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
