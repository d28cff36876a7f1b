"""This process as one replica of a fleet: it reports itself, and appends its changes.

`Follower` waits for events and carries them out. This module sends a heartbeat every half second,
and tries the commands that only changes and shared groups need, so that a refusal is known before.
Without Redis the replica works alone, until it can follow the events again. What it looks up
meanwhile it uses for a few seconds only, because no invalidation by others reaches it.
"""

import asyncio
import logging
import math
import os
from collections.abc import Callable, Collection, Sequence
from typing import Final

from queuegate_server.engine import Engine
from queuegate_server.fleet.barrier import Peers
from queuegate_server.fleet.clocks import ClockWatch
from queuegate_server.fleet.connection import StoreRefused, StoreUnavailable
from queuegate_server.fleet.events import Change, ReplicaStatus
from queuegate_server.fleet.fence import OrderFence
from queuegate_server.fleet.follower import Follower
from queuegate_server.fleet.health import fleet_view, mistakes
from queuegate_server.fleet.keys import NONCE_BYTES, LogPosition
from queuegate_server.fleet.lease import ReplicaLease
from queuegate_server.fleet.refusals import PROBE_INTERVAL, Refusals
from queuegate_server.fleet.replica_log import HEARTBEAT_INTERVAL, ReplicaLog
from queuegate_server.fleet.status_reporter import StatusReporter
from queuegate_server.fleet.stream import LogState, Stream
from queuegate_server.fleet.view import FleetView
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.sync.hub import SyncHub

_LOG = logging.getLogger("queuegate_server.fleet")
APPEND_SECONDS: Final = 2.0
CLEANING_INTERVAL: Final = 0.05
"""Seconds between two heartbeats while somebody else has written more statuses than one answer has:
each of them removes some."""
JOIN_POLL_SECONDS: Final = 0.05
"""Seconds between two heartbeats while this replica finds out whether others run."""
TURN_POLL_SECONDS: Final = 0.002
MAX_UNSENT: Final = 1_000
"""Changes that wait until Redis can be reached again; of more, all users are forgotten."""
FOREIGN_STATUS_SECONDS: Final = 60.0
"""For how long a status with another secret counts as a mistake after it was written."""


class NotAppended(StoreUnavailable):
    """Redis answers, but others append all the time, or the event log is being rebuilt."""


class _NotAskedYet(StoreUnavailable):
    """The first heartbeat is still under way."""


