"""The Health page, which shows the state of the server and its dependencies."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from queuegate.policy.decision import ACLS_DISABLED, Access
from queuegate.policy.names import ROOT
from queuegate_server.admin.readiness import versions
from queuegate_server.admission.queues.places import listed_schedulers
from queuegate_server.console.attention import problems
from queuegate_server.console.views import Page, Route, Services, View, Visit
from queuegate_server.engine import Snapshot
from queuegate_server.fleet.view import WEBHOOK, FleetView
from queuegate_server.observe.audit import AuditLog
from queuegate_server.observe.counters import Histogram
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.sync.hub import LAG_SECONDS

EXPIRES_SOON_DAYS: Final = 14.0
MAX_GATES: Final = 200
MAX_REPLICAS: Final = 100
_DAY: Final = 86_400.0


async def health(visit: Visit) -> View:
    """Show the state of the server."""
    services = visit.services
    snapshot, member = services.core.engine.snapshot, services.core.fleet
    now, wall = services.core.clock(), time.time()
    fleet = None if member is None else member.view()
    gates = [(each.lag(now), each) for each in services.core.sync.leases]
    gates.sort(key=lambda each: (-each[0], each[1].name))
    replicas = [] if fleet is None else [*fleet.replicas]
    replicas.sort(key=lambda each: (not each.is_self, each.name))
    page = {
        **versions(),
        "phase": str(services.readiness.phase),
        "policy": snapshot.policy,
        "loaded_at": snapshot.loaded_at,
        "problems": [*problems(services), *_problems(services, fleet, now, wall)],
        "resolvers": [*_resolvers(services, now)],
        "partitions": [*_partitions(snapshot)],
        "head": services.core.sync.log.head,
        "now": now,
        "gates": gates[:MAX_GATES],
        "gates_not_shown": max(0, len(gates) - MAX_GATES),
        "away": services.core.sync.leases.away(now)[:MAX_GATES],
        "other_gates": [
            (each.name, gate)
            for each in replicas[:MAX_REPLICAS]
            if not each.is_self
            for gate in each.connected_gates
        ][:MAX_GATES],
        "fleet": fleet,
        "replicas": replicas[:MAX_REPLICAS],
        "webhooks": [each for each in replicas if each.role == WEBHOOK][:MAX_REPLICAS],
        "own_checksum": "" if member is None else member.status.checksum,
        "unsent": 0 if member is None else len(member.session.unsent),
        "certificates": [(each, (each.expires - wall) / _DAY) for each in services.certificates],
        "reloads": [*reversed(services.core.reloader.past)],
        "audit": services.core.audit,
        "queue_checks": _queue_checks(services.settings.admission.queues),
        "http_addresses": services.http_addresses,
        "http_requests": sum(services.http_counts.values()),
        "http_failures": sum(
            count
            for (_, status), count in services.http_counts.items()
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR
        ),
    }
    return View("health.html", "Health", page)


def _queue_checks(checks: QueueChecks | None) -> dict[str, str] | None:
    """Return the modes of the webhook's queue checks, if the settings contain them."""
    if checks is None:
        return None
    modes = [
        f"{name}: {mode}" for name, mode in listed_schedulers(checks.schedulers) if mode is not None
    ]
    return {"mode": str(checks.mode), "modes": ", ".join(modes)}


def _resolvers(services: Services, now: float) -> Iterator[dict[str, object]]:
    for defined_in, each in services.core.resolvers.resolvers():
        counters = services.core.lookups.get((each.name, defined_in))
        number = sum(counters.outcomes.values()) if counters else 0
        failed_at, error = each.breaker.last_failure or (now, "")
        yield {
            "resolver": each,
            "defined_in": defined_in,
            "outcomes": counters.outcomes if counters else {},
            "mean_seconds": counters.durations.sum / number if counters and number else None,
            "p99": _upper_bound(counters.durations, 0.99) if counters and number else "",
            "last_error": error,
            "last_error_seconds": now - failed_at,
        }


def _upper_bound(durations: Histogram, quantile: float) -> str:
    """Format the upper bound of the histogram bucket that contains the given quantile."""
    buckets = durations.buckets()
    number = buckets[-1][1]
    for bound, count in buckets[:-1]:
        if count >= quantile * number:
            return f"≤ {float(bound) * 1000:g} ms"
    return f"> {float(buckets[-2][0]):g} s"


def _partitions(snapshot: Snapshot) -> Iterator[dict[str, object]]:
    for name, served in sorted(snapshot.served.items()):
        stats = served.groups.stats
        hits, misses = stats.hits + stats.negative_hits, stats.misses + stats.failure_hits
        from_cache = hits + stats.stale_hits
        lookups = from_cache + misses
        yield {
            "name": name,
            "served": served,
            "stats": stats,
            "hits": hits,
            "hit_percent": 100.0 * from_cache / lookups if lookups else None,
            "misses": misses,
        }


def _problems(
    services: Services, fleet: FleetView | None, now: float, wall: float
) -> Iterator[str]:
    """Yield the problems that only this page shows, each as a sentence."""
    if lagging := sum(each.lag(now) >= LAG_SECONDS for each in services.core.sync.leases):
        gates = "gate has" if lagging == 1 else "gates have"
        yield f"{lagging} {gates} not confirmed the latest changes."
    for problem in () if fleet is None else fleet.problems:
        yield f"{problem[0].upper()}{problem[1:]}."
    for name, served in services.core.engine.snapshot.served.items():
        cluster = served.partition.cluster
        if cluster is not None and not cluster.acls_enabled:
            submit = served.partition.chain(ROOT, Access.SUBMIT)
            also = "submit to and " if submit.otherwise is ACLS_DISABLED else ""
            yield (
                f"Everyone may {also}administer every queue of partition {name}: yarn.acl.enable is"
                " not true in its yarn-site.xml."
            )
    for each in services.certificates:
        if each.expires < wall + EXPIRES_SOON_DAYS * _DAY:
            verb = "expired" if each.expires < wall else "expires"
            day = datetime.fromtimestamp(each.expires, UTC).date()
            yield f"The certificate of {each.listener} {verb} on {day}."
    if services.core.audit is not None:
        yield from _audit_problems(services.core.audit)


def _audit_problems(audit: AuditLog) -> Iterator[str]:
    if not audit.is_writable:
        yield "The audit log cannot be written."
    if number := audit.counts.dropped:
        records = "audit record has" if number == 1 else "audit records have"
        yield f"{number} {records} been lost since the server started."
    if number := audit.counts.refused:
        records = "audit record" if number == 1 else "audit records"
        yield f"{number} {records} could not be written in time, so the calls failed."


PAGE: Final = Page("Health", "health", (Route("GET", "health", health),))
