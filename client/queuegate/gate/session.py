"""The gate's side of the protocol. Tracks the gate's lease and the state on which the gate may base
decisions.

Performs no I/O; it takes messages and times, and returns messages. The server's side is
`queuegate_server/sync/session.py`; `sync.proto` defines the rules.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, NamedTuple, Protocol

from queuegate.gate import bounds, checks
from queuegate.policy.decision import RULES
from queuegate.v1 import cursor_pb2, sync_pb2

WANT_AGAIN: Final = 10.0
"""How many seconds to wait for a user's groups before requesting them again."""
MAX_PINGS: Final = 32
"""The maximum number of pings in flight. All but the latest few are too old to grant a lease."""


def _clock() -> Callable[[], float]:
    """Return a monotonic clock for leases. Where supported, it keeps running while the machine is
    suspended.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    return time.monotonic


clock: Final = _clock()


class GateRights(NamedTuple):
    """A gate's rights, as set by the server."""

    local_decisions: bool = False
    """Whether the gate may decide locally."""
    assert_groups: bool = False
    """Whether the gate may use groups supplied with a check."""


class Replica(Protocol):
    """A gate's copy of the server's state."""

    def held(self) -> Iterable[sync_pb2.HeldPolicy]:
        """Return the completely received policies, to be announced to the server in `SyncOpen`."""

    def reset(self, keep_groups_of: Collection[str] = ()) -> None:
        """Drop all groups outside the given partitions, and stop using policies until the server
        confirms them.
        """

    def add_part(self, part: sync_pb2.PolicyPart) -> None:
        """Add a part of a policy. The policy takes effect once all its parts have been added."""

    def drop_parts(self) -> None:
        """Drop the received parts of a policy that is not yet complete."""

    def drop_policies(self) -> None:
        """Drop all policies and groups, including policies that await the server's confirmation."""

    def use_rights(self, rights: GateRights) -> None:
        """Apply the given rights, and drop decisions made under different rights."""

    def set_groups(self, groups: sync_pb2.UserGroups, asked_at: float) -> None:
        """Store a user's groups. Their lifetime is measured from `asked_at`, the time of the
        request.
        """

    def forget(self, partition: str, users: Iterable[str]) -> None:
        """Drop the given users' groups. If no users are given, drop all groups in the partition."""


