"""Carries the fleet's events out in this process, and confirms those that somebody waits for."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Final

from queuegate_server.engine import Engine, NotReady
from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import Change, Event, MalformedEntry
from queuegate_server.fleet.fence import OrderFence
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.lease import ReplicaLease
from queuegate_server.fleet.replica_log import ISOLATED_MAX_AGE, ReplicaLog
from queuegate_server.fleet.status_reporter import StatusReporter
from queuegate_server.fleet.stream import Stream
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.sync.changes import drop_groups
from queuegate_server.sync.hub import CannotShip, SyncHub

_LOG = logging.getLogger("queuegate_server.fleet")
CATCH_UP_SECONDS: Final = 0.05
MAX_EXPECTED: Final = 10_000
"""Own events that may still arrive. Of more, the oldest are applied like events of others."""
RETRY_SECONDS: Final = 0.2


class Follower:
    """Waits for events and carries them out. Used from one event loop."""

    def __init__(
        self,
        stream: Stream,
        log: ReplicaLog,
        fence: OrderFence,
        reporter: StatusReporter,
        *,
        lease: ReplicaLease,
        engine: Engine,
        reloader: Reloader,
        hub: SyncHub,
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        """Follow nothing yet.

        Args:
            stream: The events in Redis.
            log: This replica's place in the order of events.
            fence: Keeps shared groups out while a change is carried out.
            reporter: Has what this replica confirms.
            lease: The lease of all caches; its clock is the same.
            engine: Has the groups to forget.
            reloader: Reads the policy again.
            hub: The gates.
            clock: A clock that goes on while the machine is suspended, in seconds.
            wake: Has a heartbeat sent soon.
        """
        self.gaps = 0
        """How often the replica lost the order of events after it had followed it."""
        self.applied = 0
        """Events of other replicas that were carried out."""
        self._stream = stream
        self._log = log
        self._fence = fence
        self._reporter = reporter
        self._lease = lease
        self._engine = engine
        self._reloader = reloader
        self._hub = hub
        self._clock = clock
        self._wake = wake
        self._malformed: tuple[MalformedEntry, bytes, float] | None = None
        """The entry because of which it stopped, in which history, and when it was read."""
        self._own: dict[bytes, None] = {}
        self._following = asyncio.Event()
        self._applied = asyncio.Event()
        self._work: set[asyncio.Task[None]] = set()
        self._reloads: set[asyncio.Task[None]] = set()
        """Unfinished reloads that events, or a join, have started."""
        lease.on_end(self._on_lease_ended)
        lease.max_age = ISOLATED_MAX_AGE

    def expect(self, nonce: bytes) -> None:
        """Note that an event will be this replica's own, whose change has taken effect."""
        self._own[nonce] = None
        if len(self._own) > MAX_EXPECTED:
            del self._own[next(iter(self._own))]

    def do_not_expect(self, nonce: bytes) -> None:
        """Note that this event was not appended."""
        self._own.pop(nonce, None)

    def pop_stray_entry(self, head: LogPosition, sent_at: float) -> MalformedEntry | None:
        """Return, once, a malformed entry after the newest event: this replica would read it again
        and again. Replicas append no entry without making it the newest event.

        Args:
            head: The newest event.
            sent_at: When it was asked for.
        """
        if self._malformed is None:
            return None
        found, epoch, read_at = self._malformed
        if epoch == head.epoch and sent_at <= read_at:
            return None
        self._malformed = None
        is_stray = epoch == head.epoch and found.entry_id > (head.sequence, 0)
        return found if is_stray else None

    async def join(self, events: list[Event], head: LogPosition, sent_at: float) -> None:
        """Follow a history from now on.

        Args:
            events: Its newest events, up to the head.
            head: Its newest event.
            sent_at: When the head was asked for.
        """
        missed = self._log.missed(events, head)
        await self._forget_missed(missed)
        # Groups that this replica looked up alone may be from before an event. Gates forget
        # all groups, also those that they were sent before the missed events were known.
        self._lease.end()
        self._log.follow(events, head, sent_at)
        self.extend_lease()
        self._following.set()
        must_reload = bool(self._reloads) or _has_reload(missed)
        start = self._start_reload if must_reload else self._start
        start(self._confirm_join(head, must_reload=must_reload))
        _LOG.info("following the fleet", extra={"sequence": head.sequence})

    def extend_lease(self) -> None:
        """Let the caches answer until the lease of the state ends."""
        if self._log.position is not None:
            self._lease.ends_at = self._log.lease_until
            self._lease.max_age = math.inf

    def stop_following(self, cause: str) -> None:
        """Stop following the event log, because events are missing."""
        _LOG.warning("stopped following the fleet, so cached groups are looked up again: %s", cause)
        self._lease.end()
        self._wake()

    async def run(self) -> None:
        """Carry out each event of the history that is followed."""
        while True:
            await self._following.wait()
            position = self._log.position
            if position is None:
                self._following.clear()
                continue
            try:
                for event in await self._stream.read_after(position):
                    if not await self._receive(event):
                        break
            except StoreUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
            except MalformedEntry as error:
                if self._log.position is None or self._log.position.epoch != position.epoch:
                    continue  # the reader waited for events of the history before
                self._malformed = error, position.epoch, self._clock()
                self.stop_following(str(error))
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                _LOG.exception("unexpected error while applying an event of the fleet")
                self.stop_following("an event cannot be applied")

    async def catch_up(self, changes: Collection[tuple[bytes, int]]) -> None:
        """Wait until changes have taken effect here, for 50 ms at most."""
        until = self._clock() + CATCH_UP_SECONDS
        missing = {LogPosition.of_cursor(*each) for each in changes}
        while (left := until - self._clock()) > 0:
            missing = {each for each in missing if not self._log.has_applied(each)}
            if not missing:
                return
            applied = self._applied
            try:
                async with asyncio.timeout(left):
                    await applied.wait()
            except TimeoutError:
                return

    async def close(self) -> None:
        """End what is being carried out."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _receive(self, event: Event) -> bool:
        """Carry an event out. Return False if it does not fit. Raises StoreUnavailable."""
        if not self._log.fits(event):
            if self._log.shows_loss(event):
                # Replicas that have never seen the lost event would not notice.
                await self._stream.begin(event.position.epoch)
            if self._log.position is not None:
                self.stop_following("events are missing")
            return False
        nonce, change = event.position.nonce, event.change
        is_own = nonce in self._own
        self._own.pop(nonce, None)
        sequence = None
        pending = self._fence.begin(change.partition, change.users)
        try:
            if not is_own and change.kind == "forget":
                sequence = await self._forget(change)
            if not self._log.apply(event):
                return False  # the lease has ended meanwhile
        finally:
            self._fence.end(pending)
        self.extend_lease()
        self._applied.set()
        self._applied = asyncio.Event()
        if not is_own:
            self.applied += 1
            if change.kind == "reload":
                self._start_reload(self._reload(event))
            elif change.is_awaited:
                self._start(self._confirm(nonce, sequence))
        return True

    async def _forget(self, change: Change) -> int:
        """Forget groups; return the number of the change for gates."""
        await self._drop(change.partition, change.users)
        # Gates may still have the policy of a partition that this replica no longer serves.
        return self._hub.forget(change.partition, change.users)

    async def _forget_missed(self, missed: Sequence[Event] | None) -> None:
        """Drop the groups that were invalidated while this replica was away; all groups if the
        events are unknown (None). An ended lease is not enough: while the resolver fails, groups of
        an earlier lease are used as stale groups.
        """
        if missed is None:
            for partition in self._served():
                await self._drop(partition, ())
            return
        for change in (event.change for event in missed):
            if change.kind == "forget":
                await self._drop(change.partition, change.users)

    async def _drop(self, partition: str, users: Collection[str]) -> None:
        """Drop the cached groups of users of a partition, or of all."""
        if partition in self._served():
            await drop_groups(self._engine.snapshot.served[partition], tuple(users))

    async def _confirm(self, nonce: bytes, sequence: int | None) -> None:
        """Report a change as soon as no gate decides without it."""
        waited_out = [] if sequence is None else await self._hub.barrier(sequence)
        self._reporter.confirm(nonce, waited_out)
        self._wake()

    async def _reload(self, event: Event) -> None:
        """Read the policy again, and report it."""
        state = await self._reloader.reload()
        has_failed = not state.succeeded
        waited_out: list[str] = []
        try:
            sequence = await self._hub.policy_shipped()
            if event.change.is_awaited:
                waited_out = await self._hub.barrier(sequence)
        except CannotShip:
            has_failed = True
        self._reporter.confirm(event.position.nonce, waited_out, has_failed=has_failed)
        self._wake()

    async def _confirm_join(self, head: LogPosition, *, must_reload: bool) -> None:
        """Confirm that neither this replica nor a gate decides from the state before it joined."""
        if must_reload:
            await self._reloader.reload()
            with contextlib.suppress(CannotShip):  # gates have no policy then, and ask
                await self._hub.policy_shipped()
        await self._hub.barrier(self._hub.log.head)
        if self._log.has_applied(head):
            self._reporter.confirm_through(head)
            self._wake()

    def _on_lease_ended(self) -> None:
        """Follow no history from now on: the lease has ended."""
        self._lease.max_age = ISOLATED_MAX_AGE
        if self._log.position is not None:
            self.gaps += 1
            self._log.lose()
        self._following.clear()
        self._own.clear()
        self._reporter.start_over()
        # Until another policy has been shipped, gates still decide by the one before.
        for partition in {*self._served(), *self._hub.shipped}:
            self._hub.forget(partition)

    def _served(self) -> Iterable[str]:
        try:
            return [*self._engine.snapshot.served]
        except NotReady:
            return []

    def _start_reload(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a reload. A join that comes before its end reloads again, because what a join
        confirms includes the reload.
        """
        task = self._start(work)
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a change from the fleet could not be applied", exc_info=error)


def _has_reload(missed: Sequence[Event] | None) -> bool:
    """Return whether the policy may have to be read again because of events that were missed."""
    return missed is None or any(event.change.kind == "reload" for event in missed)
