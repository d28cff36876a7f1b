"""Builds the decision core (policies, groups, shared state, audit log, counters) from the settings.

Building it starts nothing and does not import gRPC.
"""

import os
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queuegate.gate.session import clock as boottime
from queuegate_server.decisions.log import DecisionLog
from queuegate_server.engine import Engine
from queuegate_server.identity import resolver_types
from queuegate_server.identity.manager import ResolverManager
from queuegate_server.identity.resolver import Resolver
from queuegate_server.identity.resolver_types import ResolverType
from queuegate_server.identity.shared import CacheLease, EndlessLease
from queuegate_server.observe.audit import AuditLog, open_audit_log
from queuegate_server.observe.counters import ResolverCounters
from queuegate_server.policystore.reloader import PolicyReview, Reloader
from queuegate_server.settings.model import Settings
from queuegate_server.sync.change_log import SERVER_BYTES
from queuegate_server.sync.changes import Changes, LocalChanges
from queuegate_server.sync.hub import SyncHub

if TYPE_CHECKING:
    from queuegate_server.fleet.join import FleetParts
    from queuegate_server.fleet.member import FleetMember


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Identifies one of several worker processes."""

    index: int
    server: bytes
    """The identity of the server to which the workers belong."""
    agree_on_revision: Callable[[str, int], Awaitable[int]]
    """Agrees with the other workers on a policy's revision; see Reloader."""


@dataclass(frozen=True, slots=True)
class DecisionCore:
    """The components that make and record decisions."""

    clock: Callable[[], float]
    """The clock used by caches, circuit breakers and leases, in seconds."""
    lease: CacheLease
    """The lease required to use the caches."""
    engine: Engine
    resolvers: ResolverManager
    reloader: Reloader
    lookups: Mapping[tuple[str, str], ResolverCounters]
    """Counters by resolver name and `defined_in`, including removed resolvers' counters."""
    audit: AuditLog | None
    decisions: DecisionLog
    sync: SyncHub
    changes: Changes
    fleet: "FleetMember | None"
    sharing: "FleetParts | None"


def build_core(
    settings: Settings,
    current: Settings,
    worker: WorkerIdentity | None = None,
    *,
    around: Callable[[str, Resolver], Resolver] | None = None,
    resolver_type: Callable[[str], ResolverType] = resolver_types.resolver_type,
    role: str = "",
    review: PolicyReview | None = None,
) -> DecisionCore:
    """Build the decision core on the running event loop. Raises CannotAudit.

    Args:
        settings: The settings at startup.
        current: The current settings, after any reloads.
        worker: The worker's identity, used to name its audit log; None for a single process.
        around: Wraps each resolver, given its name and the resolver itself.
        resolver_type: Returns a resolver type by name, or raises BadResolverType.
        role: How the fleet shows this process: `webhook`, or empty for a server.
        review: Reviews valid policies before they are served.
    """
    audit = open_audit_log(
        current.audit if worker is None else current.audit.of_worker(worker.index)
    )
    lookups: defaultdict[tuple[str, str], ResolverCounters] = defaultdict(ResolverCounters)
    clock = time.monotonic
    parts = None
    if settings.fleet.is_on:
        from queuegate_server.fleet.join import FleetParts  # noqa: PLC0415 - needs the extra

        clock = boottime  # keeps running during suspend, when leases must also expire
        index = None if worker is None else worker.index
        parts = FleetParts(settings.fleet, index, clock, time.time, role)
    lease = EndlessLease() if parts is None else parts.session.lease
    engine = Engine(clock)
    resolvers = ResolverManager(
        current,
        clock,
        time.time,
        lambda name, defined_in: lookups[name, defined_in].add,
        lease=lease,
        share=None if parts is None else parts.groups,
        source_lease=None if parts is None else parts.source_lease,
        around=around,
        resolver_type=resolver_type,
    )
    reloader = Reloader(
        settings,
        resolvers,
        engine,
        time.time,
        None if worker is None else worker.agree_on_revision,
        review,
    )
    hub = SyncHub(
        engine,
        clock,
        server=os.urandom(SERVER_BYTES) if worker is None else worker.server,
        lease=lease,
        fleet_events=None if parts is None else parts.session.fence,
    )
    changes: Changes
    changes = local = LocalChanges(engine, reloader, hub)
    fleet: FleetMember | None = None
    if parts is not None:
        fleet, changes = parts.join(local)
    return DecisionCore(
        clock=clock,
        lease=lease,
        engine=engine,
        resolvers=resolvers,
        reloader=reloader,
        lookups=lookups,
        audit=audit,
        decisions=DecisionLog(
            audit, allowed=current.audit.records == "all", latest=lambda: engine.latest
        ),
        sync=hub,
        changes=changes,
        fleet=fleet,
        sharing=parts,
    )
