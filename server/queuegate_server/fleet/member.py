"""This process as one replica of a fleet: the I/O around `FleetSession`.

It sends a heartbeat every half second, carries out what the session asks for, appends changes, and
tries the commands that only changes and shared groups need, so that a refusal is known early.
Without Redis the replica works alone until it can follow the events again. It uses what it looks up
meanwhile for only a few seconds, because no invalidation by others reaches it.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from queuegate_server.fleet import steps
from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import Change, LogState, ReplicaStatus
from queuegate_server.fleet.follower import Follower
from queuegate_server.fleet.health import Mistakes, fleet_view
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.refusals import PROBE_INTERVAL, Refusals
from queuegate_server.fleet.replica_log import HEARTBEAT_INTERVAL
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.stream import Stream
from queuegate_server.fleet.view import FleetView
from queuegate_server.sync.changes import LocalChanges

_LOG = logging.getLogger("queuegate_server.fleet")
APPEND_SECONDS: Final = 2.0
TURN_POLL_SECONDS: Final = 0.002
MAX_PROBLEM: Final = 600
"""The maximum length of the part of its status about what Redis refuses."""
_NUMBERS: Final = re.compile("[0-9]+")
"""Text that may differ between two errors with the same cause: ports, seconds."""


class AppendFailure(StoreUnavailable):
    """Redis answers, but others keep appending, or the event log is being rebuilt."""


class _NoAnswerYet(StoreUnavailable):
    """The first heartbeat is still in progress."""


class FleetMember:
    """One replica. Used from one event loop."""

    def __init__(
        self,
        session: FleetSession,
        stream: Stream,
        refusals: Refusals,
        local: LocalChanges,
        clock: Callable[[], float],
    ) -> None:
        """Follow nothing yet. The clock runs while the machine is suspended, and is in seconds."""
        self.session: Final = session
        self.stream: Final = stream
        self.error: StoreUnavailable | None = _NoAnswerYet("Redis has not answered yet")
        """Why Redis is unavailable; None if it has answered the last heartbeat."""
        self._refusals = refusals
        self._local = local
        self._clock = clock
        self._logged = ""
        """The error that was logged last; empty while Redis can be used."""
        self._mistakes: Final = Mistakes(session.peers)
        self._wake = asyncio.Event()
        self._answered = asyncio.Event()
        self.follower: Final = Follower(session, stream, local, clock, self._wake.set)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to follow the fleet."""
        loops = self._heartbeats(), self.follower.run(), self._probes()
        self._tasks = [asyncio.create_task(each) for each in loops]

    def view(self) -> FleetView:
        """Return the fleet as this replica sees it."""
        now, session = self._clock(), self.session
        return fleet_view(
            *(self.status, session.peers.all(), session.log.newest, now),
            has_asked=not isinstance(self.error, _NoAnswerYet),
            mistakes=self._mistakes.all(self.stream.rejected, now),
            cause="" if self.error is None else str(self.error),
        )

    async def close(self) -> None:
        """Stop, and report that no lease is left. Call this once no gate has a lease."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.follower.close()
        self.session.leave()
        # Includes the history, whose age a successor relies on.
        last = self.session.heartbeat(self._clock(), self._own_state())
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
        """Wait until Redis has answered a heartbeat sent after this call, or cannot be reached."""
        for _ in range(2):  # one may be in progress
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
        """Append a change that has taken effect here. Raises AppendFailure if it was certainly not
        appended, or StoreUnavailable.

        Args:
            change: The change.
            nonce: Identifies its event; empty for a new one.
            head: The event after which to try appending first; None for the newest known event.
            seconds: How long it may take while others also append.
        """
        nonce, until = nonce or self.session.new_nonce(), self._clock() + seconds
        request: steps.Append | LogPosition | None = self.session.append(change, nonce, head)
        while isinstance(request, steps.Append) and self._clock() < until:
            if request.has_next_turn:
                await asyncio.sleep(TURN_POLL_SECONDS)
            answer = await self.stream.append(request.head, change, nonce)
            self._merge(answer)
            request = self.session.append_answered(request, answer)
        if isinstance(request, LogPosition):
            return request
        self.session.not_appended(nonce)
        self._wake.set()
        raise AppendFailure("the event log of the fleet is being rebuilt, or very busy")

    async def _heartbeats(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._beat()
                self._set_error(None)
                self._mistakes.warn(self.stream.rejected, self._clock())
                pause = self.session.pause
            except StoreUnavailable as error:
                self._set_error(error)
                pause = self.session.pause or HEARTBEAT_INTERVAL
            except Exception:
                _LOG.exception("unexpected error in a heartbeat of the fleet")
                pause = HEARTBEAT_INTERVAL
            self._answered.set()
            self._answered = asyncio.Event()
            self.session.lease.end_if_expired(self._clock())
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def _probes(self) -> None:
        """Check regularly, while Redis answers, which commands it refuses."""
        while True:
            await asyncio.sleep(PROBE_INTERVAL)
            if self.error is None:
                await self._probe()

    async def _probe(self) -> None:
        try:
            self._refusals.note_probe(await self.stream.probe())
        except StoreUnavailable as error:  # a refusal is noted; without an answer, heartbeats fail
            _LOG.debug("could not test the Redis commands: %s", error)

    async def _beat(self) -> None:
        """Report this replica, and take the next step. Raises StoreUnavailable."""
        heartbeat = self.session.heartbeat(self._clock(), self._own_state())
        answer = await self.stream.heartbeat(heartbeat.status)
        await self.stream.remove_replicas(self._merge(answer))
        match self.session.heartbeat_answered(heartbeat, answer, self._clock()):
            case steps.NewHistory() as history:
                await self._begin(history)
            case steps.Loss() as loss:
                await self.follower.stop(loss)
            case steps.UnsentChanges(head):
                await self._send_unsent(head)
            case steps.NewestEvents() as request:
                await self._join(request)

    def _merge(self, answer: LogState) -> list[ReplicaStatus]:
        now = self._clock()
        removable = self.session.merge(answer, now)
        self._mistakes.compare_clocks(answer.clock, now)
        return removable

    async def _begin(self, history: steps.NewHistory) -> None:
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
            with suppress(AppendFailure):
                event = await self.append(change, nonce, head=head, seconds=HEARTBEAT_INTERVAL)
        finally:
            if event is None:
                self.session.keep_unsent(change, nonce)
            self.session.fence.end(pending, event)

    async def _join(self, request: steps.NewestEvents) -> None:
        """Follow the history that Redis has. Raises StoreUnavailable."""
        await self._probe()
        answer = self.session.read(request, await self.stream.recent(request.head))
        if isinstance(answer, steps.NewHistory):
            await self._begin(answer)
        elif answer is not None:
            await self.follower.join(answer)

    def _own_state(self) -> steps.OwnState:
        policy, problem = self._local.policy, "; ".join(self._refusals.sentences)[:MAX_PROBLEM]
        served = (0, "") if policy is None else (policy.revision, policy.checksum)
        return steps.OwnState(*served, self._local.gates, problem)

    def _set_error(self, error: StoreUnavailable | None) -> None:
        if error is None:
            self._logged = ""
        elif (cause := _NUMBERS.sub("", str(error))) != self._logged:
            self._logged = cause
            _LOG.warning("Redis is unavailable; this replica works alone: %s", error)
        self.error = error
