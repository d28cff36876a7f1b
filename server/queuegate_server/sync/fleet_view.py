"""A fleet as one of its replicas sees it, for people and monitoring."""

from collections.abc import Sequence
from typing import Literal, NamedTuple


class ReplicaView(NamedTuple):
    """A replica."""

    name: str
    state: Literal["following", "joining", "silent"]
    """It learns of each change; it sends heartbeats but does not follow yet; it sends none."""
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
    connected: bool
    """Whether the replica that looks at the fleet reaches Redis."""

    @property
    def checksums(self) -> set[str]:
        """The checksums of the policies that replicas serve which are not silent."""
        return {each.checksum for each in self.replicas if each.state != "silent"}

    @property
    def agreed(self) -> bool:
        """Whether all replicas follow the fleet and serve the same policy."""
        follow = all(each.state == "following" for each in self.replicas)
        return self.connected and follow and len(self.checksums) == 1 and "" not in self.checksums
