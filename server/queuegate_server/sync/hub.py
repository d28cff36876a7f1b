"""The state shared by all of a server's streams: changes, shipped policies and leases."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

from queuegate.v1 import cursor_pb2, sync_pb2
from queuegate_server.engine import Engine, Snapshot
from queuegate_server.identity.shared import CacheLease, EndlessLease
from queuegate_server.reloads import SnapshotListener
from queuegate_server.sync.barrier import Leases, Unconfirmed
from queuegate_server.sync.change_log import GateLog
from queuegate_server.sync.compiler import ship
from queuegate_server.sync.session import FleetEvents, Session, ShippedPolicy, SyncRights

LAG_SECONDS: Final = 15.0
"""A gate that has not confirmed a change for this long is logged, and again at this interval."""
_LOG = logging.getLogger("queuegate_server.sync")
_KINDS: Final = [
    field.name for field in sync_pb2.SyncResponse.DESCRIPTOR.oneofs_by_name["message"].fields
]


class CannotShip(Exception):
    """The served policy cannot be sent to gates."""


class SyncHub:
    """Passes changes to streams and waits for callers to apply them. Used from one event loop."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float],
        server: bytes,
        lease: CacheLease | None = None,
        fleet_events: FleetEvents | None = None,
    ) -> None:
        """Create a hub that ships the engine's snapshots.

        `clock` is monotonic, in seconds, and `server` is an 8-byte ID. While `lease` is valid, the
        group caches and the gates may be used; None for a lease that never expires.
        """
        self.log: Final = GateLog(server)
        self.leases: Final = Leases(clock())
        self.sent: Final = dict.fromkeys((*_KINDS, "reset"), 0)
        """The number of messages to callers, by type. `reset` counts the `opened` messages of
        streams that could not resume."""
        self.waited: Final = {"confirmed": 0, "waited_out": 0, "stale": 0}
        """The number of barriers, by whether all callers confirmed, some leases had to expire, or
        some callers may decide from their last state."""
        self.streams: Final[Counter[str]] = Counter()
        """The number of streams that are open or being opened, by caller."""
        self._fleet_events = fleet_events
        self._clock = clock
        self._engine = engine
        self._served: Snapshot | None = None
        self._new_resolvers: set[str] = set()
        """The partitions with new resolvers. Their groups are invalidated when the next policy
        ships."""
        self.shipped: Mapping[str, ShippedPolicy] = {}
        """The shipped policies by partition; empty until a stream has been opened."""
        self._lease = lease or EndlessLease()
        self._can_ship = True
        self._shipping: asyncio.Task[None] | None = None
        self._encoded: dict[int, bytes] = {}
        """The serialized parts of shipped policies, by the message's `id`; empty until sent."""
        self._wake_streams: dict[Session, Callable[[], None]] = {}
        self._applied = asyncio.Event()
        self._lag_timer: asyncio.TimerHandle | None = None
        self._waking: asyncio.Handle | None = None
        engine.on_swap(SnapshotListener.GATES, self._on_swap)

    @property
    def may_decide(self) -> bool:
        """Whether gates may decide now."""
        return self._can_ship and not self._lease.end_if_expired(self._clock())

    async def open_session(
        self, rights: SyncRights, caller: str, wake: Callable[[], None]
    ) -> Session:
        """Wait until the served policy has been shipped, then return a session for a new stream.

        `wake` is called on each change. Raises NotReady and CannotShip.
        """
        _ = self._engine.snapshot
        if self._shipping is None:
            self._shipping = asyncio.create_task(self._ship())
        self.streams[caller] += 1
        try:
            await self.policy_shipped()
        except BaseException:
            self.streams[caller] -= 1
            raise
        session = Session(self.log, self, rights, caller, self._fleet_events)
        self.leases.add(session)
        self._wake_streams[session] = wake
        return session

    def close_session(self, session: Session) -> None:
        """Close a stream. Its lease may outlive it."""
        self.streams[session.caller] -= 1
        del self._wake_streams[session]
        self.leases.remove(session, self._clock())
        self.wake_barriers()  # the caller may have released its lease

    async def wait_for_leases(self) -> None:
        """Wait until all leases have expired. No stream may be open."""
        now = self._clock()
        if (expiry := self.leases.last_end(now)) is not None:
            seconds = expiry - now
            _LOG.info("waiting for gate leases to expire", extra={"seconds": round(seconds, 1)})
            await asyncio.sleep(seconds)

    def wake_barriers(self) -> None:
        """Make barriers recheck their leases. Call this after a caller has confirmed changes."""
        self._applied.set()
        self._applied = asyncio.Event()

    def invalidate(self, partition: str, users: Collection[str] = ()) -> int:
        """Invalidate groups in all gates; see `ChangeLog.invalidate`."""
        sequence = self.log.invalidate(partition, users)
        self._wake()
        return sequence

    async def policy_shipped(self) -> int:
        """Wait until the served policy has been shipped; return the newest change's number.

        Return immediately if no stream has ever been opened. Raises CannotShip.
        """
        while (task := self._shipping) is not None:
            if not task.done():
                await asyncio.wait((task,))
            if task is self._shipping:  # the snapshot was not replaced meanwhile
                task.result()
                break
        return self.log.head

    async def barrier(self, sequence: int) -> Unconfirmed:
        """Wait until no caller uses the state from before a change under a lease."""
        barrier = self.leases.barrier(sequence, self._clock())
        while (expiry := barrier.next_end(self._clock())) is not None:
            applied = self._applied
            with suppress(TimeoutError):
                async with asyncio.timeout(expiry - self._clock()):
                    await applied.wait()
        stale = barrier.stale(self._clock())
        self.waited["stale" if stale else "waited_out" if barrier.waited_out else "confirmed"] += 1
        return Unconfirmed(barrier.waited_out, stale)

    @property
    def now(self) -> float:
        """The time on the leases' clock, in seconds."""
        return self._clock()

    @property
    def lag(self) -> float:
        """The age of the oldest unconfirmed change, in seconds; 0 if all are confirmed."""
        now = self._clock()
        return max((each.lag(now) for each in self.leases), default=0.0)

    def encode(self, response: sync_pb2.SyncResponse) -> bytes:
        """Serialize a message. Policy parts are serialized once for all callers."""
        key = id(response)
        data = self._encoded.get(key) or response.SerializeToString()
        if key in self._encoded:
            self._encoded[key] = data
        return data

    @property
    def cursor(self) -> cursor_pb2.Cursor:
        """The position of the newest change."""
        return cursor_pb2.Cursor(epoch=self.log.epoch, sequence=self.log.head)

    def close(self) -> None:
        """Stop shipping policies, waking streams and logging slow gates."""
        if self._shipping is not None:
            self._shipping.cancel()
            self._shipping = None
        for handle in (self._lag_timer, self._waking):
            if handle is not None:
                handle.cancel()

    def _log_lagging(self) -> None:
        """Log callers that have not confirmed a change for LAG_SECONDS."""
        now = self._clock()
        self._lag_timer = None
        behind = [(each, round(each.lag(now), 1)) for each in self.leases if each.lag(now)]
        for session, seconds in behind:
            if seconds >= LAG_SECONDS:
                fields = {"gate": session.name, "caller": session.caller, "seconds": seconds}
                _LOG.warning("a gate has not confirmed changes", extra=fields)
        if behind:
            loop = asyncio.get_running_loop()
            self._lag_timer = loop.call_later(LAG_SECONDS, self._log_lagging)

    def _on_swap(self, snapshot: Snapshot) -> None:
        before, self._served = self._served, snapshot
        if self._shipping is None or (before is not None and _is_same(before, snapshot)):
            return
        for name, served in {} if before is None else before.served.items():
            now = snapshot.served.get(name)
            if now is None or now.groups is not served.groups:
                self._new_resolvers.add(name)
        self._shipping.cancel()
        self._shipping = asyncio.create_task(self._ship())

    async def _ship(self) -> None:
        try:
            shipped = await ship(self._engine.snapshot)
        except Exception as error:
            # Stop granting leases, so gates use the previous policy for at most one more lease.
            self._can_ship = False
            _LOG.exception(
                "the policy cannot be sent to gates, which query the server until the next reload"
            )
            raise CannotShip from error
        self._can_ship = True
        self.shipped = shipped
        self._encoded = {id(part): b"" for each in shipped.values() for part in each.parts}
        # Append both changes together, so that a caller first drops the groups and then uses the
        # previous policy without them until it has received all of the new policy.
        for name in sorted(self._new_resolvers):
            self.log.invalidate(name)
        self._new_resolvers.clear()
        self.log.policy_changed()
        self._wake()

    def _wake(self) -> None:
        now = self._clock()
        for session in self._wake_streams:
            session.note_change(now)
        loop = asyncio.get_running_loop()
        if self._lag_timer is None:
            self._lag_timer = loop.call_later(LAG_SECONDS, self._log_lagging)
        if self._waking is None:
            # Sending to many gates takes a while. First let the caller send the change to the other
            # replicas.
            self._waking = loop.call_soon(self._wake_all)

    def _wake_all(self) -> None:
        self._waking = None
        for wake in self._wake_streams.values():
            wake()


def _is_same(before: Snapshot, now: Snapshot) -> bool:
    """Return whether gates already have everything that a new snapshot would send them.

    Gates get nothing from a followed cluster, which changes often; otherwise, shipping a policy
    from a file might never end.
    """
    if before.served.keys() != now.served.keys():
        return False
    pairs = ((before.served[name], served) for name, served in now.served.items())
    return any(served.age for served in now.served.values()) and all(
        old.groups is new.groups and (old.partition is new.partition or (old.age and new.age))
        for old, new in pairs
    )
