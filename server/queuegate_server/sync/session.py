"""One caller's stream: its outgoing messages and the expiry of its lease.

This module performs no I/O. Its inputs are messages and times, and its outputs are messages;
`rpc/sync_service.py` transfers the messages.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from queuegate.policy.decision import RULES
from queuegate.v1 import cursor_pb2, sync_pb2
from queuegate_server.sync.change_log import MAX_INVALIDATED, POLICY_CHANGED, GateLog, StateChange
from queuegate_server.sync.connected import ConnectedGate, GateCounts

LEASE: Final = 5.0
"""Seconds for which a caller may decide after sending a ping."""
PING_INTERVAL: Final = 1.0
CLOCK_MARGIN: Final = 0.1
"""Seconds that the server adds to a lease, to allow for clock drift."""
_MAX_NAMES: Final = 10_000
"""The maximum number of partitions that a caller accepts in one message."""
_MAX_OTHERS: Final = 11
"""The maximum number of partitions that a caller did not name: one more than gates log, so that
they log an ellipsis."""


class ShippedPolicy(NamedTuple):
    """A partition's policy, encoded as messages to gates."""

    checksum: bytes
    revision: int
    parts: Sequence[sync_pb2.SyncResponse]
    """The complete policy."""
    unchanged: sync_pb2.SyncResponse
    """The message for callers whose policy has this checksum, regardless of its revision."""
    resolver_fingerprint: bytes = b""
    """Identifies the resolver's settings; empty if the groups are not shared."""


class InvalidSync(Exception):
    """The caller violated the protocol; the message gives the details."""


class Policies(Protocol):
    """The policies to send. They change only when a change is added to the log."""

    @property
    def may_decide(self) -> bool:
        """Whether gates may decide; False while the served policy cannot be sent."""

    @property
    def shipped(self) -> Mapping[str, ShippedPolicy]:
        """The policies by partition."""


class SyncRights(NamedTuple):
    """A caller's rights when it decides locally."""

    local_decisions: bool
    assert_groups: bool
    """Whether the caller may use groups asserted in requests."""


class KeptGroups(NamedTuple):
    """Groups that a caller already has and may keep using."""

    partitions: Sequence[str] = ()
    events: Sequence[StateChange] = ()
    """The changes that invalidate some of these groups."""


NOTHING_KEPT: Final = KeptGroups()


class FleetEvents(Protocol):
    """The fleet events that this server has applied."""

    @property
    def cursor(self) -> cursor_pb2.Cursor | None:
        """The newest event whose invalidations are in this server's log, even if it is a reload
        still in progress; None while the validity of other replicas' groups is unknown.
        """

    def kept_groups(
        self, request: sync_pb2.SyncOpen, fingerprints: Mapping[str, bytes]
    ) -> KeptGroups:
        """Return the groups that a caller previously connected to another replica may keep.

        `request` is the caller's first message; `fingerprints` maps the names of its partitions to
        resolver fingerprints.
        """


