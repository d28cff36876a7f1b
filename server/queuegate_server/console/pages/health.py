"""The page "Health": the server's dependencies and their state."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from queuegate_server.admin.readiness import versions
from queuegate_server.console.attention import problems
from queuegate_server.console.views import Page, Route, Services, View, Visit
from queuegate_server.engine import Snapshot
from queuegate_server.fleet.view import ReplicaView
from queuegate_server.identity.guarded_resolver import CircuitState
from queuegate_server.observe.audit import AuditLog
from queuegate_server.observe.counters import Histogram
from queuegate_server.policystore.reloader import PastReload
from queuegate_server.sync.hub import LAG_SECONDS

if TYPE_CHECKING:
    from queuegate_server.fleet.member import FleetMember

EXPIRES_SOON_DAYS: Final = 14.0
MAX_GATES: Final = 200
MAX_REPLICAS: Final = 100
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class ResolverHealth:
    """A resolver of groups."""

    name: str
    defined_in: str
    """`settings` or `policy`."""
    is_local: bool
    """Whether it answers from memory, without a circuit breaker."""
    breaker: str
    running: int
    waiting: int
    found: int
    no_such_user: int
    failed: int
    mean_seconds: float | None
    """None before the first lookup."""
    p99_seconds: str
    """An upper bound."""
    last_error: str
    last_error_seconds: float
    """The age of the last failure."""

    @property
    def is_well(self) -> bool:
        """Whether the resolver is being asked."""
        return self.breaker == CircuitState.CLOSED


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """A served partition and its group cache."""

    name: str
    queues: int
    resolver: str
    entries: int
    negative: int
    hits: int
    misses: int
    stale: int
    evictions: int
    refreshes_waiting: int

    @property
    def hit_percent(self) -> float | None:
        """The percentage of questions that the cache answered; None before the first one."""
        asked = self.hits + self.stale + self.misses
        return 100.0 * (self.hits + self.stale) / asked if asked else None


@dataclass(frozen=True, slots=True)
class GateHealth:
    """A connected gate."""

    name: str
    caller: str
    applied: int
    """The last change that applies there."""
    behind: int
    """The number of changes after that one."""
    lag_seconds: float
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class FleetHealth:
    """The fleet, as this replica sees it."""

    is_reachable: bool
    """Whether Redis answers."""
    unsent: int
    """The number of changes that wait for Redis."""
    checksum: str
    """The checksum of this replica's policy."""
    replicas: tuple[ReplicaView, ...]
    """The replicas, this one first."""
    problems: tuple[str, ...]
    """Why the fleet is not healthy, as sentences."""


@dataclass(frozen=True, slots=True)
class CertificateHealth:
    """The certificate of a listener."""

    listener: str
    expires: float
    """In Unix seconds."""
    days: float
    failed_reloads: int

    @property
    def problem(self) -> str:
        """A sentence about a certificate that has expired or soon will; else empty."""
        if self.days >= EXPIRES_SOON_DAYS:
            return ""
        verb = "expired" if self.days < 0 else "expires"
        day = datetime.fromtimestamp(self.expires, UTC).date()
        return f"The certificate of {self.listener} {verb} on {day}."


@dataclass(frozen=True, slots=True)
class AuditHealth:
    """The audit log."""

    is_writable: bool
    written: int
    lost: int
    waiting_bytes: int

    @property
    def problem(self) -> str:
        """A sentence if the log cannot be written; else empty."""
        return "" if self.is_writable else "The audit log cannot be written."


@dataclass(frozen=True, slots=True)
class HealthPage:
    """The contents of the page."""

    version: str
    python: str
    phase: str
    source: str
    revision: int
    checksum: str
    loaded_at: float
    problems: tuple[str, ...]
    """Problems that need attention."""
    resolvers: tuple[ResolverHealth, ...]
    partitions: tuple[PartitionHealth, ...]
    head: int
    """The number of the newest change for gates."""
    gates: tuple[GateHealth, ...]
    gates_not_shown: int
    fleet: FleetHealth | None
    certificates: tuple[CertificateHealth, ...]
    reloads: tuple[PastReload, ...]
    """The reloads, newest first."""
    audit: AuditHealth | None


async def health(visit: Visit) -> View:
    """Show the page."""
    return View("health.html", "Health", _page(visit.services))


