"""This process as one replica of a fleet: the I/O around `FleetSession`.

It sends a heartbeat every half second, carries out what the session asks for, appends changes, and
tries the commands that only changes and shared groups need, so that a refusal is known before.
Without Redis the replica works alone, until it can follow the events again. What it looks up
meanwhile it uses for a few seconds only, because no invalidation by others reaches it.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Final

from queuegate_server.engine import Engine, NotReady
from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import Change, LogState, ReplicaStatus
from queuegate_server.fleet.follower import Follower
from queuegate_server.fleet.health import Mistakes, fleet_view
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.refusals import PROBE_INTERVAL, Refusals
from queuegate_server.fleet.replica_log import HEARTBEAT_INTERVAL
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.steps import (
    Append,
    Heartbeat,
    Loss,
    NewestEvents,
    NewHistory,
    OwnState,
    UnsentChanges,
)
from queuegate_server.fleet.stream import Stream
from queuegate_server.fleet.view import FleetView
from queuegate_server.sync.changes import LocalChanges
from queuegate_server.sync.hub import SyncHub

_LOG = logging.getLogger("queuegate_server.fleet")
APPEND_SECONDS: Final = 2.0
TURN_POLL_SECONDS: Final = 0.002
MAX_PROBLEM: Final = 600
"""Characters of what it reports that Redis refuses it."""
_NUMBERS: Final = re.compile("[0-9]+")
"""What may differ between two errors of one cause: ports, seconds."""


class NotAppended(StoreUnavailable):
    """Redis answers, but others append all the time, or the event log is being rebuilt."""


class _NotAskedYet(StoreUnavailable):
    """The first heartbeat is still under way."""


class FleetMember:
    """One replica. Used from one event loop."""

    def __init__(
        self,
        session: FleetSession,
        stream: Stream,
        refusals: Refusals,
        *,
        engine: Engine,
        local: LocalChanges,
        hub: SyncHub,
        clock: Callable[[], float],
    ) -> None:
        """Follow nothing yet.

        Args:
            session: Decides what to do.
            stream: The events and statuses in Redis.
            refusals: What Redis refuses this replica.
            engine: Has the policy.
            local: Carries changes out in this process and its gates.
            hub: The gates.
            clock: A clock that keeps running while the machine is suspended, in seconds.
        """
        self.session: Final = session
        self.stream: Final = stream
        self.error: StoreUnavailable | None = _NotAskedYet("Redis has not answered yet")
        """Why Redis is unavailable; None if it has answered the last heartbeat."""
        self._refusals = refusals
        self._engine = engine
        self._hub = hub
        self._clock = clock
        self._logged = ""
        """The error that was logged last; empty while Redis can be used."""
        self._mistakes: Final = Mistakes(session.name)
        self._wake = asyncio.Event()
        self._answered = asyncio.Event()
        self.follower: Final = Follower(session, stream, local, clock, self._wake.set)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to follow the fleet."""
        self._tasks = [
            asyncio.create_task(self._heartbeats()),
            asyncio.create_task(self.follower.run()),
            asyncio.create_task(self._probes()),
        ]

    @property
    def is_reachable(self) -> bool:
        """Whether Redis has answered the last heartbeat."""
        return self.error is None

    def view(self) -> FleetView:
        """Return the fleet as this replica sees it."""
        now, session = self._clock(), self.session
        return fleet_view(
            *(self.status, session.peers.all(), session.log.newest, now),
            has_asked=not isinstance(self.error, _NotAskedYet),
            mistakes=self._mistakes.all(session.peers, self.stream.rejected, now),
            cause="" if self.error is None else str(self.error),
        )

    async def close(self) -> None:
        """Stop, and report that no lease is left: call it when no gate has one any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.follower.close()
        self.session.leave()
        last = self._next_heartbeat()  # with the history, whose age a successor relies on
        self.session.lease.end()
        try:
            await self.stream.heartbeat(last.status)
        except StoreUnavailable as error:
            _LOG.info("could not report to the fleet that this replica is stopping: %s", error)
        await self.stream.close()

    @property
    def status(self) -> ReplicaStatus:
        """This replica as it would be reported now."""
        return self.session.status(self._clock(), self._own_state())

    def has_applied(self, epoch: bytes, sequence: int) -> bool:
        """Return whether a change that was reported to a caller has taken effect here."""
        return self.session.log.has_applied(LogPosition.of_cursor(epoch, sequence))

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
        self.session.send_later(change)
        self._wake.set()

    async def append(
        self,
        change: Change,
        nonce: bytes = b"",
        *,
        head: LogPosition | None = None,
        seconds: float = APPEND_SECONDS,
    ) -> LogPosition:
        """Append a change that has taken effect here.

        Args:
            change: The change.
            nonce: Identifies its event; a new one if it is empty.
            head: The event after which to append it first; None: the newest that is known.
            seconds: How long it may take while others append as well.

        Raises:
            NotAppended: It was certainly not appended.
            StoreUnavailable: That is not known.
        """
        nonce, until = nonce or self.session.new_nonce(), self._clock() + seconds
        request: Append | LogPosition | None = self.session.append(change, nonce, head)
        while isinstance(request, Append) and self._clock() < until:
            if request.has_next_turn:
                await asyncio.sleep(TURN_POLL_SECONDS)
            answer = await self.stream.append(request.head, change, nonce)
            self._merge(answer)
            request = self.session.append_answered(request, answer)
        if isinstance(request, LogPosition):
            return request
        self.session.not_appended(nonce)
        self._wake.set()
        raise NotAppended("the event log of the fleet is being rebuilt, or very busy")

    async def _heartbeats(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._beat()
                self._set_error(None)
                self._mistakes.warn(self.session.peers, self.stream.rejected, self._clock())
            except StoreUnavailable as error:
                self._set_error(error)
                self.session.pause = self.session.pause or HEARTBEAT_INTERVAL
            except Exception:
                _LOG.exception("unexpected error in a heartbeat of the fleet")
                self.session.pause = self.session.pause or HEARTBEAT_INTERVAL
            self._answered.set()
            self._answered = asyncio.Event()
            self.session.lease.end_if_expired(self._clock())
            try:
                async with asyncio.timeout(self.session.pause):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _probes(self) -> None:
        """Find out now and then, while Redis answers, which commands it refuses."""
        while True:
            await asyncio.sleep(PROBE_INTERVAL)
            if self.is_reachable:
                await self._probe()

    async def _probe(self) -> None:
        try:
            self._refusals.note_probe(await self.stream.probe())
        except StoreUnavailable as error:  # a refusal is noted; without an answer, heartbeats fail
            _LOG.debug("could not test the Redis commands: %s", error)

    def _next_heartbeat(self) -> Heartbeat:
        return self.session.heartbeat(self._clock(), self._own_state())

    async def _beat(self) -> None:
        """Report this replica, and take the next step. Raises StoreUnavailable."""
        heartbeat = self._next_heartbeat()
        answer = await self.stream.heartbeat(heartbeat.status)
        removable = self._merge(answer)
        if removable or self.stream.has_unsigned:
            await self.stream.remove_replicas(removable)
        match self.session.heartbeat_answered(heartbeat, answer, self._clock()):
            case NewHistory() as history:
                await self._begin(history)
            case Loss() as loss:
                await self.follower.stop(loss)
            case UnsentChanges(head):
                await self._send_unsent(head)
            case NewestEvents() as request:
                await self._join(request)

    def _merge(self, answer: LogState) -> list[ReplicaStatus]:
        now = self._clock()
        removable = self.session.merge(answer, now)
        self._mistakes.compare_clocks(self.session.peers, answer.clock, now)
        return removable

    async def _begin(self, history: NewHistory) -> None:
        if history.cause:
            _LOG.warning("all replicas look up their cached groups again: %s", history.cause)
        else:
            _LOG.info("no replica follows the fleet's events, so a new history begins")
        self.session.has_begun(await self.stream.begin(history.before))

    async def _send_unsent(self, head: LogPosition) -> None:
        """Try to append a change that could not be sent before. Raises StoreUnavailable."""
        change, nonce = self.session.pop_unsent()
        pending = self.session.fence.begin(change.partition, change.users)
        event = None
        try:
            event = await self.append(change, nonce, head=head, seconds=HEARTBEAT_INTERVAL)
        except NotAppended:
            pass
        finally:
            if event is None:
                self.session.keep_unsent(change, nonce)
            self.session.fence.end(pending, event)

    async def _join(self, request: NewestEvents) -> None:
        """Follow the history that Redis has. Raises StoreUnavailable."""
        await self._probe()
        answer = self.session.read(request, await self.stream.recent(request.head))
        if isinstance(answer, NewHistory):
            await self._begin(answer)
        elif answer is not None:
            await self.follower.join(answer)

    def _own_state(self) -> OwnState:
        problem = "; ".join(self._refusals.sentences)[:MAX_PROBLEM]
        try:
            policy = self._engine.snapshot.policy
        except NotReady:
            return OwnState(gates=self._hub.streams, problem=problem)
        return OwnState(policy.revision, policy.checksum, self._hub.streams, problem)

    def _set_error(self, error: StoreUnavailable | None) -> None:
        if error is None:
            self._logged = ""
        elif (cause := _NUMBERS.sub("", str(error))) != self._logged:
            self._logged = cause
            _LOG.warning("Redis is unavailable; this replica works alone: %s", error)
        self.error = error
