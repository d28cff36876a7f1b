"""Changes that callers ask for: groups are invalidated, the policy is read again.

`LocalChanges` carries them out in this process and its gates; with a fleet, `fleet/changes.py`
carries them out in all replicas.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from queuegate.policy.tree import Policy
from queuegate.v1 import cursor_pb2
from queuegate_server.engine import Engine, NotReady
from queuegate_server.policystore.reloader import Reloader, ReloadState
from queuegate_server.sync.hub import SyncHub


class NotReached(Exception):
    """A change took effect here, but not in all other replicas; the message names the cause."""


class InvalidationResult(NamedTuple):
    """The result of an invalidation."""

    invalidated: int
    """How many cached answers of this process were invalidated."""
    cursor: cursor_pb2.Cursor
    waited_out: Sequence[str] = ()
    """The callers and replicas whose lease ended before they had confirmed."""


class ReloadResult(NamedTuple):
    """The result of reading the policy again."""

    state: ReloadState
    cursor: cursor_pb2.Cursor | None
    """The reload in the order of changes; None if the files have errors and other replicas cannot
    be told to read theirs."""
    waited_out: Sequence[str] = ()
    disagreeing: Sequence[str] = ()
    """Sentences about replicas that serve another policy, or were not reached."""


class Changes(Protocol):
    """Carries changes out."""

    async def invalidate(
        self, partition: str, users: Collection[str], *, wait: bool
    ) -> InvalidationResult:
        """Invalidate the groups of users, or of all users of the partition if none is named. If
        told to, wait until nobody decides from them. Raises NotReached.
        """

    async def reload(self, *, wait: bool) -> ReloadResult:
        """Read the policy again. Raises NotReached."""


class LocalChanges:
    """Changes in this process and its gates."""

    def __init__(self, engine: Engine, reloader: Reloader, hub: SyncHub) -> None:
        """Use an engine, a reloader, and the hub of the gates."""
        self._engine = engine
        self._reloader = reloader
        self._hub = hub

    async def invalidate(
        self, partition: str, users: Collection[str], *, wait: bool
    ) -> InvalidationResult:
        """Invalidate groups, as `Changes` describes."""
        invalidated = await self.invalidate_groups(partition, users)
        cursor = self._hub.cursor
        return InvalidationResult(invalidated, cursor, await self.gates_follow() if wait else ())

    async def reload(self, *, wait: bool) -> ReloadResult:
        """Read the policy again, as `Changes` describes."""
        state = await self.read_policy()
        cursor = self._hub.cursor
        return ReloadResult(state, cursor, await self.gates_follow() if wait else ())

    async def invalidate_groups(self, partition: str, users: Collection[str]) -> int:
        """Invalidate groups here and in the gates; return how many were cached here."""
        invalidated = await self.invalidate_cache(partition, users)
        # Gates may still have the policy of a partition that this server no longer serves.
        self._hub.invalidate(partition, users)
        return invalidated

    async def invalidate_cache(self, partition: str, users: Collection[str]) -> int:
        """Invalidate groups here only; return how many were cached."""
        if partition not in self.partitions:
            return 0
        groups = self._engine.snapshot.served[partition].groups
        return groups.invalidate(users) if users else await groups.invalidate_all()

    def invalidate_gates(self) -> None:
        """Invalidate all groups in the gates only."""
        # Until another policy has been shipped, gates still use the previous one.
        for partition in {*self.partitions, *self._hub.shipped}:
            self._hub.invalidate(partition)

    async def read_policy(self) -> ReloadState:
        """Read the policy again, and send it to gates. Raises CannotShip."""
        state = await self._reloader.reload()
        await self._hub.policy_shipped()
        return state

    async def gates_follow(self) -> Sequence[str]:
        """Wait until no gate decides from an earlier state, as `SyncHub.barrier` describes."""
        return await self._hub.barrier(self._hub.log.head)

    @property
    def partitions(self) -> Collection[str]:
        """The partitions that are served."""
        return () if self.policy is None else self._engine.snapshot.served

    @property
    def policy(self) -> Policy | None:
        """The policy that is served; None until it is loaded."""
        try:
            return self._engine.snapshot.policy
        except NotReady:
            return None

    @property
    def gates(self) -> int:
        """How many gates are connected."""
        return self._hub.streams
