"""A replica's view of the fleet, for display and monitoring."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from queuegate_server.sync.connected import ConnectedGate

WEBHOOK: Final = "webhook"
"""The role of an admission webhook. That of a server is empty."""
ReplicaState = Literal["following", "starting", "joining", "silent"]
"""A `following` replica receives all changes. A `starting` replica was just launched and does not
follow the fleet yet, a `joining` replica sends heartbeats but does not follow, and a `silent`
replica sends no heartbeats."""


class QueueDecisions(NamedTuple):
    """The decisions of a webhook about one scheduler's queues, since the webhook started."""

    scheduler: str
    """A scheduler, or another value of the `scheduler` label of the webhook's metric."""
    mode: str
    """The current mode; empty if the settings have none."""
    allowed: int = 0
    denied: int = 0
    warned: int = 0
    """The number of decisions that would have been denied in `deny` mode."""
    failed: int = 0
    """The number of checks that ended with an error."""


class ReplicaView(NamedTuple):
    """A replica as seen by the observing replica."""

    name: str
    state: ReplicaState
    is_self: bool
    version: str
    role: str
    """`webhook` for an admission webhook; empty for a server."""
    lag: int
    """The number of changes not yet applied."""
    revision: int
    checksum: str
    """The checksum of the policy; empty if none is loaded."""
    gates: int
    silent_seconds: float
    """Seconds since the last heartbeat."""
    queue_decisions: Sequence[QueueDecisions] = ()
    """The decisions of a webhook by scheduler; empty for a server."""
    connected_gates: Sequence[ConnectedGate] = ()
    """Some of the connected gates."""
    http_addresses: Sequence[str] = ()
    """The addresses on which a server listens over HTTP."""


class FleetView(NamedTuple):
    """The fleet as seen by one replica."""

    replicas: Sequence[ReplicaView]
    """All replicas, sorted by name."""
    mistakes: Sequence[str] = ()
    """Messages about configuration mistakes in replicas and Redis."""
    cause: str = ""
    """Why the observing replica cannot use Redis; empty if it can."""

    @property
    def connected(self) -> bool:
        """Whether the observing replica can use Redis."""
        return not self.cause

    @property
    def checksums(self) -> set[str]:
        """The policy checksums of all replicas that send heartbeats."""
        return {each.checksum for each in self.replicas if each.state != "silent"}

    @property
    def problems(self) -> Sequence[str]:
        """Messages explaining why the fleet is unhealthy."""
        return [*self._states(), *self._policies(), *self.mistakes]

    @property
    def agreed(self) -> bool:
        """Whether all replicas follow the fleet and serve the same policy."""
        return not self.problems and all(each.state != "starting" for each in self.replicas)

    def _states(self) -> Iterator[str]:
        silent = [each for each in self.replicas if each.state == "silent"]
        if own := [each for each in silent if each.is_self]:
            # Do not report other replicas' problems, because their statuses are outdated.
            yield f"replica {_names(own)} cannot use Redis and works alone: {self.cause}"
            return
        if silent:
            yield (
                f"replicas that send no heartbeats: {_names(silent)}: they have stopped, or"
                " cannot reach Redis"
            )
        if joining := [each for each in self.replicas if each.state == "joining"]:
            yield f"replicas that do not follow the fleet yet: {_names(joining)}"

    def _policies(self) -> Iterator[str]:
        awake = [each for each in self.replicas if each.state in {"following", "joining"}]
        if without := [each for each in awake if not each.checksum]:
            yield f"replicas that have not loaded their policy yet: {_names(without)}"
        if len(self.checksums - {""}) > 1:
            yield "the replicas serve different policies: compare their files"


def _names(replicas: Sequence[ReplicaView]) -> str:
    return ", ".join(each.name for each in replicas)
