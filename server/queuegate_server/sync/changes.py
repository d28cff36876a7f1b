"""Changes that callers ask for: groups are forgotten, the policy is read again.

`LocalChanges` carries them out in this process and its gates; with a fleet, `fleet/changes.py`
carries them out in all replicas.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from queuegate.v1 import cursor_pb2
from queuegate_server.engine import ServedPartition
from queuegate_server.policystore.reloader import Reloader, ReloadState
from queuegate_server.sync.hub import SyncHub


class NotReached(Exception):
    """A change took effect here, but not in all other replicas; the message names the cause."""


class Forgotten(NamedTuple):
    """The result of forgetting groups."""

    dropped: int
    """How many cached answers this process dropped."""
    cursor: cursor_pb2.Cursor
    waited_out: Sequence[str] = ()
    """The callers, and the replicas, whose lease ended before they had confirmed."""


class Reloaded(NamedTuple):
    """The result of reading the policy again."""

    state: ReloadState
    cursor: cursor_pb2.Cursor
    waited_out: Sequence[str] = ()
    disagreeing: Sequence[str] = ()
    """Sentences about replicas that serve another policy."""


class Changes(Protocol):
    """Carries changes out."""

    async def forget(
        self, served: ServedPartition, users: Sequence[str], *, wait: bool
    ) -> Forgotten:
        """Forget the groups of users, or of all users of the partition if none is named.

        Args:
            served: The partition.
            users: The users.
            wait: Whether to wait until nobody decides from the groups any more.

        Raises:
            NotReached: Not all replicas could be reached.
        """

    async def reload(self, *, wait: bool) -> Reloaded:
        """Read the policy again. Raises NotReached."""


async def drop_groups(served: ServedPartition, users: Sequence[str]) -> int:
    """Drop the cached groups of users, or of all; return how many were known."""
    if users:
        return served.groups.invalidate(users)
    return await served.groups.invalidate_all()


class LocalChanges:
    """Changes in this process and its gates."""

    def __init__(self, reloader: Reloader, hub: SyncHub) -> None:
        """Use a reloader, and the hub of the gates."""
        self._reloader = reloader
        self._hub = hub

    async def forget(
        self, served: ServedPartition, users: Sequence[str], *, wait: bool
    ) -> Forgotten:
        """Forget groups, as `Changes` describes."""
        dropped = await drop_groups(served, users)
        sequence = self._hub.forget(served.partition.name, users)
        waited_out = await self._hub.barrier(sequence) if wait else ()
        return Forgotten(dropped, self._hub.cursor(sequence), waited_out)

    async def reload(self, *, wait: bool) -> Reloaded:
        """Read the policy again, as `Changes` describes."""
        state = await self._reloader.reload()
        sequence = await self._hub.policy_shipped()
        waited_out = await self._hub.barrier(sequence) if wait else ()
        return Reloaded(state, self._hub.cursor(sequence), waited_out)
