"""Applies changes to all replicas and their gates."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, Final

from queuegate_server.fleet.barrier import FleetBarrier
from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import Change
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.member import FleetMember
from queuegate_server.reloads import ReloadCause
from queuegate_server.sync.changes import InvalidationResult, LocalChanges, NotReached, ReloadResult

if TYPE_CHECKING:
    from queuegate_server.policystore.reloader import ReloadState

RELOAD_SECONDS: Final = 60.0
"""How long other replicas may take to read the policy, in seconds."""
ATTEMPTS: Final = 3
"""The maximum number of times a change is appended if Redis keeps losing its event."""
MAX_AT_ONCE: Final = 256
"""The maximum number of changes in progress."""
POLL_SECONDS: Final = 0.02
"""The pause between heartbeats that poll for confirmations. They must poll, because Redis cannot
block until a hash field changes."""


class FleetChanges:
    """Implements `sync.changes.Changes` for a fleet."""

    def __init__(
        self, member: FleetMember, local: LocalChanges, clock: Callable[[], float]
    ) -> None:
        self._member = member
        self._session = member.session
        self._local = local
        self._clock = clock
        self._work: set[asyncio.Task[Any]] = set()

    async def invalidate(
        self, partition: str, users: Collection[str], *, wait: bool
    ) -> InvalidationResult:
        """Invalidate groups; see `queuegate_server.sync.changes.Changes`."""
        invalidated = 0

        async def invalidate() -> None:
            nonlocal invalidated
            invalidated += await self._local.invalidate_groups(partition, users)

        change = Change.invalidate(partition, users, is_awaited=wait)
        barrier = await self._carry_out(change, invalidate, wait=wait)
        cursor = barrier.event.cursor
        return InvalidationResult(invalidated, cursor, barrier.waited_out, barrier.stale)

    async def reload(self, *, wait: bool) -> ReloadResult:
        """Reload the policy; see `queuegate_server.sync.changes.Changes`."""
        change = Change("reload", is_awaited=wait)
        states: list[ReloadState] = []

        async def reload() -> None:
            states.append(await self._local.read_policy(ReloadCause.CALL))

        try:
            barrier = await self._carry_out(change, reload, wait=True, seconds=RELOAD_SECONDS)
        except NotReached as error:
            if not states or states[-1].succeeded:
                raise
            # Report the errors in the files, which prevent a reload from reaching other replicas.
            return ReloadResult(states[-1], None, disagreeing=[str(error)])
        return ReloadResult(
            states[-1],
            barrier.event.cursor,
            barrier.waited_out,
            barrier.stale,
            self._disagreeing(barrier),
        )

    def _disagreeing(self, barrier: FleetBarrier) -> list[str]:
        """Return an error message for each replica whose policy may differ after a reload."""
        own = self._member.status.checksum
        disagreeing = [
            f"replica {name!r} cannot load its policy: check its log" for name in barrier.failed
        ]
        disagreeing += [
            f"replica {name!r} has not confirmed the reload: it may use the old policy "
            "until it rereads its file"
            for name in barrier.unconfirmed
        ]
        return disagreeing + [
            f"replica {peer.status.name!r} serves a different policy from replica"
            f" {self._session.name!r}: compare their files"
            for peer in self._session.peers.all().values()
            if peer.status.checksum != own
            and peer.status.name not in (*barrier.failed, *barrier.unconfirmed)
            and not peer.is_silent(self._clock())
        ]

    async def _carry_out(
        self,
        change: Change,
        take_effect: Callable[[], Awaitable[None]],
        *,
        wait: bool,
        seconds: float = 0.0,
    ) -> FleetBarrier:
        """Apply a change in all replicas; in this one, by calling `take_effect`.

        Each running replica gets `seconds` to apply the change. If Redis loses the event before all
        replicas have confirmed it, the change is appended again. Raises NotReached.
        """
        if len(self._work) >= MAX_AT_ONCE:
            raise NotReached("too many changes are in progress, and nothing was changed: try again")
        reached = 1
        try:
            for _ in range(ATTEMPTS):
                barrier = await self._shielded(self._append_effect(change, take_effect))
                if not wait or await self._wait_for_all(change, barrier, seconds):
                    return barrier
                reached = max(reached, barrier.reached)
            cause = f"Redis lost the event {ATTEMPTS} times"
        except StoreUnavailable as error:
            cause = f"Redis is unavailable ({error})"
        self._member.send_later(change)
        raise self._not_reached(change, reached, cause)

    async def _shielded(self, work: Coroutine[Any, Any, FleetBarrier]) -> FleetBarrier:
        """Run `work` to completion even if the RPC is canceled, so that no change is half done."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # avoids asyncio's warning if the caller is gone

    async def _append_effect(
        self, change: Change, take_effect: Callable[[], Awaitable[None]]
    ) -> FleetBarrier:
        """Apply a change here and append its event. Raises StoreUnavailable."""
        pending = self._session.fence.begin(change.partition, change.users)
        event = None
        try:
            await take_effect()
            event = await self._append(change)
        except StoreUnavailable:
            self._member.send_later(change)  # the caller may be gone, so queue it here
            raise
        finally:
            self._session.fence.end(pending, event)
        return self._session.barrier(event, self._clock())

    async def _append(self, change: Change) -> LogPosition:
        try:
            return await self._member.append(change)
        except StoreUnavailable:
            # Redis may contain a new history. A heartbeat makes this replica follow it.
            await self._member.heartbeat()
            self._check_redis()
            return await self._member.append(change)

    async def _wait_for_all(self, change: Change, barrier: FleetBarrier, seconds: float) -> bool:
        """Wait until the other replicas (and local gates, if awaited) have applied the change.

        Adds to the barrier the local gates that have not confirmed the change. Returns False if
        Redis has lost the event. Raises StoreUnavailable.
        """
        gates = asyncio.create_task(self._local.gates_follow()) if change.is_awaited else None
        try:
            while not self._session.has_reached_all(barrier, self._clock(), seconds):
                await asyncio.sleep(POLL_SECONDS)
                await self._member.heartbeat()
                if not self._session.log.contains(barrier.event):
                    # If this replica has lost the history, a second heartbeat may rejoin it.
                    await self._member.heartbeat()
                self._check_redis()
                if not self._session.log.contains(barrier.event):
                    return False
            if gates:
                own = await gates
                barrier.waited_out[:0] = own.waited_out
                barrier.stale[:0] = own.stale
            return True
        finally:
            if gates:
                gates.cancel()

    def _check_redis(self) -> None:
        """Raise StoreUnavailable if the last heartbeat failed."""
        if self._member.error is not None:
            raise self._member.error from None

    def _not_reached(self, change: Change, reached: int, cause: str) -> NotReached:
        total = 1 + len(self._session.peers.all())
        what = "reload" if change.is_reload else "invalidation"
        reach = f"{reached} of {total} replicas"
        if not self._session.has_followed:
            reach = "only this replica, which does not know the others yet"
        elif reached >= total:
            known = "the only replica" if total == 1 else f"all {total} replicas"
            return NotReached(
                f"the {what} reached {known} known to this one, but is not confirmed: {cause}; it"
                " will be sent again once Redis works"
            )
        return NotReached(
            f"the {what} reached {reach}: {cause}; the other replicas will apply it once Redis"
            " works again"
        )
