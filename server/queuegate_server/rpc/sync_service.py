"""SyncService: sends policies, groups and changes to gates."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from queuegate.v1 import sync_pb2
from queuegate_server.engine import Engine, ServedPartition, UnknownPartition
from queuegate_server.identity.group_resolver import Resolution
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.policy_age import PolicyTooOld
from queuegate_server.rpc import sync_validation
from queuegate_server.rpc.authentication import current_caller
from queuegate_server.rpc.errors import Draining, InvalidRequest, Overloaded
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.rpc.messages import LOOKUP_OUTCOMES
from queuegate_server.rpc.wire import MAX_SHORT_REQUEST
from queuegate_server.sync.hub import CannotShip, SyncHub
from queuegate_server.sync.session import LEASE, InvalidSync, Session, SyncRights

MAX_WAITING: Final = 10_000
"""The maximum number of users, per stream, whose groups have not been sent yet."""
MAX_WAITING_CHARACTERS: Final = 1024 * 1024
"""The maximum total length, per stream, of the names of users waiting for a lookup."""
MAX_OFFERED_BYTES: Final = 1024 * 1024
"""A stream with this many unsent bytes of groups starts no more lookups."""
MAX_SILENCE: Final = 2 * LEASE
"""A stream is closed after this many seconds without a message. Callers ping once a second."""
LOOKUPS: Final = 8
"""The maximum number of concurrent lookups per stream."""


@dataclass(slots=True, eq=False)
class SyncServicer:
    """Implements SyncService. `Sync` receives and sends serialized messages."""

    engine: Engine
    hub: SyncHub
    queue: LongCallQueue
    draining: asyncio.Event
    """Set when streams must be closed."""
    clock: Callable[[], float]
    """The group caches' monotonic clock, in seconds."""
    max_streams: int
    max_streams_per_caller: int
    local_decisions: bool
    """Whether gates may decide."""

    async def Sync(self, requests: AsyncIterator[bytes], *, trusted: bool) -> AsyncIterator[bytes]:
        """Send policies, groups and changes until the caller closes the stream. Raises Draining."""
        if self.hub.streams.total() >= self.max_streams:
            raise Overloaded(f"{self.max_streams} streams are open, which is the limit")
        caller = current_caller()
        if self.hub.streams[caller] >= self.max_streams_per_caller:
            raise Overloaded(
                f"{caller} has {self.max_streams_per_caller} streams open, which is the limit for"
                " one caller (sync.streams_per_caller)"
            )
        rights = SyncRights(local_decisions=self.local_decisions, assert_groups=trusted)
        woken = asyncio.Event()
        session = await self.hub.open_session(rights, caller, woken.set)
        stream = _Stream(self, session, woken.set)
        reading = asyncio.create_task(stream.read(requests))
        draining = asyncio.create_task(self.draining.wait())
        for task in (reading, draining):
            task.add_done_callback(lambda _: woken.set())
        try:
            while not reading.done():
                if self.draining.is_set():
                    session.drain()
                woken.clear()
                # Reading ends when the caller loses its rights. Send nothing after that.
                while not reading.done() and (response := session.next_response()) is not None:
                    kind = response.WhichOneof("message") or ""
                    resets = kind == "opened" and not response.opened.resumed
                    self.hub.sent["reset" if resets else kind] += 1
                    yield self.hub.encode(response)
                stream.resume_lookups()
                lease = session.lease_until - self.clock()
                if self.draining.is_set() and lease <= 0:
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(lease if self.draining.is_set() else None):
                        await woken.wait()
            if reading.done():
                reading.result()
            if self.draining.is_set():
                raise Draining(
                    "the server is draining: reconnect, to another server if there is one"
                )
        finally:
            reading.cancel()
            draining.cancel()
            stream.close()
            self.hub.close_session(session)


