"""This process as one replica of a fleet: it follows the events and reports itself.

Two tasks talk to Redis: one waits for events and carries them out, one sends a heartbeat every half
second. Without Redis the replica works alone, until it can follow the events again. What it
looks up meanwhile it uses for a few seconds only, because no invalidation by others reaches it.
"""

import asyncio
import logging
import math
import os
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any, Final, Literal

from queuegate_server.engine import Engine, NotReady
from queuegate_server.fleet.barrier import SILENT, Peers
from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import Change, Event, Malformed, Row
from queuegate_server.fleet.fence import OrderFence
from queuegate_server.fleet.keys import Position
from queuegate_server.fleet.replica import ALONE_LIFETIME, HEARTBEAT_INTERVAL, ReplicaState
from queuegate_server.fleet.stream import NONCE_BYTES, Answer, Stream
from queuegate_server.identity.lease import CacheLease
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.sync.changes import drop_groups
from queuegate_server.sync.fleet_view import FleetView, ReplicaView
from queuegate_server.sync.hub import CannotShip, SyncHub

_LOG = logging.getLogger("queuegate_server.fleet")
MAX_CONFIRMED: Final = 64
"""The newest changes whose confirmation a replica reports."""
MAX_NAMED: Final = 20
"""Gates that it names for each of them."""
MAX_UNSENT: Final = 1_000
"""Changes that wait until Redis can be reached again; of more, all users are forgotten."""
CATCH_UP_SECONDS: Final = 0.05
RETRY_SECONDS: Final = 0.2


