"""A fleet as one of its replicas sees it, for people and monitoring."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

ReplicaState = Literal["following", "starting", "joining", "silent"]
"""The replica learns of each change; has just started and does not follow yet; sends heartbeats but
does not follow; or sends none."""


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
    """The checksum of its policy; empty while it has none."""
    gates: int
    silent_seconds: float
    """Seconds since its last heartbeat."""


class FleetView(NamedTuple):
    """A fleet."""

    replicas: Sequence[ReplicaView]
    """All replicas, sorted by name."""
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
        """The checksums of the policies of replicas that are not silent."""
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
        silent = [each for each in self.replicas if each.state == "silent"]
        if own := [each for each in silent if each.is_self]:
            # What it last saw of the others is outdated.
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
