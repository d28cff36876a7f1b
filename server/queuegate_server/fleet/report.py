"""What this replica reports about itself with each heartbeat: its row."""

from typing import Final

from queuegate_server.engine import Engine, NotReady
from queuegate_server.fleet.events import Row
from queuegate_server.fleet.replica import ReplicaState
from queuegate_server.sync.hub import SyncHub

MAX_CONFIRMED: Final = 64
"""The newest changes whose confirmation a replica reports."""
MAX_NAMED: Final = 20
"""Gates that it names for each of them."""


class Report:
    """The row of this replica, and the changes that it has confirmed."""

    def __init__(
        self,
        replica: str,
        name: str,
        state: ReplicaState,
        *,
        version: str,
        engine: Engine,
        hub: SyncHub,
    ) -> None:
        """Report that nothing is confirmed.

        Args:
            replica: Identifies the process.
            name: The name of the replica, for people.
            state: Its place in the order of events.
            version: The version of queuegate.
            engine: Has the policy.
            hub: The gates.
        """
        self._replica = replica
        self._name = name
        self._state = state
        self._version = version
        self._engine = engine
        self._hub = hub
        self._count = 0
        self._confirmed: dict[bytes, list[str]] = {}
        self._refused: set[bytes] = set()
        self._settled: int | None = None
        self._has_left = False

    @property
    def row(self) -> Row:
        """This replica as it would be reported now."""
        position = self._state.position
        revision, checksum = self._policy()
        return Row(
            replica=self._replica,
            name=self._name,
            count=self._count,
            version=self._version,
            epoch="" if position is None else position.epoch.hex(),
            sequence=0 if position is None else position.sequence,
            settled=self._settled,
            confirmed={nonce.hex(): names for nonce, names in self._confirmed.items()},
            refused=[nonce.hex() for nonce in self._refused],
            revision=revision,
            checksum=checksum,
            gates=self._hub.streams,
            has_left=self._has_left,
        )

    def next_row(self) -> Row:
        """Return a row to send, which is newer than those before."""
        self._count += 1
        return self.row

    def confirm(self, nonce: bytes, waited_out: list[str]) -> None:
        """Report that neither this replica nor any of its gates decides without a change.

        Args:
            nonce: Identifies the event of the change.
            waited_out: The names of gates whose leases were waited out.
        """
        more = len(waited_out) - MAX_NAMED
        names = [*waited_out[:MAX_NAMED], *([f"{more} more of {self._name}"] if more > 0 else [])]
        self._confirmed[nonce] = names
        while len(self._confirmed) > MAX_CONFIRMED:
            oldest = next(iter(self._confirmed))
            del self._confirmed[oldest]
            self._refused.discard(oldest)

    def refuse(self, nonce: bytes) -> None:
        """Report, once the change is confirmed, that it could not be carried out."""
        self._refused.add(nonce)

    def settle(self, sequence: int) -> None:
        """Report that what was cached before an event is forgotten here and by all gates."""
        self._settled = max(sequence, self._settled or 0)

    def start_over(self) -> None:
        """Report nothing as confirmed: the order of events is lost."""
        self._settled = None
        self._confirmed.clear()

    def leave(self) -> None:
        """Report that this replica has stopped, and no lease of it or of a gate is left."""
        self._has_left = True

    def _policy(self) -> tuple[int, str]:
        """Return the revision and the checksum of the policy, if one is loaded."""
        try:
            policy = self._engine.snapshot.policy
        except NotReady:
            return 0, ""
        return policy.revision, policy.checksum