@dataclass(slots=True, eq=False)
class _Stream:
    """Reads a stream's messages and looks up users while responses are sent."""

    _servicer: SyncServicer
    _session: Session
    _wake: Callable[[], None]
    _wanted: dict[tuple[str, str], None] = field(default_factory=dict)
    _wanted_characters: int = 0
    _lookups: set[asyncio.Task[None]] = field(default_factory=set)

    async def read(self, requests: AsyncIterator[bytes]) -> None:
        """Handle messages until the caller closes its side or releases its lease.

        Raises InvalidRequest and Overloaded. Raises Draining after MAX_SILENCE without a message,
        because the caller's rights are checked only when one arrives.
        """
        while True:
            try:
                async with asyncio.timeout(MAX_SILENCE):
                    data = await anext(requests, None)
            except TimeoutError:
                raise Draining(f"the caller was silent for {MAX_SILENCE:g} s") from None
            if data is None or not await self._receive(data):
                return
            del data  # may be large; free it before waiting for the next message

    async def _receive(self, data: bytes) -> bool:
        """Handle a message; return whether to read another."""
        if len(data) <= MAX_SHORT_REQUEST:
            request = sync_validation.parse(data)
        else:
            async with self._servicer.queue.for_stream(data) as slot:
                request = await slot.run(data, lambda: sync_validation.parse(data))
        applied = self._session.applied
        try:
            wanted = self._session.receive(request, self._servicer.clock())
        except InvalidSync as error:
            raise InvalidRequest([("message", str(error))]) from error
        if self._session.applied != applied:
            self._servicer.hub.wake_barriers()
        if wanted is not None:
            self._want([(wanted.partition, user) for user in wanted.users])
        elif not request.HasField("applied"):
            self._wake()
        return not self._session.has_released

    def resume_lookups(self) -> None:
        """Start lookups that waited for buffer space, and repeat those invalidated before being
        sent.
        """
        invalidated, self._session.invalidated = self._session.invalidated, []
        self._add_wanted(invalidated)
        self._start_lookups()

    def close(self) -> None:
        """Cancel the lookups."""
        for task in self._lookups:
            task.cancel()

    def _want(self, users: list[tuple[str, str]]) -> None:
        self._add_wanted(users)
        if len(self._wanted) + self._session.offered > MAX_WAITING:
            raise Overloaded(
                f"{MAX_WAITING} users are waiting for their groups, which is the limit"
            )
        if self._wanted_characters > MAX_WAITING_CHARACTERS:
            raise Overloaded(
                f"the names of users who are waiting for their groups have {MAX_WAITING_CHARACTERS}"
                " characters, which is the limit"
            )
        self._start_lookups()

    def _add_wanted(self, users: Iterable[tuple[str, str]]) -> None:
        for each in users:
            if each not in self._wanted:
                self._wanted[each] = None
                self._wanted_characters += len(each[1])

    @property
    def _is_due(self) -> bool:
        """Whether a lookup is pending and the send buffer has room."""
        return bool(self._wanted) and self._session.offered_bytes < MAX_OFFERED_BYTES

    def _start_lookups(self) -> None:
        while self._is_due and len(self._lookups) < LOOKUPS:
            task = asyncio.create_task(self._look_up(*self._take_wanted()))
            self._lookups.add(task)
            task.add_done_callback(self._lookups.discard)

    def _take_wanted(self) -> tuple[str, str]:
        partition, user = next(iter(self._wanted))
        del self._wanted[partition, user]
        self._wanted_characters -= len(user)
        return partition, user

    async def _look_up(self, partition: str, user: str) -> None:
        """Look up a user, and then the waiting users, one at a time."""
        while True:
            with suppress(UnknownPartition, PolicyTooOld, CannotShip):
                # Groups from a new policy's resolver must not be sent before the policy.
                since = await self._servicer.hub.policy_shipped()
                served = self._servicer.engine.snapshot.find(partition)
                resolution = await served.groups.resolve(user)
                groups = _groups(served, resolution, self._servicer.clock())
                self._session.offer(groups, since)
                self._wake()
            if not self._is_due:
                return
            partition, user = self._take_wanted()


def _groups(served: ServedPartition, resolution: Resolution, now: float) -> sync_pb2.UserGroups:
    entry = resolution.entry
    outcome = entry.outcome
    lifetime = max(0.0, served.groups.copy_until(resolution) - now)
    return sync_pb2.UserGroups(
        partition=served.partition.name,
        user=entry.user,
        outcome=LOOKUP_OUTCOMES[type(outcome)],
        groups=outcome.groups if isinstance(outcome, KnownUser) else (),
        lifetime_millis=int(lifetime * 1_000),
    )