class FleetMember:
    """One replica. Used from one event loop."""

    def __init__(
        self,
        name: str,
        stream: Stream,
        state: ReplicaState,
        *,
        version: str,
        lease: CacheLease,
        engine: Engine,
        reloader: Reloader,
        hub: SyncHub,
        clock: Callable[[], float],
    ) -> None:
        """Follow nothing yet.

        Args:
            name: The name of the replica, for people.
            stream: The events and rows in Redis.
            state: This replica's place in the order of events.
            version: The version of queuegate.
            lease: The lease of all caches; its clock is the same.
            engine: Has the groups to forget.
            reloader: Reads the policy again.
            hub: The gates.
            clock: A clock that goes on while the machine is suspended, in seconds.
        """
        self.name: Final = name
        self.state: Final = state
        self.peers: Final = Peers(os.urandom(8).hex(), name)
        self.is_reachable = False
        """Whether Redis has answered the last heartbeat."""
        self.gaps = 0
        """How often the replica lost the order of events after it had followed it."""
        self.applied = 0
        """Events of other replicas that were carried out."""
        self.unsent: dict[Change, None] = {}
        """Changes that took effect here while Redis could not be reached."""
        self.fence: Final = OrderFence(state, lambda: bool(self.unsent))
        self._version = version
        self._stream = stream
        self._lease = lease
        self._engine = engine
        self._reloader = reloader
        self._hub = hub
        self._clock = clock
        self._own: set[bytes] = set()
        self._count = 0
        self._confirmed: dict[bytes, list[str]] = {}
        self._refused: set[bytes] = set()
        self._settled: int | None = None
        self._has_left = False
        self._failures = 0
        self._wake = asyncio.Event()
        self._answered = asyncio.Event()
        self._following = asyncio.Event()
        self._applied = asyncio.Event()
        self._work: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        lease.on_end(self._lost)
        lease.max_age = ALONE_LIFETIME

    @property
    def stream(self) -> Stream:
        """The events and rows in Redis."""
        return self._stream

    def start(self) -> None:
        """Start to follow the fleet."""
        self._tasks = [asyncio.create_task(self._heartbeats()), asyncio.create_task(self._follow())]

    def view(self) -> FleetView:
        """Return the fleet as this replica sees it."""
        now, newest = self._clock(), self.state.newest()
        peers = self.peers.all().values()
        rows = [(self.row, 0.0), *((peer.row, now - peer.seen_at) for peer in peers)]
        epoch = None if newest is None else newest.epoch.hex()
        replicas = []
        for row, silent in rows:
            state: Literal["following", "joining", "silent"] = "following"
            if silent >= SILENT or (row.replica == self.peers.own and not self.is_reachable):
                state = "silent"
            elif row.epoch != epoch:
                state = "joining"
            behind = 0 if newest is None else newest.sequence - row.sequence
            replicas.append(
                ReplicaView(
                    name=row.name,
                    state=state,
                    is_self=row.replica == self.peers.own,
                    version=row.version,
                    lag=max(0, behind) if state != "joining" else 0,
                    revision=row.revision,
                    checksum=row.checksum,
                    gates=row.gates,
                    silent_seconds=silent,
                )
            )
        return FleetView(sorted(replicas), self.is_reachable)

    async def close(self) -> None:
        """Stop, and report that no lease is left: call it when no gate has one any more."""
        for task in (*self._tasks, *self._work):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._work, return_exceptions=True)
        self._lease.end()
        self._has_left = True
        try:
            await self._stream.heartbeat(self._row())
        except StoreUnavailable as error:
            _LOG.info("the fleet does not learn that this replica stops: %s", error)
        await self._stream.close()

    @property
    def row(self) -> Row:
        """This replica as it would be reported now."""
        return self._row(count=self._count)

    def has_applied(self, epoch: bytes, sequence: int) -> bool:
        """Return whether a change that was reported to a caller has taken effect here."""
        return self.state.has_applied(Position.of_cursor(epoch, sequence))

    async def catch_up(self, changes: Collection[tuple[bytes, int]]) -> None:
        """Wait until changes have taken effect here, for 50 ms at most."""
        until = self._clock() + CATCH_UP_SECONDS
        missing = {Position.of_cursor(*each) for each in changes}
        while (left := until - self._clock()) > 0:
            missing = {each for each in missing if not self.state.has_applied(each)}
            if not missing:
                return
            applied = self._applied
            try:
                async with asyncio.timeout(left):
                    await applied.wait()
            except TimeoutError:
                return

    async def heartbeat(self) -> None:
        """Send a heartbeat now, and wait until Redis has answered one that was sent after this
        call, or cannot be reached.
        """
        for _ in range(2):  # one may be under way
            answered = self._answered
            self._wake.set()
            await answered.wait()

    def send_later(self, change: Change) -> None:
        """Send a change that took effect here when Redis can be reached again."""
        self.unsent[change._replace(is_awaited=False)] = None
        if len(self.unsent) > MAX_UNSENT:
            merged = (
                Change.forget(each.partition, (), is_awaited=False)
                if each.kind == "forget"
                else each
                for each in self.unsent
            )
            self.unsent = dict.fromkeys(merged)
        self._wake.set()

    async def append(self, change: Change) -> Position:
        """Append a change that has taken effect here. Raises StoreUnavailable."""
        nonce = os.urandom(NONCE_BYTES)
        self._own.add(nonce)
        head = self.state.newest()
        while head is not None:
            answer = await self._stream.append(head, change, nonce)
            self.peers.see(answer.rows, self._clock())
            before, head = head, answer.head
            if head is None or head.epoch != before.epoch or head.sequence < before.sequence:
                break
            if answer.has_appended:
                self.state.appended(head)
                return head
        self._wake.set()
        raise StoreUnavailable("the history of events is being restored")

    async def _heartbeats(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._beat()
                self._set_reachable(None)
            except StoreUnavailable as error:
                self._set_reachable(error)
            except Exception:
                _LOG.exception("unexpected error")
            self._answered.set()
            self._answered = asyncio.Event()
            self._lease.has_ended(self._clock())
            try:
                async with asyncio.timeout(HEARTBEAT_INTERVAL):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _beat(self) -> None:
        """Report this replica, and take in what Redis answers. Raises StoreUnavailable."""
        known, sent_at = self.state.newest(), self._clock()
        answer = await self._stream.heartbeat(self._row())
        gone = self.peers.see(answer.rows, self._clock())
        if gone:
            await self._stream.drop_rows(gone)
        if self.state.position is None or known is None:
            await self._join(answer, sent_at)
        elif answer.head is not None and self.state.heartbeat_answered(answer.head, known, sent_at):
            self._extend()
            if self.unsent:
                await self._send_unsent()
        elif self.state.position is not None:
            if answer.head is None or answer.head.epoch == known.epoch:
                await self._stream.begin(answer.epoch)
            self._gap("Redis has lost events")

    async def _send_unsent(self) -> None:
        """Append a change that could not be sent before. Raises StoreUnavailable."""
        change = next(iter(self.unsent))
        hold = self.fence.hold(change.partition, change.users)
        event = None
        del self.unsent[change]  # the same may be added meanwhile, which must be sent, too
        try:
            event = await self.append(change)
        except BaseException:
            self.unsent[change] = None
            raise
        finally:
            self.fence.release(hold, event)
        self._wake.set()

    async def _join(self, answer: Answer, sent_at: float) -> None:
        """Follow the history that Redis has. Raises StoreUnavailable."""
        head = answer.head
        if head is None:
            await self._stream.begin(answer.epoch)
        elif self.unsent:
            change = next(iter(self.unsent))
            sent = await self._stream.append(head, change, os.urandom(NONCE_BYTES))
            if sent.has_appended:
                self.unsent.pop(change, None)
        else:
            events = await self._stream.recent(head)
            if self.unsent:
                self._wake.set()
                return
            if self.state.has_lost_events(events, head):
                _LOG.warning("Redis has lost events: all replicas ask for groups again")
                await self._stream.begin(head.epoch)
                self._wake.set()
                return
            await self._forget_missed(events, head)
            # Groups that this replica looked up alone may be from before an event. Gates forget
            # all groups, also those that they were sent before the missed events were known.
            self._lease.end()
            self.state.follow(events, head, sent_at)
            self._extend()
            self._following.set()
            self._start(self._settle(head))
            _LOG.info("following the fleet", extra={"sequence": head.sequence})
            return
        self._wake.set()

    async def _forget_missed(self, events: list[Event], head: Position) -> None:
        """Drop the groups that others forgot while this replica was away; all groups if that is not
        known. That a lease has ended is not enough: while the resolver fails, groups of an earlier
        lease are answers.
        """
        missed = self.state.missed(events, head)
        if missed is None:
            for partition in self._served():
                await self._drop(partition, ())
            return
        for change in (event.change for event in missed):
            if change.kind == "forget":
                await self._drop(change.partition, change.users)

    def _extend(self) -> None:
        """Let the caches answer until the lease of the state ends."""
        if self.state.position is not None:
            self._lease.until = self.state.lease_until
            self._lease.max_age = math.inf

    async def _follow(self) -> None:
        while True:
            await self._following.wait()
            position = self.state.position
            if position is None:
                self._following.clear()
                continue
            try:
                for event in await self._stream.read_after(position):
                    if not await self._receive(event):
                        break
            except StoreUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
            except Malformed as error:
                self._gap(str(error))
            except Exception:
                _LOG.exception("unexpected error")
                self._gap("an event cannot be carried out")

    async def _receive(self, event: Event) -> bool:
        """Carry an event out. Return False if it does not fit. Raises StoreUnavailable."""
        if not self.state.fits(event):
            if self.state.shows_loss(event):
                # Replicas that have never seen the lost event would not notice.
                await self._stream.begin(event.position.epoch)
            if self.state.position is not None:
                self._gap("events are missing")
            return False
        nonce, change = event.position.nonce, event.change
        is_own = nonce in self._own
        self._own.discard(nonce)
        sequence = None
        hold = self.fence.hold(change.partition, change.users)
        try:
            if not is_own and change.kind == "forget":
                sequence = await self._forget(change)
            if not self.state.apply(event):
                return False  # the lease has ended meanwhile
        finally:
            self.fence.release(hold)
        self._extend()
        self._applied.set()
        self._applied = asyncio.Event()
        if not is_own:
            self.applied += 1
            if change.kind == "reload":
                self._start(self._reload(event))
            elif change.is_awaited:
                self._start(self._confirm(nonce, sequence))
        return True

    async def _forget(self, change: Change) -> int | None:
        """Forget groups; return the number of the change for gates."""
        if not await self._drop(change.partition, change.users):
            return None
        return self._hub.forget(change.partition, change.users)

    async def _drop(self, partition: str, users: Collection[str]) -> bool:
        """Drop the cached groups of users, or of all; return whether the partition is served."""
        if partition not in self._served():
            return False
        await drop_groups(self._engine.snapshot.served[partition], tuple(users))
        return True

    async def _confirm(self, nonce: bytes, sequence: int | None) -> None:
        """Report a change as soon as no gate decides without it."""
        waited_out = [] if sequence is None else await self._hub.barrier(sequence)
        self._note_confirmed(nonce, waited_out)

    async def _reload(self, event: Event) -> None:
        """Read the policy again, and report it."""
        nonce = event.position.nonce
        state = await self._reloader.reload()
        if not state.succeeded:
            self._refused.add(nonce)
        waited_out: list[str] = []
        try:
            sequence = await self._hub.policy_shipped()
            if event.change.is_awaited:
                waited_out = await self._hub.barrier(sequence)
        except CannotShip:
            self._refused.add(nonce)
        self._note_confirmed(nonce, waited_out)

    def _note_confirmed(self, nonce: bytes, waited_out: list[str]) -> None:
        more = len(waited_out) - MAX_NAMED
        names = [*waited_out[:MAX_NAMED], *([f"{more} more of {self.name}"] if more > 0 else [])]
        self._confirmed[nonce] = names
        while len(self._confirmed) > MAX_CONFIRMED:
            oldest = next(iter(self._confirmed))
            del self._confirmed[oldest]
            self._refused.discard(oldest)
        self._wake.set()

    async def _settle(self, head: Position) -> None:
        """Report as soon as no gate decides from the state before this replica followed."""
        if self.gaps:
            await self._reloader.reload()
        await self._hub.barrier(self._hub.log.head)
        if self.state.has_applied(head):
            self._settled = max(head.sequence, self._settled or 0)
            self._wake.set()

    def _gap(self, cause: str) -> None:
        _LOG.warning("the order of events is lost: cached groups are asked for again: %s", cause)
        self._lease.end()
        self._wake.set()

    def _lost(self) -> None:
        """Work alone from now on: the lease has ended."""
        self._lease.max_age = ALONE_LIFETIME
        if self.state.position is not None:
            self.gaps += 1
            self.state.lose()
        self._following.clear()
        self._settled = None
        self._confirmed.clear()
        for partition in self._served():
            self._hub.forget(partition)

    def _served(self) -> Iterable[str]:
        try:
            return [*self._engine.snapshot.served]
        except NotReady:
            return []

    def _row(self, count: int | None = None) -> Row:
        if count is None:
            self._count = count = self._count + 1
        position = self.state.position
        revision, checksum = 0, ""
        if self._served():
            policy = self._engine.snapshot.policy
            revision, checksum = policy.revision, policy.checksum
        return Row(
            replica=self.peers.own,
            name=self.name,
            count=count,
            version=self._version,
            epoch="" if position is None else position.epoch.hex(),
            sequence=0 if position is None else position.sequence,
            settled=self._settled,
            confirmed={nonce.hex(): names for nonce, names in self._confirmed.items()},
            refused=[nonce.hex() for nonce in self._refused],
            revision=revision,
            checksum=checksum,
            gates=self._hub.streams,
            has_left=self._has_left,
        )

    def _set_reachable(self, error: StoreUnavailable | None) -> None:
        if error is not None and (self.is_reachable or not self._failures):
            _LOG.warning("Redis cannot be reached, this replica works alone: %s", error)
        self._failures = 0 if error is None else self._failures + 1
        self.is_reachable = error is None

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a change of the fleet was not carried out", exc_info=error)
