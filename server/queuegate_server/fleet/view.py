"""A fleet as one of its replicas sees it, for people and monitoring."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

ReplicaState = Literal["following", "starting", "joining", "silent"]
"""It learns of each change; it has just been started and does not follow yet; it sends heartbeats
but does not follow; it sends none."""


class ReplicaView(NamedTuple):
    """A replica."""

    name: str
    state: ReplicaState
    is_self: bool
    version: str
    lag: int
    """How many changes it has not applied yet."""
    revision: int
    checksum: str
    """Of its policy; empty while it has none."""
    gates: int
    silent_seconds: float
    """Since its last heartbeat."""


class FleetView(NamedTuple):
    """A fleet."""

    replicas: Sequence[ReplicaView]
    """Sorted by name."""
    mistakes: Sequence[str] = ()
    """Mistakes in the settings of replicas and of Redis, in sentences."""
    cause: str = ""
    """Why the replica that looks at the fleet cannot use Redis; empty if it can."""

    @property
    def connected(self) -> bool:
        """Whether the replica that looks at the fleet reaches Redis."""
        return not self.cause

    @property
    def checksums(self) -> set[str]:
        """The checksums of the policies that replicas serve which are not silent."""
        return {each.checksum for each in self.replicas if each.state != "silent"}

    @property
    def problems(self) -> Sequence[str]:
        """What keeps the fleet from being healthy, in sentences for people."""
        return [*self._states(), *self._policies(), *self.mistakes]

    @property
    def agreed(self) -> bool:
        """Whether all replicas follow the fleet and serve the same policy."""
        return not self.problems and all(each.state != "starting" for each in self.replicas)

    def _states(self) -> Iterator[str]:
        own = [each.name for each in self.replicas if each.is_self]
        if any(each.is_self and each.state == "silent" for each in self.replicas):
            # What it saw of the others is old.
            yield f"replica {', '.join(own)} cannot use Redis and works alone: {self.cause}"
            return
        silent = [
            each.name for each in self.replicas if each.state == "silent" and not each.is_self
        ]
        if silent:
            yield (
                f"replicas that send no heartbeats: {', '.join(silent)}: they have stopped, or"
                " cannot reach Redis"
            )
        joining = [each.name for each in self.replicas if each.state == "joining"]
        if joining:
            yield f"replicas that do not follow the fleet yet: {', '.join(joining)}"

    def _policies(self) -> Iterator[str]:
        without = [
            each.name
            for each in self.replicas
            if each.state in {"following", "joining"} and not each.checksum
        ]
        if without:
            yield f"replicas that have not loaded their policy yet: {', '.join(without)}"
        if len(self.checksums - {""}) > 1:
            yield "the replicas serve different policies: compare their files"