class FleetMember:
    """One replica. Used from one event loop."""

    def __init__(
        self,
        name: str,
        stream: Stream,
        log: ReplicaLog,
        *,
        version: str,
        lease: ReplicaLease,
        engine: Engine,
        reloader: Reloader,
        hub: SyncHub,
        clock: Callable[[], float],
        refusals: Refusals | None = None,
    ) -> None:
        """Follow nothing yet.

        Args:
            name: The name of the replica, for people.
            stream: The events and statuses in Redis.
            log: This replica's place in the order of events.
            version: The version of queuegate.
            lease: The lease of all caches; its clock is the same.
            engine: Has the groups to forget.
            reloader: Reads the policy again.
            hub: The gates.
            clock: A clock that goes on while the machine is suspended, in seconds.
            refusals: What Redis refuses this replica.
        """
        self.refusals: Final = Refusals() if refusals is None else refusals
        self.name: Final = name
        self.log: Final = log
        self.stream: Final = stream
        self.peers: Final = Peers(os.urandom(8).hex(), name)
        self.error: StoreUnavailable | None = _NotAskedYet("it has not answered yet")
        """Why Redis is unavailable; None if it has answered the last heartbeat."""
        self.unsent: dict[Change, bytes] = {}
        """Changes that took effect here while Redis could not be reached, and the nonces of their
        events."""
        self.fence: Final = OrderFence(log, lambda: bool(self.unsent))
        self._lease = lease
        self._clock = clock
        self._logged = ""
        """The error that was logged last; empty while Redis can be used."""
        self._warned_of: Sequence[str] = ()
        self._rejected = 0
        self._interval = HEARTBEAT_INTERVAL
        self._begun = b""
        """The epoch of the history that this replica has begun."""
        self._foreign_until = -math.inf
        self._clocks = ClockWatch()
        self._wake = asyncio.Event()
        self._answered = asyncio.Event()
        self._reporter = StatusReporter(
            *(self.peers, name, log),
            version=version,
            engine=engine,
            hub=hub,
            clock=clock,
            refusals=self.refusals,
        )
        self.follower: Final = Follower(
            *(stream, log, self.fence, self._reporter),
            lease=lease,
            engine=engine,
            reloader=reloader,
            hub=hub,
            clock=clock,
            wake=self._wake.set,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to follow the fleet."""
        self._tasks = [
            asyncio.create_task(self._heartbeats()),
            asyncio.create_task(self.follower.run()),
            asyncio.create_task(self._probes()),
        ]

    @property
    def has_followed(self) -> bool:
        """Whether this replica has followed the fleet since its start."""
        return self.log.position is not None or self.follower.gaps > 0

    @property
    def is_reachable(self) -> bool:
        """Whether Redis has answered the last heartbeat."""
        return self.error is None

    def view(self) -> FleetView:
        """Return the fleet as this replica sees it."""
        return fleet_view(
            *(self.status, self.peers.all(), self.log.newest, self._clock()),
            is_reachable=self.is_reachable,
            has_asked=not isinstance(self.error, _NotAskedYet),
            mistakes=self._mistakes(),
            cause=str(self.error) if isinstance(self.error, StoreRefused) else "",
        )

    async def close(self) -> None:
        """Stop, and report that no lease is left: call it when no gate has one any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.follower.close()
        self._reporter.leave()
        status = self._reporter.next_status()  # with the history, whose age a successor relies on
        self._lease.end()
        try:
            await self.stream.heartbeat(status)
        except StoreUnavailable as error:
            _LOG.info("could not report to the fleet that this replica is stopping: %s", error)
        await self.stream.close()

    @property
    def status(self) -> ReplicaStatus:
        """This replica as it would be reported now."""
        return self._reporter.status

    def has_applied(self, epoch: bytes, sequence: int) -> bool:
        """Return whether a change that was reported to a caller has taken effect here."""
        return self.log.has_applied(LogPosition.of_cursor(epoch, sequence))

    async def catch_up(self, changes: Collection[tuple[bytes, int]]) -> None:
        """Wait until changes have taken effect here, for 50 ms at most."""
        await self.follower.catch_up(changes)

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
        self._keep(change._replace(is_awaited=False))
        if len(self.unsent) > MAX_UNSENT:
            changes, self.unsent = self.unsent, {}
            for each in changes:
                is_reload = each.kind == "reload"
                self._keep(
                    each if is_reload else Change.forget(each.partition, (), is_awaited=False)
                )
        self._wake.set()

    def _keep(self, change: Change) -> None:
        self.unsent.setdefault(change, os.urandom(NONCE_BYTES))

    async def append(
        self, change: Change, nonce: bytes = b"", *, seconds: float = APPEND_SECONDS
    ) -> LogPosition:
        """Append a change that has taken effect here.

        Args:
            change: The change.
            nonce: Identifies its event; a new one if it is empty.
            seconds: How long it may take while others append, too.

        Raises:
            NotAppended: It was certainly not appended.
            StoreUnavailable: That is not known.
        """
        nonce = nonce or os.urandom(NONCE_BYTES)
        head, until = self.log.newest, self._clock() + seconds
        self.follower.expect(nonce)
        while head is not None and self._clock() < until:
            answer = await self.stream.append(head, change, nonce)
            self._merge(answer)
            before, head = head, answer.head
            if head is None or head.epoch != before.epoch or head.sequence < before.sequence:
                break
            if answer.has_appended:
                self.log.note_known(head)
                return head
            if head == before:
                await asyncio.sleep(TURN_POLL_SECONDS)
        self.follower.do_not_expect(nonce)
        self._wake.set()
        raise NotAppended("the event log of the fleet is being rebuilt, or very busy")

    async def _heartbeats(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._beat()
                self._set_error(None)
                self._warn_of_mistakes()
            except StoreUnavailable as error:
                self._set_error(error)
            except Exception:
                _LOG.exception("unexpected error in a heartbeat of the fleet")
            self._answered.set()
            self._answered = asyncio.Event()
            self._lease.end_if_expired(self._clock())
            try:
                async with asyncio.timeout(self._interval):
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
            self.refusals.note_probe(await self.stream.probe())
        except StoreUnavailable as error:  # a refusal is noted; without an answer, heartbeats fail
            _LOG.debug("could not test the Redis commands: %s", error)

    async def _beat(self) -> None:
        """Report this replica, and take in what Redis answers. Raises StoreUnavailable."""
        known, sent_at = self.log.newest, self._clock()
        answer = await self.stream.heartbeat(self._reporter.next_status())
        outdated = self._merge(answer)
        self._reporter.wall_clock = answer.clock
        if outdated or self.stream.has_unsigned:
            await self.stream.remove_replicas(outdated)
        self._interval = HEARTBEAT_INTERVAL if answer.is_complete else CLEANING_INTERVAL
        if self.log.position is None or known is None:
            await self._join(answer, sent_at)
        elif answer.head is not None and self.log.heartbeat_answered(answer.head, known, sent_at):
            self.follower.extend_lease()
            if self.unsent:
                await self._send_unsent()
        elif self.log.position is not None:
            if answer.head is None or answer.head.epoch == known.epoch:
                await self.stream.begin(answer.epoch)
            self.follower.stop_following("Redis has lost events")

    def _merge(self, answer: LogState) -> list[ReplicaStatus]:
        """Take in the statuses in an answer; return those that can be removed."""
        now = self._clock()
        outdated = self.peers.merge(
            answer.statuses, now, epoch=answer.epoch, is_complete=answer.is_complete
        )
        peers = self.peers.all().values()
        clocks = {each.status.name: each.status.clock for each in peers if not each.is_silent(now)}
        self._clocks.update(clocks | {self.name: answer.clock}, now)
        return outdated

    async def _send_unsent(self) -> None:
        """Try to append a change that could not be sent before. Raises StoreUnavailable."""
        change, nonce = next(iter(self.unsent.items()))
        pending = self.fence.begin(change.partition, change.users)
        event = None
        del self.unsent[change]  # the same may be added meanwhile, which must be sent, too
        try:
            event = await self.append(change, nonce, seconds=HEARTBEAT_INTERVAL)
        except NotAppended:
            self.unsent.setdefault(change, nonce)
        except BaseException:
            self.unsent.setdefault(change, nonce)
            raise
        finally:
            self.fence.end(pending, event)
        self._wake.set()

    async def _join(self, answer: LogState, sent_at: float) -> None:
        """Follow the history that Redis has. Raises StoreUnavailable."""
        head = answer.head
        if head is None:
            self._begun = await self.stream.begin(answer.epoch)
        elif not self.has_followed and head.epoch != self._begun and not self._is_alive(head):
            await self._begin_in_place_of(head)
            return
        elif self.unsent:
            change, nonce = next(iter(self.unsent.items()))
            sent = await self.stream.append(head, change, nonce)
            if sent.has_appended:
                self.unsent.pop(change, None)
        else:
            await self._probe()
            events = await self.stream.recent(head)
            if self.unsent:
                self._wake.set()
                return
            stray = self.follower.pop_stray_entry(head, sent_at)
            has_lost_events = self.log.has_lost_events(events, head)
            if has_lost_events or stray is not None:
                _LOG.warning(
                    "all replicas look up their cached groups again: %s",
                    "Redis has lost events" if has_lost_events else stray,
                )
                await self.stream.begin(head.epoch)
                self._wake.set()
                return
            await self.follower.join(events, head, sent_at)
            return
        self._wake.set()

    def _is_alive(self, head: LogPosition) -> bool:
        """Return whether another replica follows the history."""
        return self.peers.follows(head.epoch, self._clock()) is True

    async def _begin_in_place_of(self, head: LogPosition) -> None:
        """Begin another history in the place of one that nobody follows. Raises StoreUnavailable.

        It may have been restored from a backup while no replica ran, and lack invalidations. This
        replica has just started, so it cannot know.
        """
        if self.peers.follows(head.epoch, self._clock()) is None:
            self._interval = JOIN_POLL_SECONDS
            return
        _LOG.info("no replica follows the fleet's events, so a new history begins")
        self._begun = await self.stream.begin(head.epoch)
        self._wake.set()

    def _set_error(self, error: StoreUnavailable | None) -> None:
        if error is None:
            self._logged = ""
        elif (kind := str(error).partition(":")[0]) != self._logged:
            self._logged = kind
            _LOG.warning("Redis is unavailable; this replica works alone: %s", error)
        self.error = error

    def _warn_of_mistakes(self) -> None:
        """Log mistakes that were not there before."""
        found = self._mistakes()
        for each in found:
            if each not in self._warned_of:
                _LOG.warning("%s", each)
        self._warned_of = found

    def _mistakes(self) -> Sequence[str]:
        if self.stream.rejected > self._rejected:
            self._rejected = self.stream.rejected
            self._foreign_until = self._clock() + FOREIGN_STATUS_SECONDS
        now = self._clock()
        return mistakes(
            self.peers.duplicate_names(),
            has_foreign_statuses=now < self._foreign_until,
            clocks=self._clocks.mistake(now),
        )
