"""Changes in all replicas of a fleet and their gates."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from queuegate_server.fleet.barrier import FleetBarrier
from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import Change
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.member import FleetMember
from queuegate_server.policystore.reloader import ReloadState
from queuegate_server.sync.changes import InvalidationResult, LocalChanges, NotReached, ReloadResult

T = TypeVar("T")

RELOAD_SECONDS: Final = 60.0
"""How long other replicas may take to read the policy."""
ATTEMPTS: Final = 3
"""How often a change is appended whose event is lost before it is confirmed."""
MAX_AT_ONCE: Final = 256
"""Changes that are being carried out or appended."""
POLL_SECONDS: Final = 0.02
"""Between the heartbeats that ask whether the others have confirmed: a status is a field of a hash,
for which no command of Redis can wait."""


class _Result(NamedTuple, Generic[T]):
    """A change that took effect here, and whose event has been appended."""

    result: T
    barrier: FleetBarrier
    """Waits until the other replicas have applied the event."""
    waited_out: Sequence[str] = ()
    """The gates and replicas that were waited out."""


class FleetChanges:
    """Carries changes out here, appends them to the fleet's events, and waits for the others."""

    def __init__(
        self,
        member: FleetMember,
        local: LocalChanges,
        clock: Callable[[], float],
    ) -> None:
        """Use this replica, the changes in its process, and the clock of the leases."""
        self._member = member
        self._session = member.session
        self._local = local
        self._clock = clock
        self._work: set[asyncio.Task[Any]] = set()

    async def invalidate(
        self, partition: str, users: Collection[str], *, wait: bool
    ) -> InvalidationResult:
        """Invalidate groups, as `queuegate_server.sync.changes.Changes` describes."""
        dropped = 0

        async def invalidate() -> int:
            nonlocal dropped
            dropped += await self._local.invalidate_groups(partition, users)
            return dropped

        change = Change.invalidate(partition, users, is_awaited=wait)
        result = await self._make(change, invalidate, wait=wait)
        return InvalidationResult(result.result, result.barrier.event.cursor, result.waited_out)

    async def reload(self, *, wait: bool) -> ReloadResult:
        """Read the policy again, as `queuegate_server.sync.changes.Changes` describes."""
        change = Change("reload", is_awaited=wait)
        invalid: ReloadState | None = None

        async def reload() -> ReloadState:
            nonlocal invalid
            state = await self._local.read_policy()
            invalid = None if state.succeeded else state
            return state

        try:
            result = await self._make(change, reload, wait=True, seconds=RELOAD_SECONDS)
        except NotReached as error:
            if invalid is None:
                raise
            # The errors in the files come first: without them, there is nothing to distribute.
            return ReloadResult(invalid, None, (), [str(error)])
        state, barrier, waited_out = result
        return ReloadResult(state, barrier.event.cursor, waited_out, self._disagreeing(barrier))

    def _disagreeing(self, barrier: FleetBarrier) -> list[str]:
        """Return how replicas differ from this one after a reload."""
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
        take_effect: Callable[[], Awaitable[T]],
        *,
        wait: bool,
        seconds: float = 0.0,
    ) -> _Result[T]:
        """Make a change here and in the other replicas; again if Redis loses its event before all
        of them have confirmed it. Raises NotReached.

        Args:
            change: The change.
            take_effect: Makes it here.
            wait: Whether to wait for the other replicas.
            seconds: How long the change itself takes.
        """
        if len(self._work) >= MAX_AT_ONCE:
            raise NotReached("too many changes are in progress, and nothing was changed: try again")
        reached = 1
        try:
            for _ in range(ATTEMPTS):
                result = await self._to_the_end(self._make_here(change, take_effect))
                if not wait:
                    return result
                waited_out = await self._wait(change, result, seconds)
                if waited_out is not None:
                    return result._replace(waited_out=waited_out)
                reached = max(reached, result.barrier.reached)
            cause = f"Redis lost the event {ATTEMPTS} times"
        except StoreUnavailable as error:
            cause = f"Redis is unavailable ({error})"
        self._member.send_later(change)
        raise self._not_reached(change, reached, cause)

    async def _make_here(
        self, change: Change, take_effect: Callable[[], Awaitable[T]]
    ) -> _Result[T]:
        """Make a change here, and append its event. Raises StoreUnavailable."""
        pending = self._session.fence.begin(change.partition, change.users)
        event = None
        try:
            result = await take_effect()
            event = await self._append(change)
        except StoreUnavailable:
            self._member.send_later(change)  # here: the caller may be gone
            raise
        finally:
            self._session.fence.end(pending, event)
        return _Result(result, self._session.barrier(event, self._clock()))

    async def _wait(self, change: Change, result: _Result[Any], seconds: float) -> list[str] | None:
        """Wait until all others have made a change, and until no gate here decides without it if
        somebody waits for that. Raises StoreUnavailable.

        Returns:
            The gates and replicas that were waited out; None if Redis has lost the event.
        """
        gates = asyncio.create_task(self._local.gates_follow()) if change.is_awaited else None
        try:
            if await self._has_reached_all(result.barrier, seconds):
                return [*(await gates if gates else ()), *result.barrier.waited_out]
            return None
        finally:
            if gates:
                gates.cancel()

    def _not_reached(self, change: Change, reached: int, cause: str) -> NotReached:
        """Return the error for the caller."""
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

    async def _has_reached_all(self, barrier: FleetBarrier, seconds: float) -> bool:
        """Wait for the others. Return False if the event was lost meanwhile.

        Raises StoreUnavailable.
        """
        while not self._session.has_reached_all(barrier, self._clock(), seconds):
            await asyncio.sleep(POLL_SECONDS)
            await self._member.heartbeat()
            if not await self._has(barrier.event):
                return False
        return True

    async def _has(self, event: LogPosition) -> bool:
        """Return whether the history that Redis has contains the event. Raises StoreUnavailable."""
        if not self._session.log.contains(event):
            # This replica may have lost the order for a moment, and follows again.
            await self._member.heartbeat()
        if self._member.error is not None:
            raise self._member.error
        return self._session.log.contains(event)
