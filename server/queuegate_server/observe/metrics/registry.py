"""All metrics of one server process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    ProcessCollector,
    generate_latest,
)

from queuegate_server.engine import Engine
from queuegate_server.observe.audit import AuditLog
from queuegate_server.observe.counters import CallCounters, LookupCounters
from queuegate_server.observe.metrics.calls import CallMetrics, Decided, InProgress
from queuegate_server.observe.metrics.groups import (
    CacheMetrics,
    LdapMetrics,
    ResolverMetrics,
    Resolvers,
)
from queuegate_server.observe.metrics.server import (
    AuditMetrics,
    Certificate,
    CertificateMetrics,
    PolicyMetrics,
    Reloads,
)


@dataclass(frozen=True, slots=True)
class MetricSources:
    """What the metrics are read from."""

    engine: Engine
    reloads: Reloads
    calls: CallCounters
    in_progress: InProgress
    decided: Decided
    lookups: LookupCounters
    resolvers: Resolvers
    audit: AuditLog | None
    certificates: Sequence[Certificate]
    is_ready: Callable[[], bool]
    versions: dict[str, str]


def metrics_writer(sources: MetricSources) -> Callable[[], bytes]:
    """Return a function that writes all metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    for collector in (
        CallMetrics(sources.calls, sources.in_progress, sources.decided),
        CacheMetrics(sources.engine),
        ResolverMetrics(sources.lookups, sources.resolvers),
        LdapMetrics(sources.resolvers),
        PolicyMetrics(sources.engine, sources.reloads, sources.is_ready, sources.versions),
        AuditMetrics(sources.audit),
        CertificateMetrics(sources.certificates),
    ):
        registry.register(collector)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return lambda: generate_latest(registry)
