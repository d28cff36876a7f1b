"""Changes in all replicas of a fleet and their gates."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

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

        async def drop() -> tuple[int, int]:
            dropped = await drop_groups(served, users)
            return dropped, self._hub.forget(partition, users)

        change = Change.forget(partition, users, is_awaited=wait)
        (dropped, sequence), event, barrier = await self._to_the_end(self._begin(change, drop))
        if not wait:
            return Forgotten(dropped, event.cursor, ())
        event, barrier, waited_out = await self._wait(change, event, barrier, sequence)
        return Forgotten(dropped, event.cursor, waited_out)

    async def reload(self, *, wait: bool) -> Reloaded:
        """Read the policy again, as `queuegate_server.sync.changes.Changes` describes."""

        async def read() -> tuple[ReloadState, int]:
            state = await self._reloader.reload()
            return state, await self._hub.policy_shipped()

        change = Change("reload", is_awaited=wait)
        (state, sequence), event, barrier = await self._to_the_end(self._begin(change, read))
        event, barrier, waited_out = await self._wait(
            change, event, barrier, sequence if wait else None, seconds=RELOAD_SECONDS
        )
        return Reloaded(state, event.cursor, waited_out, self._disagreeing(barrier))

    def _disagreeing(self, barrier: FleetBarrier) -> list[str]:
        """Return how replicas differ from this one after a reload."""
        own = self._member.status.checksum
        disagreeing = [
            f"replica {name!r} cannot load its policy: its log says why" for name in barrier.failed
        ]
        disagreeing += [
            f"replica {name!r} has not confirmed the reload: it may decide by the policy of before"
            " until it has read its file again"
            for name in barrier.unconfirmed
        ]
        return disagreeing + [
            f"replica {peer.status.name!r} serves another policy than replica"
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
        if len(self._work) >= MAX_AT_ONCE:
            work.close()
            raise NotReached("too many changes are under way, and nothing was done: try again")
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be gone

    async def _begin(
        self, change: Change, take_effect: Callable[[], Awaitable[T]]
    ) -> tuple[T, LogPosition, FleetBarrier]:
        """Carry a change out here, and append its event. Raises NotReached."""
        pending = self._member.fence.begin(change.partition, change.users)
        event = None
        try:
            done = await take_effect()
            event, barrier = await self._append(change)
        except StoreUnavailable as error:
            raise self._not_reached(change, 1, f"Redis cannot be used ({error})") from error
        finally:
            self._member.fence.end(pending, event)
        return done, event, barrier

    async def _wait(
        self,
        change: Change,
        event: LogPosition,
        barrier: FleetBarrier,
        sequence: int | None,
        *,
        seconds: float = 0.0,
    ) -> tuple[LogPosition, FleetBarrier, list[str]]:
        """Wait until all others have carried a change out, and append its event again if Redis has
        lost it. Raises NotReached.

        Args:
            change: The change.
            event: Its event.
            barrier: Waits for the other replicas.
            sequence: The number of the change for gates of this replica; None not to wait for them.
            seconds: How long the change itself takes.

        Returns:
            The event that counts, its barrier, and the gates and replicas that were waited out.
        """
        gates = asyncio.create_task(self._gates(sequence))
        reached = 1
        try:
            for _ in range(ATTEMPTS):
                is_certain = await self._wait_for(barrier, event, seconds)
                reached = max(reached, barrier.reached)
                if is_certain:
                    return event, barrier, [*await gates, *barrier.waited_out]
                event, barrier = await self._append(change)
            cause = f"Redis lost the event {ATTEMPTS} times"
        except StoreUnavailable as error:
            cause = f"Redis cannot be used ({error})"
        finally:
            gates.cancel()
        raise self._not_reached(change, reached, cause)

    async def _gates(self, sequence: int | None) -> list[str]:
        return [] if sequence is None else await self._hub.barrier(sequence)

    def _not_reached(self, change: Change, reached: int, cause: str) -> NotReached:
        """Have a change sent later; return the error for its caller."""
        self._member.send_later(change)
        total = 1 + len(self._member.peers.all())
        what = "invalidation" if change.kind == "forget" else "reload"
        reach = f"{reached} of {total} replicas"
        if not self._member.has_followed:
            reach = "only this replica, which does not know the others yet"
        return NotReached(
            f"the {what} reached {reach}: {cause}; the other replicas will apply it once Redis"
            " works again"
        )

    async def _append(self, change: Change) -> tuple[LogPosition, FleetBarrier]:
        """Append a change. Raises StoreUnavailable."""
        try:
            event = await self._member.append(change)
        except StoreUnavailable:
            # It may be another history by now, which this replica has yet to follow.
            await self._member.heartbeat()
            if self._member.error is not None:
                raise self._member.error from None
            event = await self._member.append(change)
        has_event = self._member.log.has_event
        return event, FleetBarrier(self._member.peers, event, self._clock(), has_event=has_event)

    async def _wait_for(self, barrier: FleetBarrier, event: LogPosition, seconds: float) -> bool:
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