class GateSession:
    """A gate's session with its server, across all of the gate's streams."""

    def __init__(
        self,
        replica: Replica,
        name: str,
        partitions: Iterable[str] = (),
        *,
        stale: float = 0.0,
        agent: str = "",
    ) -> None:
        """Create a session. Each call to `open` starts a new stream.

        Args:
            replica: The replica to update.
            name: The gate's name on the server.
            partitions: The partitions to follow; all if empty.
            stale: How long the gate may use its last state after its lease expires, in seconds.
            agent: The gate's program and version.
        """
        self.lease_until = -math.inf
        """When the lease expires, on the gate's monotonic clock."""
        self.ping_interval = 1.0
        self._replica = replica
        self._name = name
        self._agent = agent
        self._stale_millis = math.ceil(stale * 1_000)
        self._instance = os.urandom(16)
        self._partitions = frozenset(partitions)
        self._lease = 0.0
        self._is_open = False
        """Whether the server has accepted the stream."""
        self._epoch = b""
        self._announced = b""
        self._applied = 0
        self._fleet_cursor: cursor_pb2.Cursor | None = None
        self._part_of = ""
        """The partition whose policy is incomplete; empty between policies."""
        self._wanted: dict[tuple[str, str], float] = {}
        """When each pending request for groups was sent, by partition and user."""
        self._deferred: dict[tuple[str, str], float] = {}
        """When groups that were unavailable may be requested again, by partition and user."""
        self._last_ping = 0
        self._pings: dict[int, float] = {}

    def open(self) -> sync_pb2.SyncRequest:
        """Reset the per-stream state, and return the first message of a new stream."""
        self._is_open = False
        self._pings.clear()
        self._wanted.clear()
        self._deferred.clear()
        self._drop_parts()
        message = sync_pb2.SyncOpen(
            name=self._name,
            partitions=sorted(self._partitions),
            held=_select_policies(self._replica.held()),
            fleet_cursor=self._fleet_cursor,
            instance=self._instance,
            rules=[RULES],
            stale_millis=self._stale_millis,
            agent=self._agent,
        )
        if self._epoch:
            message.resume.epoch = self._epoch
            message.resume.sequence = self._applied
        return sync_pb2.SyncRequest(open=message)

    def ping(self, now: float, counts: sync_pb2.GateCounts | None = None) -> sync_pb2.SyncRequest:
        """Return a ping with the gate's counts. It must not be sent before `now`, in monotonic
        seconds.
        """
        if len(self._pings) == MAX_PINGS:
            del self._pings[min(self._pings)]
        self._last_ping += 1
        self._pings[self._last_ping] = now
        return sync_pb2.SyncRequest(ping=sync_pb2.SyncPing(id=self._last_ping, counts=counts))

    def want(self, partition: str, users: Iterable[str], now: float) -> sync_pb2.SyncRequest:
        """Return a request for users' groups. It must not be sent before `now`, in monotonic
        seconds.
        """
        for key in [key for key, at in self._wanted.items() if now >= at + WANT_AGAIN]:
            del self._wanted[key]
        for key in [key for key, until in self._deferred.items() if now >= until]:
            del self._deferred[key]
        names = list(users)
        self._wanted.update(dict.fromkeys(((partition, user) for user in names), now))
        return sync_pb2.SyncRequest(want=sync_pb2.SyncWant(partition=partition, users=names))

    def is_wanted(self, partition: str, user: str, now: float) -> bool:
        """Return whether a user's groups are pending or were recently unavailable. If so, they need
        not be requested now.
        """
        key = (partition, user)
        if now < self._deferred.get(key, -math.inf):
            return True
        asked_at = self._wanted.get(key)
        return asked_at is not None and now < asked_at + WANT_AGAIN

    @property
    def waiting(self) -> int:
        """The number of users whose groups are pending or were recently unavailable."""
        return len(self._wanted) + len(self._deferred)

    def receive(self, response: sync_pb2.SyncResponse, now: float) -> sync_pb2.SyncRequest | None:
        """Process a message from the server. Return the message to send back, if any.

        Raises:
            ValueError: The message violates the protocol or exceeds the bounds. The caller must
                then call `drop_everything`.
        """
        checks.check(response)
        kind = response.WhichOneof("message")
        self._check_order(kind)
        if kind == "pong":
            self._start_lease(response.pong.id)
        elif kind == "opened":
            self._accept_stream(response.opened)
        elif kind == "policy":
            self._add_part(response.policy)
        elif kind == "forget":
            self._replica.forget(response.forget.partition, response.forget.users)
        elif kind == "user_groups":
            self._receive_groups(response.user_groups, now)
        elif kind == "draining":
            return self.release(now)
        elif kind == "checkpoint":
            self._epoch = self._announced
            self._applied = response.checkpoint.sequence
            has_fleet = response.checkpoint.HasField("fleet_cursor")
            cursor = response.checkpoint.fleet_cursor
            # The cursor is sent to the next server. Drop unknown fields, because they may be large.
            copy = cursor_pb2.Cursor(epoch=cursor.epoch, sequence=cursor.sequence)
            self._fleet_cursor = copy if has_fleet else None
            applied = sync_pb2.SyncApplied(sequence=self._applied)
            return sync_pb2.SyncRequest(applied=applied)
        return None

    def release(self, now: float, *, closed: bool = False) -> sync_pb2.SyncRequest:
        """Give up the stream's lease, and return the message that releases it. `closed` means that
        the gate will not decide again.
        """
        self._pings.clear()
        self.lease_until = min(self.lease_until, now)
        return sync_pb2.SyncRequest(release=sync_pb2.SyncRelease(closed=closed))

    def reset(self, keep_groups_of: Collection[str] = ()) -> None:
        """Give up the lease, drop all groups outside the given partitions, and stop using policies
        until the server confirms them. Called if the server rejects this gate or does not recognize
        its state.
        """
        self._epoch = b""
        if not keep_groups_of:
            # If groups are kept, the cursor stays valid, because no groups are added before the
            # next checkpoint.
            self._fleet_cursor = None
        self.lease_until = -math.inf
        self._replica.reset(keep_groups_of)

    def drop_everything(self) -> None:
        """Give up the lease and drop all state. The server resends the state on the next stream."""
        self.reset()
        self._part_of = ""
        self._replica.drop_policies()

    def _check_order(self, kind: str | None) -> None:
        if not self._is_open and kind not in ("opened", None):
            raise ValueError("the first message must be `opened`")
        if self._part_of and kind in ("pong", "checkpoint"):
            # Either message would confirm a policy that this gate has not completely received.
            raise ValueError(f"`{kind}` came before the policy of {self._part_of!r} was complete")

    def _accept_stream(self, opened: sync_pb2.SyncOpened) -> None:
        if opened.resumed and not (self._epoch and opened.epoch == self._epoch):
            raise ValueError("`opened` resumes from a position that this gate does not have")
        self._is_open = True
        self._announced = opened.epoch
        self._lease = opened.lease_millis / 1_000
        self.ping_interval = max(bounds.MIN_PING_SECONDS, opened.ping_interval_millis / 1_000)
        self._drop_parts()
        if not opened.resumed:
            # A lease from a different server does not cover this server's state.
            self.reset(opened.keep_groups_of)
        self._replica.use_rights(GateRights(opened.local_decisions, opened.assert_groups))

    def _add_part(self, part: sync_pb2.PolicyPart) -> None:
        if self._partitions and part.partition not in self._partitions:
            raise ValueError(f"this gate does not follow the partition {part.partition!r}")
        self._replica.add_part(part)
        is_complete = part.last or part.removed or part.unchanged
        self._part_of = "" if is_complete else part.partition

    def _drop_parts(self) -> None:
        self._part_of = ""
        self._replica.drop_parts()

    def _receive_groups(self, groups: sync_pb2.UserGroups, now: float) -> None:
        """Apply a user's groups. Their lifetime is measured from the request, because this process
        may have been suspended before it read the response.
        """
        key = (groups.partition, groups.user)
        asked_at = self._wanted.pop(key, None)
        if asked_at is None:
            return
        lifetime = min(groups.lifetime_millis / 1_000, bounds.MAX_LIFETIME_SECONDS)
        is_usable = checks.has_usable_groups(groups)
        if not is_usable or lifetime < bounds.MIN_LOOKUP_SECONDS:
            self._deferred[key] = now + max(lifetime, bounds.MIN_LOOKUP_SECONDS)
        if is_usable:
            self._replica.set_groups(groups, asked_at)

    def _start_lease(self, ping_id: int) -> None:
        """Extend the lease. Its duration is measured from when the acknowledged ping was sent."""
        for earlier in [each for each in self._pings if each < ping_id]:
            del self._pings[earlier]
        sent_at = self._pings.pop(ping_id, None)
        if sent_at is not None:
            self.lease_until = max(self.lease_until, sent_at + self._lease)


def _select_policies(held: Iterable[sync_pb2.HeldPolicy]) -> list[sync_pb2.HeldPolicy]:
    """Return as many policies as may be announced on a new stream. The server resends the rest."""
    announced: list[sync_pb2.HeldPolicy] = []
    size = 0
    for policy in held:
        size += len(policy.partition.encode())
        if size > bounds.MAX_ANNOUNCED_BYTES or len(announced) == bounds.MAX_PARTITIONS:
            break
        announced.append(policy)
    return announced
