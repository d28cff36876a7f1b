"""Applies the fleet's events as they arrive, and performs the I/O for `FleetSession`."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import Event, MalformedEntry
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.steps import Join, Loss, Receipt
from queuegate_server.fleet.stream import Stream
from queuegate_server.reloads import ReloadCause
from queuegate_server.runtime import pauses
from queuegate_server.sync.barrier import Unconfirmed
from queuegate_server.sync.changes import LocalChanges
from queuegate_server.sync.hub import CannotShip

_LOG = logging.getLogger("queuegate_server.fleet")
CATCH_UP_SECONDS: Final = 0.05


@dataclass(slots=True, eq=False)
class Follower:
    """A loop that waits for events and applies them. Idle until `join`. Not thread-safe."""

    _session: FleetSession
    _stream: Stream
    _local: LocalChanges
    _clock: Callable[[], float]
    _wake: Callable[[], None]
    """Triggers a heartbeat."""
    _following: asyncio.Event = field(default_factory=asyncio.Event)
    _applied: asyncio.Event = field(default_factory=asyncio.Event)
    _work: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._session.lease.on_end(self._lease_ended)

    async def run(self) -> None:
        """Apply the events of the followed history as they arrive."""
        while True:
            await self._following.wait()
            position = self._session.log.position
            if position is None:
                self._following.clear()
                continue
            try:
                for event in await self._stream.read_after(position):
                    if not await self._receive(event):
                        break
            except StoreUnavailable:
                await asyncio.sleep(pauses.FLEET_EVENTS.first)
            except MalformedEntry as error:
                loss = self._session.malformed(error, position.epoch, self._clock())
                if loss is not None:
                    await self.stop(loss)
                    await asyncio.sleep(pauses.FLEET_EVENTS.first)
            except Exception:
                _LOG.exception("unexpected error while applying a fleet event")
                await self.stop(self._session.stop("an event cannot be applied"))

    async def join(self, join: Join) -> None:
        """Invalidate the groups affected by missed events, and start following a history."""
        if join.missed is None:
            for partition in [*self._local.partitions]:
                await self._local.invalidate_cache(partition, ())
        for event in join.missed or ():
            if not event.change.is_reload:
                await self._local.invalidate_cache(event.change.partition, event.change.users)
        must_reload = self._session.join(join)
        self._following.set()
        confirmation = self._confirm_join(join.head, must_reload=must_reload)
        (self._start_reload if must_reload else self._start)(confirmation)
        _LOG.info("following the fleet", extra={"sequence": join.head.sequence})

    async def stop(self, loss: Loss) -> None:
        """Log the cause of a loss, and start a new history if needed. Raises StoreUnavailable."""
        _LOG.warning(
            "stopped following the fleet, so cached groups are looked up again: %s", loss.cause
        )
        self._wake()
        if loss.begin is not None:
            await self._stream.begin(loss.begin)

    async def catch_up(self, changes: Collection[tuple[bytes, int]]) -> None:
        """Wait up to 50 ms for changes to take effect here."""
        missing = {LogPosition.of_cursor(*each) for each in changes}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                while not all(map(self._session.log.has_applied, missing)):
                    await self._applied.wait()

    async def close(self) -> None:
        """Cancel all work in progress."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _receive(self, event: Event) -> bool:
        """Apply an event; return False if it could not be applied. Raises StoreUnavailable."""
        receipt = self._session.receive(event)
        if not isinstance(receipt, Receipt):
            if receipt is not None:
                await self.stop(receipt)
            return False
        try:
            if receipt.must_invalidate:
                await self._local.invalidate_groups(event.change.partition, event.change.users)
            if not self._session.apply(receipt):
                return False
        finally:
            self._session.fence.end(receipt.pending)
        self._applied.set()
        self._applied = asyncio.Event()
        if receipt.must_reload:
            self._start_reload(self._confirm(event))
        elif receipt.must_confirm:
            self._start(self._confirm(event))
        return True

    async def _confirm(self, event: Event) -> None:
        """Reload the policy if required, and confirm the change once all gates have applied it."""
        has_failed = False
        if event.change.is_reload:
            try:
                has_failed = not (await self._local.read_policy(ReloadCause.FLEET)).succeeded
            except CannotShip:  # gates have no policy now, so they send checks to the server
                has_failed = True
        is_awaited = event.change.is_awaited
        unconfirmed = await self._local.gates_follow() if is_awaited else Unconfirmed()
        self._session.confirmations.add(
            event.position.nonce, unconfirmed, self._clock(), has_failed=has_failed
        )
        self._wake()

    async def _confirm_join(self, head: LogPosition, *, must_reload: bool) -> None:
        """Confirm changes up to `head`, where this replica joined, once no gate is behind."""
        if must_reload:
            with contextlib.suppress(CannotShip):
                await self._local.read_policy(ReloadCause.FLEET)
        await self._local.gates_follow()
        if self._session.confirm_through(head):
            self._wake()

    def _lease_ended(self) -> None:
        self._following.clear()
        self._local.invalidate_gates()

    def _start_reload(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a reload. Every join starts another one until this one finishes."""
        self._session.unfinished_reloads += 1
        self._start(work).add_done_callback(self._reload_ended)

    def _reload_ended(self, _task: asyncio.Task[None]) -> None:
        self._session.unfinished_reloads -= 1

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a change from the fleet could not be applied", exc_info=error)
