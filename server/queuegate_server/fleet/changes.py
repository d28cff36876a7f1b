"""Changes in all replicas of a fleet and their gates."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from queuegate_server.engine import ServedPartition
from queuegate_server.fleet.barrier import FleetBarrier
from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import Change
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.member import FleetMember
from queuegate_server.policystore.reloader import Reloader, ReloadState
from queuegate_server.sync.changes import Forgotten, NotReached, Reloaded, drop_groups
from queuegate_server.sync.hub import SyncHub

T = TypeVar("T")

RELOAD_SECONDS: Final = 60.0
"""How long other replicas may take to read the policy."""
ATTEMPTS: Final = 3
"""How often a change is appended whose event is lost before it is confirmed."""
MAX_AT_ONCE: Final = 256
"""Changes that are being carried out or appended."""
POLL_SECONDS: Final = 0.02
"""Between the heartbeats that ask whether the others have confirmed."""


class _Made(NamedTuple, Generic[T]):
    """A change that has been made here, and whose event has been appended."""

    result: T
    sequence: int
    """Its number for the gates of this replica."""
    event: LogPosition
    barrier: FleetBarrier
    """Waits for the other replicas."""
    waited_out: Sequence[str] = ()
    """The gates and replicas that were waited out."""


class FleetChanges:
    """Carries changes out here, appends them to the fleet's events, and waits for the others."""

    def __init__(
        self,
        member: FleetMember,
        reloader: Reloader,
        hub: SyncHub,
        clock: Callable[[], float],
    ) -> None:
        """Use this replica, its reloader, its gates, and the clock of the leases."""
        self._member = member
        self._reloader = reloader
        self._hub = hub
        self._clock = clock
        self._work: set[asyncio.Task[Any]] = set()

    async def forget(
        self, served: ServedPartition, users: Sequence[str], *, wait: bool
    ) -> Forgotten:
        """Forget groups, as `queuegate_server.sync.changes.Changes` describes."""
        partition = served.partition.name

        dropped = 0

        async def drop() -> tuple[int, int]:
            nonlocal dropped
            dropped += await drop_groups(served, users)
            return dropped, self._hub.forget(partition, users)

        change = Change.forget(partition, users, is_awaited=wait)
        made = await self._make(change, drop, wait=wait)
        return Forgotten(made.result, made.event.cursor, made.waited_out)

    async def reload(self, *, wait: bool) -> Reloaded:
        """Read the policy again, as `queuegate_server.sync.changes.Changes` describes."""

        async def read() -> tuple[ReloadState, int]:
            state = await self._reloader.reload()
            return state, await self._hub.policy_shipped()

        change = Change("reload", is_awaited=wait)
        made = await self._make(change, read, wait=True, seconds=RELOAD_SECONDS)
        return Reloaded(
            made.result, made.event.cursor, made.waited_out, self._disagreeing(made.barrier)
        )

    def _disagreeing(self, barrier: FleetBarrier) -> list[str]:
        """Return how replicas differ from this one after a reload."""
        own = self._member.status.checksum
        disagreeing = [
            f"replica {name!r} cannot load its policy: see its log" for name in barrier.failed
        ]
        disagreeing += [
            f"replica {name!r} has not confirmed the reload: it may use the old policy "
            "until it rereads its file"
            for name in barrier.unconfirmed
        ]
        return disagreeing + [
            f"replica {peer.status.name!r} serves a different policy from replica"
            f" {self._member.name!r}: compare their files"
            for peer in self._member.peers.all().values()
            if peer.status.checksum != own
            and peer.status.name not in (*barrier.failed, *barrier.unconfirmed)
            and not peer.is_silent(self._clock())
        ]

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry a change out even if the call that asked for it is cancelled: part of it may have
        taken effect.
        """
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be gone

    async def _make(
        self,
        change: Change,
        take_effect: Callable[[], Awaitable[tuple[T, int]]],
        *,
        wait: bool,
        seconds: float = 0.0,
    ) -> _Made[T]:
        """Make a change here and in the other replicas; again if Redis loses its event before all
        of them have confirmed it. Raises NotReached.

        Args:
            change: The change.
            take_effect: Makes it here; returns a result, and its number for the gates.
            wait: Whether to wait for the other replicas.
            seconds: How long the change itself takes.
        """
        if len(self._work) >= MAX_AT_ONCE:
            raise NotReached("too many changes are in progress, and nothing was changed: try again")
        reached = 1
        try:
            for _ in range(ATTEMPTS):
                made = await self._to_the_end(self._make_here(change, take_effect))
                if not wait:
                    return made
                waited_out = await self._wait(change, made, seconds)
                if waited_out is not None:
                    return made._replace(waited_out=waited_out)
                reached = max(reached, made.barrier.reached)
            cause = f"Redis lost the event {ATTEMPTS} times"
        except StoreUnavailable as error:
            cause = f"Redis is unavailable ({error})"
        self._member.send_later(change)
        raise self._not_reached(change, reached, cause)

    async def _make_here(
        self, change: Change, take_effect: Callable[[], Awaitable[tuple[T, int]]]
    ) -> _Made[T]:
        """Make a change here, and append its event. Raises StoreUnavailable."""
        pending = self._member.fence.begin(change.partition, change.users)
        event = None
        try:
            result, sequence = await take_effect()
            event = await self._append(change)
        except StoreUnavailable:
            self._member.send_later(change)  # here: the caller may be gone
            raise
        finally:
            self._member.fence.end(pending, event)
        barrier = FleetBarrier(
            *(self._member.peers, event, self._clock()), has_event=self._member.log.has_event
        )
        return _Made(result, sequence, event, barrier)

    async def _wait(self, change: Change, made: _Made[Any], seconds: float) -> list[str] | None:
        """Wait until all others have made a change, and until no gate here decides without it if
        somebody waits for that. Raises StoreUnavailable.

        Returns:
            The gates and replicas that were waited out; None if Redis has lost the event.
        """
        gates = asyncio.create_task(self._gates(change, made.sequence))
        try:
            if await self._has_reached_all(made.barrier, made.event, seconds):
                return [*await gates, *made.barrier.waited_out]
            return None
        finally:
            gates.cancel()

    async def _gates(self, change: Change, sequence: int) -> list[str]:
        return await self._hub.barrier(sequence) if change.is_awaited else []

    def _not_reached(self, change: Change, reached: int, cause: str) -> NotReached:
        """Return the error for the caller."""
        total = 1 + len(self._member.peers.all())
        what = "invalidation" if change.kind == "forget" else "reload"
        reach = f"{reached} of {total} replicas"
        if not self._member.has_followed:
            reach = "only this replica, which does not know the others yet"
        return NotReached(
            f"the {what} reached {reach}: {cause}; the other replicas will apply it once Redis"
            " works again"
        )

    async def _append(self, change: Change) -> LogPosition:
        """Append an event. Raises StoreUnavailable."""
        try:
            return await self._member.append(change)
        except StoreUnavailable:
            # It may be another history by now, which this replica has yet to follow.
            await self._member.heartbeat()
            if self._member.error is not None:
                raise self._member.error from None
            return await self._member.append(change)

    async def _has_reached_all(
        self, barrier: FleetBarrier, event: LogPosition, seconds: float
    ) -> bool:
        """Wait for the others. Return False if the event was lost meanwhile.

        Raises StoreUnavailable.
        """
        while barrier.next_end(self._clock(), seconds) is not None:
            await asyncio.sleep(POLL_SECONDS)
            await self._member.heartbeat()
            if not await self._has(event):
                return False
        if not barrier.relies_on_leases:
            return True
        # Leases have ended only if all of them were asked for before this event was appended,
        # to a Redis that still has it.
        await self._member.heartbeat()
        return await self._has(event)

    async def _has(self, event: LogPosition) -> bool:
        """Return whether the history that Redis has contains the event. Raises StoreUnavailable."""
        if not self._member.log.contains(event):
            # This replica may have lost the order for a moment, and follows again.
            await self._member.heartbeat()
        if self._member.error is not None:
            raise self._member.error
        return self._member.log.contains(event)