@dataclass(eq=False)
class Session:
    """The state of one stream."""

    _log: GateLog
    _policies: Policies
    _rights: SyncRights
    caller: str = ""
    _fleet_events: FleetEvents | None = None
    name: str = ""
    instance: bytes = b""
    """Identifies the caller's state across its streams; empty if unspecified."""
    applied: int = 0
    """The caller has applied all changes up to this number."""
    lease_until: float = 0.0
    """When the last granted lease expires, on the server's clock."""
    has_released: bool = False
    """Whether the caller has released its leases and stopped deciding under them."""
    is_closed: bool = False
    """Whether the caller has stopped deciding for good."""
    gate: ConnectedGate = field(default_factory=ConnectedGate)
    """The caller's claims about itself."""
    invalidated: list[tuple[str, str]] = field(default_factory=list)
    """The (partition, user) pairs whose groups were invalidated before being sent."""
    offered_bytes: int = 0
    """The number of bytes of unsent groups."""
    _behind: tuple[int, float] | None = None
    _partitions: frozenset[str] = frozenset()
    _is_open: bool = False
    _is_draining: bool = False
    _sent: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    """The checksum and revision (0: unconfirmed) of each policy sent to the caller."""
    _position: int = 0
    """All changes up to this number have been sent or queued in `_changes`."""
    _changes: deque[sync_pb2.SyncResponse | str] = field(default_factory=deque)
    """Messages to send. To save memory, removals of policies are stored as partition names."""
    _sent_cursor: cursor_pb2.Cursor | None = None
    """The fleet cursor of the newest checkpoint."""
    _ping: tuple[int, float] | None = None
    _groups: deque[tuple[sync_pb2.UserGroups, int]] = field(default_factory=deque)

    def receive(self, request: sync_pb2.SyncRequest, now: float) -> sync_pb2.SyncWant | None:
        """Handle a message received at the monotonic time `now`, in seconds.

        Return the request for groups, if the message is one. Raises InvalidSync.
        """
        kind = request.WhichOneof("message")
        if (kind == "open") is self._is_open:
            raise InvalidSync("`open` must be the first message, and must not be repeated")
        if kind == "open":
            self._open(request.open)
        elif kind == "ping":
            self._ping = (request.ping.id, now)
            if request.ping.HasField("counts"):
                self.gate = self.gate._replace(counts=_counts(request.ping.counts))
        elif kind == "applied":
            self._note_applied(request.applied.sequence, now)
        elif kind == "release":
            self.has_released = True
            self.is_closed = request.release.closed
            self.lease_until = min(self.lease_until, now)
        elif kind == "want":
            return request.want
        else:
            raise InvalidSync("`message` must be set")
        return None

    def note_change(self, now: float) -> None:
        """Record that a change was added to the log at the monotonic time `now`, in seconds."""
        if self._is_open and self._behind is None:
            self._behind = (self._log.head, now)

    def lag(self, now: float) -> float:
        """Return how long changes have been unconfirmed, in seconds; 0 if all are confirmed."""
        return 0.0 if self._behind is None else now - self._behind[1]

    @property
    def stale(self) -> float:
        """How long the caller may decide from its last state after its lease expires, in seconds of
        the server's clock.
        """
        return self.gate.stale_millis / 1_000 * (1 + CLOCK_MARGIN / LEASE)

    @property
    def stale_until(self) -> float:
        """When the caller stops deciding from its last state, if it gets no further lease."""
        if self.is_closed or not self.lease_until:
            return self.lease_until
        return self.lease_until + self.stale

    def drain(self) -> None:
        """Grant no more leases, and make the caller release its current ones."""
        if self.lease_until and not self._is_draining:
            draining = sync_pb2.SyncResponse(draining=sync_pb2.SyncDraining())
            self._changes.appendleft(draining)
        self._is_draining = True

    @property
    def offered(self) -> int:
        """The number of users whose groups have not been sent yet."""
        return len(self._groups)

    def offer(self, groups: sync_pb2.UserGroups, since: int) -> None:
        """Queue groups looked up after the change `since`, to be sent unless invalidated first."""
        self._groups.append((groups, since))
        self.offered_bytes += groups.ByteSize()

    def next_response(self) -> sync_pb2.SyncResponse | None:
        """Return the next message to the caller, or None.

        Changes are sent before a pong, because the pong grants a lease, which must not cover state
        that predates an unsent change.
        """
        if not self._is_open:
            return None
        if not self._changes:
            self._collect_changes()
        if self._changes:
            change = self._changes.popleft()
            return _removal(change) if isinstance(change, str) else change
        if self._ping is not None and self._may_grant:
            (ping_id, received_at), self._ping = self._ping, None
            self.lease_until = max(self.lease_until, received_at + LEASE + CLOCK_MARGIN)
            return sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=ping_id))
        while self._groups:
            groups, since = self._groups.popleft()
            self.offered_bytes -= groups.ByteSize()
            if self._log.is_valid(groups.partition, groups.user, since):
                return sync_pb2.SyncResponse(user_groups=groups)
            self.invalidated.append((groups.partition, groups.user))
        return None

    @property
    def _may_grant(self) -> bool:
        return self._policies.may_decide and not (self._is_draining or self.has_released)

    def _open(self, request: sync_pb2.SyncOpen) -> None:
        self._is_open = True
        self.name = request.name
        self.instance = request.instance
        self.gate = ConnectedGate(request.name, self.caller, request.agent, request.stale_millis)
        if RULES not in request.rules:
            self._rights = self._rights._replace(local_decisions=False)
        self._partitions = frozenset(request.partitions)
        self._sent = {held.partition: (held.checksum, 0) for held in request.held}
        resume = request.resume
        if resume.epoch == self._log.epoch and self._log.has_all_since(resume.sequence):
            self.applied = self._position = resume.sequence
            self._changes.append(self._opened(resumed=True))
            self._remove_policies()
        elif self._fleet_events is None:
            self._reset()
        else:
            wanted = self._wanted().items()
            fingerprints = {name: policy.resolver_fingerprint for name, policy in wanted}
            self._reset(self._fleet_events.kept_groups(request, fingerprints))

    def _note_applied(self, sequence: int, now: float) -> None:
        if sequence > self._position:
            raise InvalidSync(f"`applied.sequence` must be at most {self._position}")
        self.applied = max(self.applied, sequence)
        if self._behind is not None and self.applied >= self._behind[0]:
            self._behind = None if self.applied == self._log.head else (self._log.head, now)

    def _reset(self, kept: KeptGroups = NOTHING_KEPT) -> None:
        """Make the caller drop its state, except for `kept` groups and confirmed policies."""
        self._position = self._log.head
        self._groups.clear()
        self.offered_bytes = 0
        self._changes.append(self._opened(resumed=False, keep_groups_of=kept.partitions))
        self._add_invalidations(kept.events)
        self._sent = {name: (checksum, 0) for name, (checksum, _) in self._sent.items()}
        self._add_policies()

    def _collect_changes(self) -> None:
        if self._position == self._log.head:
            # The fleet cursor may advance without a new change, because this server's changes
            # become fleet events only after they have been sent.
            if self._ping is not None and self._fleet_cursor not in (None, self._sent_cursor):
                self._changes.append(self._checkpoint())
            return
        if not self._log.has_all_since(self._position):
            self._reset()
            return
        events = self._log.since(self._position)
        self._position = self._log.head
        self._add_invalidations(events)
        if POLICY_CHANGED in events:
            self._add_policies()
        else:
            self._changes.append(self._checkpoint())

    def _add_invalidations(self, events: Iterable[StateChange]) -> None:
        for partition, users in _merge(events).items():
            if not self._partitions or partition in self._partitions:
                forget = sync_pb2.Forget(partition=partition, users=users)
                self._changes.append(sync_pb2.SyncResponse(forget=forget))

    def _add_policies(self) -> None:
        """Queue the policies that differ from the caller's, then a checkpoint."""
        self._remove_policies()
        for partition, policy in self._wanted().items():
            checksum, revision = self._sent.get(partition, (b"", 0))
            self._sent[partition] = policy.checksum, policy.revision
            if checksum != policy.checksum:
                self._changes.extend(policy.parts)
            elif revision != policy.revision:
                self._changes.append(policy.unchanged)
        self._changes.append(self._checkpoint())

    def _remove_policies(self) -> None:
        """Make the caller drop the policies of partitions that it no longer receives."""
        removed = self._sent.keys() - self._wanted().keys()
        for partition in removed:
            del self._sent[partition]
        self._changes.extend(removed)

    def _checkpoint(self) -> sync_pb2.SyncResponse:
        cursor = self._sent_cursor = self._fleet_cursor
        checkpoint = sync_pb2.SyncCheckpoint(sequence=self._position, fleet_cursor=cursor)
        return sync_pb2.SyncResponse(checkpoint=checkpoint)

    @property
    def _fleet_cursor(self) -> cursor_pb2.Cursor | None:
        return None if self._fleet_events is None else self._fleet_events.cursor

    def _wanted(self) -> Mapping[str, ShippedPolicy]:
        shipped = self._policies.shipped
        if not self._partitions:
            return shipped
        return {name: shipped[name] for name in self._partitions & shipped.keys()}

    def _named(self) -> list[str]:
        """Return the names of the caller's partitions and, if the server lacks one, of others that
        the caller may have meant.
        """
        wanted = self._wanted()
        if len(wanted) >= len(self._partitions):
            return sorted(wanted)
        others = sorted(self._policies.shipped.keys() - wanted.keys())
        room = min(_MAX_OTHERS, _MAX_NAMES - len(wanted))
        return sorted([*wanted, *others[:room]])

    def _opened(
        self, *, resumed: bool, keep_groups_of: Collection[str] = ()
    ) -> sync_pb2.SyncResponse:
        opened = sync_pb2.SyncOpened(
            epoch=self._log.epoch,
            resumed=resumed,
            lease_millis=int(LEASE * 1_000),
            ping_interval_millis=int(PING_INTERVAL * 1_000),
            partitions=self._named(),
            **self._rights._asdict(),
            keep_groups_of=keep_groups_of,
        )
        return sync_pb2.SyncResponse(opened=opened)


def _counts(counts: sync_pb2.GateCounts) -> GateCounts:
    fallbacks = counts.fallbacks if counts.HasField("fallbacks") else None
    return GateCounts(counts.decided, counts.stale, fallbacks)


def _removal(partition: str) -> sync_pb2.SyncResponse:
    removed = sync_pb2.PolicyPart(partition=partition, first=True, last=True, removed=True)
    return sync_pb2.SyncResponse(policy=removed)


def _merge(events: Iterable[StateChange]) -> Mapping[str, Collection[str]]:
    """Return the users whose groups are invalid, by partition. An empty set means all users."""
    invalid: dict[str, set[str]] = {}
    for partition, users in events:
        if partition is None:
            continue
        names = invalid.get(partition)
        if names is None:
            invalid[partition] = set(users)
        elif names:
            names |= users
            if not users or len(names) > MAX_INVALIDATED:
                names.clear()
    return invalid
