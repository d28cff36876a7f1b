"""Runs this process as a replica of a fleet, and performs the I/O for `FleetSession`.

A replica sends a heartbeat every half second, executes the session's requests, and appends changes.
It also probes the commands that heartbeats do not use, so that refusals are noticed early.
Without Redis, the replica works alone. Until it can follow the events again, it uses lookup results
for only a few seconds, because other replicas' invalidations do not reach it.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from queuegate_server.fleet import steps
from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import MAX_ADDRESSES, Change, LogState, ReplicaStatus
from queuegate_server.fleet.follower import Follower
from queuegate_server.fleet.health import Mistakes, fleet_view
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.refusals import PROBE_INTERVAL, Refusals
from queuegate_server.fleet.replica_log import HEARTBEAT_INTERVAL
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.stream import Stream
from queuegate_server.fleet.view import FleetView, QueueDecisions
from queuegate_server.sync.changes import LocalChanges

_LOG = logging.getLogger("queuegate_server.fleet")
APPEND_SECONDS: Final = 2.0
TURN_POLL_SECONDS: Final = 0.002
MAX_PROBLEM: Final = 600
"""The maximum length of the refusals in a status, in characters."""
_NUMBERS: Final = re.compile("[0-9]+")
"""Matches ports and durations. They may differ between errors with the same cause."""


class AppendFailure(StoreUnavailable):
    """Redis responded, but the log was being rebuilt or other replicas kept appending first."""


class _FirstHeartbeatPending(StoreUnavailable):
    """The first heartbeat is in progress."""


class FleetMember:
    """The replica that this process runs. Not thread-safe."""

    def __init__(
        self,
        session: FleetSession,
        stream: Stream,
        refusals: Refusals,
        local: LocalChanges,
        clock: Callable[[], float],
    ) -> None:
        """Create a replica without starting it.

        `clock` returns seconds, and must keep running while the machine is suspended.
        """
        self.session: Final = session
        self.stream: Final = stream
        self.error: StoreUnavailable | None = _FirstHeartbeatPending("Redis has not answered yet")
        """Why Redis is unavailable; None if the last heartbeat succeeded."""
        self._refusals = refusals
        self._local = local
        self._clock = clock
        self._logged = ""
        """The last logged error; empty while Redis is available."""
        self._mistakes: Final = Mistakes(session.peers)
        self._wake = asyncio.Event()
        self._heartbeat_done = asyncio.Event()
        self.follower: Final = Follower(session, stream, local, clock, self._wake.set)
        self._tasks: list[asyncio.Task[None]] = []
        self._queue_decisions: Callable[[], Sequence[QueueDecisions]] = tuple
        self.http_addresses: Sequence[str] = ()
        """The addresses on which this replica listens over HTTP."""

    def start(self) -> None:
        """Start following the fleet."""
        loops = self._send_heartbeats(), self.follower.run(), self._probe_periodically()
        self._tasks = [asyncio.create_task(each) for each in loops]

    def report_decisions(self, read: Callable[[], Sequence[QueueDecisions]]) -> None:
        """Report a webhook's decisions in each status.

        `read` is called for each heartbeat, and returns at most MAX_SCHEDULERS rows.
        """
        self._queue_decisions = read

    def view(self) -> FleetView:
        """Return the fleet as seen by this replica."""
        now, session = self._clock(), self.session
        return fleet_view(
            self.status,
            session.peers.all(),
            session.log.newest,
            now,
            has_tried=not isinstance(self.error, _FirstHeartbeatPending),
            mistakes=self._mistakes.all(self.stream.statuses.rejected, now),
            cause="" if self.error is None else str(self.error),
        )

    async def close(self) -> None:
        """Stop, and report that the lease has ended. Call this only once no gate holds a lease."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.follower.close()
        self.session.has_left = True
        # Build the last heartbeat before ending the lease, because afterwards it would lack the
        # history's age, which a successor needs.
        last = self.session.heartbeat(self._clock(), self._own_state())
        self.session.lease.end()
        try:
            await self.stream.heartbeat(last.status)
        except StoreUnavailable as error:
            _LOG.info("could not report to the fleet that this replica is stopping: %s", error)
        await self.stream.close()

    @property
    def status(self) -> ReplicaStatus:
        """The current status of this replica."""
        return self.session.status(self._clock(), self._own_state())

    def has_applied(self, epoch: bytes, sequence: int) -> bool:
        """Return whether the event at a fleet cursor has been applied here."""
        return self.session.log.has_applied(LogPosition.of_cursor(epoch, sequence))

    async def heartbeat(self) -> None:
        """Send a heartbeat, and wait until it has succeeded or failed."""
        for _ in range(2):  # the first heartbeat to finish may have been sent before this call
            done = self._heartbeat_done
            self._wake.set()
            await done.wait()

    def send_later(self, change: Change) -> None:
        """Queue a change that has taken effect here. It is sent once Redis can be reached."""
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
            nonce: The nonce of the change's event; empty to generate one.
            head: The event to append after in the first attempt; by default, the newest known
                event.
            seconds: How long to retry while other replicas keep appending first.

        Raises:
            AppendFailure: The change is known not to have been appended.
            StoreUnavailable: Redis failed or timed out.
        """
        nonce, until = nonce or self.session.new_nonce(), self._clock() + seconds
        request: steps.Append | LogPosition | None = self.session.append(change, nonce, head)
        while isinstance(request, steps.Append) and self._clock() < until:
            if request.must_wait:
                await asyncio.sleep(TURN_POLL_SECONDS)
            reply = await self.stream.append(request.head, change, nonce)
            self._merge(reply)
            request = self.session.handle_append(request, reply)
        if isinstance(request, LogPosition):
            return request
        self.session.not_appended(nonce)
        self._wake.set()
        raise AppendFailure("the fleet's event log is being rebuilt, or is very busy")

    async def _send_heartbeats(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._beat()
                self._set_error(None)
                self._mistakes.warn(self.stream.statuses.rejected, self._clock())
                pause = self.session.pause
            except StoreUnavailable as error:
                self._set_error(error)
                pause = self.session.pause or HEARTBEAT_INTERVAL
            except Exception:
                _LOG.exception("unexpected error in a fleet heartbeat")
                pause = HEARTBEAT_INTERVAL
            self._heartbeat_done.set()
            self._heartbeat_done = asyncio.Event()
            self.session.lease.end_if_expired(self._clock())
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def _probe_periodically(self) -> None:
        """Periodically probe for commands that Redis refuses, except during outages."""
        while True:
            await asyncio.sleep(PROBE_INTERVAL)
            if self.error is None:
                await self._probe()

    async def _probe(self) -> None:
        try:
            self._refusals.note_probe(await self.stream.probe())
        except StoreUnavailable as error:  # refusals are recorded, and heartbeats report outages
            _LOG.debug("could not test the Redis commands: %s", error)

    async def _beat(self) -> None:
        """Send a heartbeat, and take the session's next step. Raises StoreUnavailable."""
        heartbeat = self.session.heartbeat(self._clock(), self._own_state())
        reply = await self.stream.heartbeat(heartbeat.status)
        await self.stream.remove_replicas(self._merge(reply))
        match self.session.handle_heartbeat(heartbeat, reply, self._clock()):
            case steps.NewHistory() as history:
                await self._begin(history)
            case steps.Loss() as loss:
                await self.follower.stop(loss)
            case steps.UnsentChanges(head):
                await self._send_unsent(head)
            case steps.NewestEvents() as request:
                await self._join(request)

    def _merge(self, reply: LogState) -> list[ReplicaStatus]:
        now = self._clock()
        removable = self.session.merge(reply, now)
        self._mistakes.compare_clocks(reply.clock, now)
        return removable

    async def _begin(self, history: steps.NewHistory) -> None:
        if history.cause:
            _LOG.warning("all replicas look up their cached groups again: %s", history.cause)
        else:
            _LOG.info("no replica follows the fleet's events, so a new history begins")
        self.session.begun = await self.stream.begin(history.before)

    async def _send_unsent(self, head: LogPosition) -> None:
        """Send the oldest unsent change. If that fails, keep it. Raises StoreUnavailable."""
        change, nonce = self.session.pop_unsent()
        pending = self.session.fence.begin(change.partition, change.users)
        event = None
        self.session.sending += 1
        try:
            with suppress(AppendFailure):
                event = await self.append(change, nonce, head=head, seconds=HEARTBEAT_INTERVAL)
        finally:
            if event is None:
                self.session.keep_unsent(change, nonce)
            self.session.fence.end(pending, event)
            self.session.sending -= 1

    async def _join(self, request: steps.NewestEvents) -> None:
        """Start following the history in Redis. Raises StoreUnavailable."""
        await self._probe()
        step = self.session.read(request, await self.stream.recent(request.head))
        if isinstance(step, steps.NewHistory):
            await self._begin(step)
        elif step is not None:
            await self.follower.join(step)

    def _own_state(self) -> steps.OwnState:
        policy, problem = self._local.policy, "; ".join(self._refusals.sentences)[:MAX_PROBLEM]
        served = (0, "") if policy is None else (policy.revision, policy.checksum)
        return steps.OwnState(
            *served,
            self._local.gates,
            problem,
            self._queue_decisions(),
            self._local.connected_gates,
            self._local.stale_seconds,
            self.http_addresses[:MAX_ADDRESSES],
        )

    def _set_error(self, error: StoreUnavailable | None) -> None:
        if error is None:
            self._logged = ""
        elif (cause := _NUMBERS.sub("", str(error))) != self._logged:
            self._logged = cause
            _LOG.warning("Redis is unavailable; this replica works alone: %s", error)
        self.error = error
