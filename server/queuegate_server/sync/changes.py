"""Changes requested by callers: group invalidations and policy reloads.

`LocalChanges` applies them to this process and its gates; with a fleet, `fleet/changes.py` applies
them to all replicas.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from queuegate.policy.tree import Policy
from queuegate.v1 import cursor_pb2
from queuegate_server.engine import Engine
from queuegate_server.policystore.reloader import Reloader, ReloadState
from queuegate_server.reloads import ReloadCause
from queuegate_server.sync.barrier import StaleGate, Unconfirmed
from queuegate_server.sync.connected import ConnectedGate, listed
from queuegate_server.sync.hub import SyncHub


class NotReached(Exception):
    """A change did not reach all replicas; the message names the cause."""


class InvalidationResult(NamedTuple):
    """The result of an invalidation."""

    invalidated: int
    """The number of invalidated cache entries in this process."""
    cursor: cursor_pb2.Cursor
    waited_out: Sequence[str] = ()
    """The callers and replicas whose leases expired before they confirmed the change."""
    stale: Sequence[StaleGate] = ()
    """The callers that may still use the state from before the change."""


class ReloadResult(NamedTuple):
    """The result of a reload."""

    state: ReloadState
    cursor: cursor_pb2.Cursor | None
    """The reload's position in the log; None if it was not sent to replicas because the files are
    invalid."""
    waited_out: Sequence[str] = ()
    stale: Sequence[StaleGate] = ()
    disagreeing: Sequence[str] = ()
    """Messages about replicas that serve another policy or were not reached."""


class Changes(Protocol):
    """Applies changes requested by callers."""

    async def invalidate(
        self, partition: str, users: Collection[str], *, wait: bool
    ) -> InvalidationResult:
        """Invalidate the given users' groups, or all groups in the partition if `users` is empty.

        With `wait`, return once no caller uses the old groups under a lease. Raises NotReached.
        """

    async def reload(self, *, wait: bool) -> ReloadResult:
        """Reload the policy. Raises NotReached."""


class LocalChanges:
    """Implementation of `Changes` for this process and its gates."""

    def __init__(self, engine: Engine, reloader: Reloader, hub: SyncHub) -> None:
        self._engine = engine
        self._reloader = reloader
        self._hub = hub

    async def invalidate(
        self, partition: str, users: Collection[str], *, wait: bool
    ) -> InvalidationResult:
        """Invalidate groups; see `Changes`."""
        invalidated = await self.invalidate_groups(partition, users)
        cursor = self._hub.cursor
        unconfirmed = await self.gates_follow() if wait else ()
        return InvalidationResult(invalidated, cursor, *unconfirmed)

    async def reload(self, *, wait: bool) -> ReloadResult:
        """Reload the policy; see `Changes`."""
        state = await self.read_policy(ReloadCause.CALL)
        cursor = self._hub.cursor
        unconfirmed = await self.gates_follow() if wait else ()
        return ReloadResult(state, cursor, *unconfirmed)

    async def invalidate_groups(self, partition: str, users: Collection[str]) -> int:
        """Invalidate groups in this process and its gates; return how many were cached here."""
        invalidated = await self.invalidate_cache(partition, users)
        # Notify gates even if the partition is no longer served: they may still have its policy.
        self._hub.invalidate(partition, users)
        return invalidated

    async def invalidate_cache(self, partition: str, users: Collection[str]) -> int:
        """Invalidate groups in this process only; return how many were cached."""
        if partition not in self.partitions:
            return 0
        groups = self._engine.snapshot.served[partition].groups
        return groups.invalidate(users) if users else await groups.invalidate_all()

    def invalidate_gates(self) -> None:
        """Invalidate all groups in the gates, but not in this process."""
        # Include shipped partitions, because gates use the old policy until the new one ships.
        for partition in {*self.partitions, *self._hub.shipped}:
            self._hub.invalidate(partition)

    async def read_policy(self, cause: ReloadCause) -> ReloadState:
        """Reload the policy and send it to gates. Raises CannotShip."""
        state = await self._reloader.reload(cause)
        await self._hub.policy_shipped()
        return state

    async def gates_follow(self) -> Unconfirmed:
        """Wait until no gate uses state from before the newest change; see `SyncHub.barrier`."""
        return await self._hub.barrier(self._hub.log.head)

    @property
    def partitions(self) -> Collection[str]:
        """The served partitions."""
        latest = self._engine.latest
        return () if latest is None else latest.served

    @property
    def policy(self) -> Policy | None:
        """The served policy; None until it is loaded."""
        latest = self._engine.latest
        return None if latest is None else latest.policy

    @property
    def gates(self) -> int:
        """The number of connected gates."""
        return self._hub.streams.total()

    @property
    def connected_gates(self) -> Sequence[ConnectedGate]:
        """Some of the connected gates."""
        return listed(each.gate for each in self._hub.leases)

    @property
    def stale_seconds(self) -> float:
        """How long a gate may decide from its last state if this process stops now."""
        return self._hub.leases.longest_stale(self._hub.now)
