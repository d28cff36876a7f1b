"""A gate, its stream and the policy of a server, as the models of the protocol see them.

A policy is a version number, and so are the groups of the one user.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from queuegate.gate.session import GateRights
from queuegate.v1 import sync_pb2, user_groups_pb2
from queuegate_server.sync.session import LEASE, Session, ShippedPolicy

PARTITION = "default"
USER = "u"
FINGERPRINT = b"the directory"
TICK = LEASE / 2
"""Seconds; the clocks of servers are right."""
GATE_CLOCK_RATE = 0.985
"""The gates' clocks are slow, as far as the server's margin allows: their leases last longer."""


class Violation(Exception):
    """Somebody decides from a state that a barrier promised to be gone."""


class Clocks:
    """The time."""

    ticks = 0

    @property
    def now(self) -> float:
        return 100.0 + self.ticks * TICK

    @property
    def gate_now(self) -> float:
        return 100.0 + self.ticks * TICK * GATE_CLOCK_RATE


class VersionReplica:
    """A gate's copy of the version of the policy and of the user's groups."""

    def __init__(self) -> None:
        self.policy: int | None = None
        self.confirmed = False
        self.groups: int | None = None

    def held(self) -> Iterable[sync_pb2.HeldPolicy]:
        if self.policy is None:
            return ()
        checksum = b"%d" % self.policy
        return (
            sync_pb2.HeldPolicy(
                partition=PARTITION, checksum=checksum, resolver_fingerprint=FINGERPRINT
            ),
        )

    def reset(self, keep_groups_of: Collection[str] = ()) -> None:
        self.confirmed = False
        if PARTITION not in keep_groups_of:
            self.groups = None

    def add_part(self, part: sync_pb2.PolicyPart) -> None:
        assert part.first
        assert part.last
        if part.unchanged:
            assert self.policy is not None
            assert part.checksum == b"%d" % self.policy
        else:
            self.policy = int(part.checksum)
        self.confirmed = True

    def drop_parts(self) -> None:
        pass

    def drop_policies(self) -> None:
        self.policy = None
        self.reset()

    def use_rights(self, rights: GateRights) -> None:
        pass

    def set_groups(self, groups: sync_pb2.UserGroups, asked_at: float) -> None:
        self.groups = int(groups.groups[0])

    def forget(self, partition: str, users: Iterable[str]) -> None:
        self.groups = None

    def check(self, promised_policy: int, promised_groups: int) -> None:
        """Raise Violation if a decision would come from before what barriers have promised."""
        if not self.confirmed:
            return
        if self.policy is not None and self.policy < promised_policy:
            raise Violation("a gate decides from an old policy")
        if self.groups is not None and self.groups < promised_groups:
            raise Violation("a gate decides from old groups")


class VersionPolicies:
    """The policy that the server serves."""

    def __init__(self, version: int) -> None:
        self.version = version

    may_decide = True

    @property
    def shipped(self) -> Mapping[str, ShippedPolicy]:
        checksum = b"%d" % self.version
        part = sync_pb2.PolicyPart(partition=PARTITION, first=True, last=True, checksum=checksum)
        whole = sync_pb2.SyncResponse(policy=part)
        part.unchanged = True
        unchanged = sync_pb2.SyncResponse(policy=part)
        return {
            PARTITION: ShippedPolicy(checksum, 1 + self.version, (whole,), unchanged, FINGERPRINT)
        }


class Lookup(NamedTuple):
    """A lookup under way."""

    version: int
    """The groups that it will return."""
    since: int
    """The position in the event log before it."""
    drops: int = 0
    """How often the cache of the server had been emptied before."""


@dataclass(eq=False)
class Connection:
    """A stream between a gate and a server, with what is on its way."""

    session: Session
    server: int
    up: deque[sync_pb2.SyncRequest] = field(default_factory=deque)
    down: deque[sync_pb2.SyncResponse] = field(default_factory=deque)
    lookups: list[Lookup] = field(default_factory=list)

    def server_sends(self) -> bool:
        """Send a message of the server; return False if there is none."""
        response = self.session.next_response()
        if response is not None:
            self.down.append(response)
        return response is not None

    def offer(self, lookup: Lookup) -> None:
        """Have the server send the groups of the user that a lookup has returned."""
        groups = sync_pb2.UserGroups(
            partition=PARTITION,
            user=USER,
            outcome=user_groups_pb2.RESOLVE_OUTCOME_RESOLVED,
            groups=(str(lookup.version),),
        )
        self.session.offer(groups, lookup.since)