def _page(services: Services) -> HealthPage:
    snapshot = services.engine.snapshot
    now, wall = services.clock(), time.time()
    fleet = None if services.fleet is None else _fleet(services.fleet)
    resolvers = tuple(_resolvers(services, now))
    gates = sorted(_gates(services, now), key=lambda each: (-each.lag_seconds, each.name))
    certificates = tuple(_certificates(services, wall))
    audit = None if services.audit is None else _audit(services.audit)
    reloads = tuple(reversed(services.reloader.past))
    return HealthPage(
        versions()["version"],
        versions()["python"],
        str(services.readiness.phase),
        snapshot.policy.source,
        snapshot.policy.revision,
        snapshot.policy.checksum,
        snapshot.loaded_at,
        (*problems(services), *_problems(gates, (*certificates, audit), fleet)),
        resolvers,
        tuple(_partitions(snapshot)),
        services.sync.log.head,
        tuple(gates[:MAX_GATES]),
        max(0, len(gates) - MAX_GATES),
        fleet,
        certificates,
        reloads,
        audit,
    )


def _resolvers(services: Services, now: float) -> Iterator[ResolverHealth]:
    for defined_in, each in services.resolvers.resolvers():
        counters = services.lookups.resolvers.get((each.name, defined_in))
        outcomes = {} if counters is None else counters.outcomes
        number = sum(outcomes.values())
        failed_at, error = each.breaker.last_failure or (now, "")
        yield ResolverHealth(
            each.name,
            defined_in,
            each.is_local,
            str(each.breaker.state),
            each.bulkhead.running,
            each.bulkhead.waiting,
            outcomes.get("found", 0),
            outcomes.get("no_such_user", 0),
            outcomes.get("could_not_ask", 0),
            counters.durations.sum / number if counters and number else None,
            _upper_bound(counters.durations, 0.99) if counters and number else "",
            error,
            now - failed_at,
        )


def _upper_bound(durations: Histogram, quantile: float) -> str:
    """Return a bound below which this share of the durations lies, as text."""
    buckets = durations.buckets()
    number = buckets[-1][1]
    for bound, count in buckets[:-1]:
        if count >= quantile * number:
            return f"≤ {float(bound) * 1000:g} ms"
    return f"> {float(buckets[-2][0]):g} s"


def _partitions(snapshot: Snapshot) -> Iterator[PartitionHealth]:
    for name, served in sorted(snapshot.served.items()):
        stats = served.groups.stats
        yield PartitionHealth(
            name,
            len(served.partition.queues),
            served.groups.resolver_name,
            stats.groups.entries,
            stats.negative.entries,
            stats.hits + stats.negative_hits,
            stats.misses + stats.failure_hits,
            stats.stale_hits,
            stats.groups.evictions + stats.negative.evictions,
            served.groups.refreshes_waiting,
        )


def _gates(services: Services, now: float) -> Iterator[GateHealth]:
    head = services.sync.log.head
    for each in services.sync.leases:
        yield GateHealth(
            each.name,
            each.caller,
            each.applied,
            head - each.applied,
            each.lag(now),
            max(0.0, each.lease_until - now),
        )


def _fleet(member: "FleetMember") -> FleetHealth:
    view = member.view()
    shown = sorted(view.replicas, key=lambda each: (not each.is_self, each.name))
    return FleetHealth(
        view.connected,
        len(member.session.unsent),
        member.status.checksum,
        tuple(shown[:MAX_REPLICAS]),
        tuple(f"{each[0].upper()}{each[1:]}." for each in view.problems),
    )


def _certificates(services: Services, wall: float) -> Iterator[CertificateHealth]:
    for each in services.certificates:
        days = (each.expires - wall) / _DAY
        yield CertificateHealth(each.listener, each.expires, days, each.failures)


def _audit(audit: AuditLog) -> AuditHealth:
    counts = audit.counts
    lost = counts.dropped + counts.refused
    return AuditHealth(audit.is_writable, counts.written, lost, counts.waiting_bytes)


def _problems(
    gates: Iterable[GateHealth],
    others: Iterable[CertificateHealth | AuditHealth | None],
    fleet: FleetHealth | None,
) -> Iterator[str]:
    """Yield other problems that need attention, as sentences."""
    if lagging := sum(each.lag_seconds >= LAG_SECONDS for each in gates):
        yield f"{lagging} {'gate does' if lagging == 1 else 'gates do'} not confirm changes."
    if fleet is not None:
        yield from fleet.problems
    yield from (each.problem for each in others if each is not None and each.problem)


PAGE: Final = Page("Health", "health", (Route("GET", "health", health),))
