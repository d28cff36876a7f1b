"""Prometheus metrics.

Collectors read, at each scrape, counters that the server keeps anyway, so that a call only
increments a number. No label carries the name of a user, group or queue. deploy/OPERATIONS.md lists
all metrics.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from queuegate_server.admin.readiness import Readiness, versions
from queuegate_server.engine import Engine, NotReady
from queuegate_server.identity.circuit_breaker import CircuitState
from queuegate_server.identity.manager import ResolverManager
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics
from queuegate_server.observe.audit import AuditLog
from queuegate_server.observe.counters import Histogram, LookupCounters, MethodCounters
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.rpc.decision_log import DecisionLog
from queuegate_server.rpc.interceptors import ConcurrencyLimiter
from queuegate_server.transports.sockets import ReloadingCredentials

_CALL: Final = ("grpc_type", "grpc_service", "grpc_method")
_RESOLVER: Final = ("resolver", "defined_in")
_PARTITION: Final = ("partition",)
_CACHE_COUNTS: Final = {
    "refreshes": "Refreshes of users whose groups were cached.",
    "evictions": "Entries evicted to make room for others.",
    "invalidated": "Entries dropped on request.",
    "outdated": "Look-ups whose result was outdated when they finished.",
}
_EVENTS: Final = ("retried", "ambiguous", "other_spelling", "skipped_names", "depth_reached")
"""Attributes of `LdapStatistics` that are exported as events."""

_Samples = Iterable[tuple[Sequence[str], float]]
"""Values, each with its labels."""


@dataclass(frozen=True, slots=True)
class MetricSources:
    """The parts of the server that keep the numbers."""

    calls: list[MethodCounters]
    call_limit: ConcurrencyLimiter
    decisions: DecisionLog
    engine: Engine
    lookups: LookupCounters
    resolvers: ResolverManager
    reloader: Reloader
    readiness: Readiness
    audit: AuditLog | None
    certificates: Sequence[ReloadingCredentials]
    """Those of the listeners that are bound; the sequence may grow."""


class _Collector(Collector):
    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        for metrics in (_calls, _caches, _resolvers, _ldap, _policy, _audit, _certificates):
            yield from metrics(self._sources)


def metrics_writer(sources: MetricSources) -> Callable[[], bytes]:
    """Return a function that writes the metrics of the server and its process as text."""
    registry = CollectorRegistry()
    registry.register(_Collector(sources))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return lambda: generate_latest(registry)


def _counter(name: str, text: str, labels: Sequence[str], samples: _Samples) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _gauge(name: str, text: str, labels: Sequence[str], samples: _Samples) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _histogram(
    name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], Histogram]]
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, durations in samples:
        family.add_metric(values, durations.buckets(), durations.sum)
    return family


def _calls(sources: MetricSources) -> Iterator[Metric]:
    methods = [((each.kind, each.service, each.method), each) for each in sources.calls]
    yield _counter(
        "grpc_server_started",
        "Calls started.",
        _CALL,
        ((labels, method.started) for labels, method in methods),
    )
    yield _counter(
        "grpc_server_handled",
        "Calls completed, by status.",
        (*_CALL, "grpc_code"),
        (
            ((*labels, code), count)
            for labels, method in methods
            for code, count in method.codes.items()
        ),
    )
    yield _histogram(
        "grpc_server_handling_seconds",
        "Duration of calls.",
        _CALL,
        ((labels, method.durations) for labels, method in methods),
    )
    limit = sources.call_limit
    for name, text, value in (
        ("queuegate_calls_in_progress", "Calls in progress.", limit.running),
        ("queuegate_calls_limit", "How many calls may be in progress.", limit.limit),
        ("queuegate_streams_in_progress", "Streams in progress.", limit.streams),
        ("queuegate_streams_limit", "How many streams may be open.", limit.stream_limit),
    ):
        yield GaugeMetricFamily(name, text, value)
    yield _counter(
        "queuegate_calls_refused",
        "Calls rejected at a limit.",
        ("reason",),
        (((reason,), count) for reason, count in limit.refused.items()),
    )
    yield _counter(
        "queuegate_decisions",
        "Decisions, including those of batches and streams.",
        ("outcome", "reason"),
        (((outcome, reason), count) for outcome, reason, count in sources.decisions.tallied()),
    )


def _caches(sources: MetricSources) -> Iterator[Metric]:
    try:
        served = sources.engine.snapshot.served
    except NotReady:
        served = {}
    stats = {name: partition.groups.stats() for name, partition in served.items()}
    yield _counter(
        "queuegate_cache_requests",
        "Look-ups in the group cache; repeated requests do not reach it.",
        (*_PARTITION, "result"),
        (
            ((name, result), count)
            for name, counts in stats.items()
            for result, count in (
                ("hit", counts.hits),
                ("negative_hit", counts.negative_hits),
                ("failure_hit", counts.failure_hits),
                ("stale_hit", counts.stale_hits),
                ("miss", counts.misses),
            )
        ),
    )
    yield _gauge(
        "queuegate_cache_entries",
        "Entries, including expired ones.",
        _PARTITION,
        (((name,), counts.entries) for name, counts in stats.items()),
    )
    yield _gauge(
        "queuegate_cache_refreshes_waiting",
        "Cached users whose refresh is due and queued.",
        _PARTITION,
        (((name,), partition.groups.refreshes_waiting) for name, partition in served.items()),
    )
    for attribute, text in _CACHE_COUNTS.items():
        yield _counter(
            f"queuegate_cache_{attribute}",
            text,
            _PARTITION,
            [((name,), getattr(counts, attribute)) for name, counts in stats.items()],
        )


def _resolvers(sources: MetricSources) -> Iterator[Metric]:
    lookups = sources.lookups.resolvers
    yield _counter(
        "queuegate_resolver_lookups",
        "Look-ups, including those that were rejected or timed out.",
        (*_RESOLVER, "outcome"),
        (
            ((*labels, outcome), count)
            for labels, counters in lookups.items()
            for outcome, count in counters.outcomes.items()
        ),
    )
    yield _histogram(
        "queuegate_resolver_lookup_seconds",
        "Duration of look-ups, including their time in the queue.",
        _RESOLVER,
        ((labels, counters.durations) for labels, counters in lookups.items()),
    )
    resolvers = [((each.name, where), each) for where, each in sources.resolvers.resolvers()]
    yield _gauge(
        "queuegate_resolver_breaker_state",
        "1 for the current state of the circuit breaker.",
        (*_RESOLVER, "state"),
        (
            ((*labels, state), state is resolver.breaker.state)
            for labels, resolver in resolvers
            for state in CircuitState
        ),
    )
    yield _gauge(
        "queuegate_resolver_lookups_running",
        "Look-ups in progress.",
        _RESOLVER,
        ((labels, resolver.bulkhead.running) for labels, resolver in resolvers),
    )
    yield _gauge(
        "queuegate_resolver_lookups_waiting",
        "Look-ups in the queue.",
        _RESOLVER,
        ((labels, resolver.bulkhead.waiting) for labels, resolver in resolvers),
    )


def _ldap(sources: MetricSources) -> Iterator[Metric]:
    directories = [
        ((each.name, where), statistics)
        for where, each in sources.resolvers.resolvers()
        if isinstance(statistics := getattr(each.resolver, "statistics", None), LdapStatistics)
    ]
    steps = [
        ((*labels, *server_and_step), count)
        for labels, statistics in directories
        for server_and_step, count in statistics.steps.items()
    ]
    yield _counter(
        "queuegate_ldap_steps",
        "Operations on a directory server.",
        (*_RESOLVER, "server", "step", "result"),
        (
            ((*labels, result), number)
            for labels, count in steps
            for result, number in (("success", count.succeeded), ("failure", count.failed))
        ),
    )
    yield _counter(
        "queuegate_ldap_step_seconds",
        "Total duration of these operations.",
        (*_RESOLVER, "server", "step"),
        ((labels, count.seconds) for labels, count in steps),
    )
    yield _counter(
        "queuegate_ldap_events",
        "Unusual events in look-ups.",
        (*_RESOLVER, "event"),
        (
            ((*labels, event), getattr(statistics, event))
            for labels, statistics in directories
            for event in _EVENTS
        ),
    )


def _policy(sources: MetricSources) -> Iterator[Metric]:
    build, reloader = versions(), sources.reloader
    yield _gauge(
        "queuegate_build_info",
        "Always 1; the labels are the versions.",
        tuple(build),
        [(tuple(build.values()), 1)],
    )
    yield GaugeMetricFamily(
        "queuegate_ready", "1 if /readyz reports ready.", sources.readiness.is_ready
    )
    yield _counter(
        "queuegate_policy_reloads",
        "Loads of the policy, including the first one.",
        ("result",),
        [(("success",), reloader.succeeded), (("failure",), reloader.failed)],
    )
    yield GaugeMetricFamily(
        "queuegate_policy_last_reload_successful",
        "1 if the policy that was read last is served.",
        reloader.state.succeeded,
    )
    try:
        snapshots = [sources.engine.snapshot]
    except NotReady:
        snapshots = []
    yield _gauge(
        "queuegate_policy_revision",
        "Increases by 1 with each new policy.",
        (),
        (((), snapshot.policy.revision) for snapshot in snapshots),
    )
    yield _gauge(
        "queuegate_policy_loaded_timestamp_seconds",
        "When the policy was loaded, in Unix seconds.",
        (),
        (((), snapshot.loaded_at) for snapshot in snapshots),
    )
    yield _gauge(
        "queuegate_policy_queues",
        "Queues of the policy.",
        _PARTITION,
        (
            ((name,), len(partition.queues))
            for snapshot in snapshots
            for name, partition in snapshot.policy.partitions.items()
        ),
    )


def _audit(sources: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of the audit log; without an audit log they have no values."""
    logs = [] if sources.audit is None else [sources.audit]
    yield _counter(
        "queuegate_audit_records",
        "Records by result: written; dropped; refused, so that their calls failed.",
        ("result",),
        (
            ((result,), getattr(log.counts, result))
            for log in logs
            for result in ("written", "dropped", "refused")
        ),
    )
    yield _counter(
        "queuegate_audit_write_failures",
        "Writes of the audit log that failed.",
        (),
        (((), log.counts.failed_writes) for log in logs),
    )
    yield _counter(
        "queuegate_audit_rotation_failures",
        "Rotations of the audit log that failed.",
        (),
        (((), log.target.failed_rotations) for log in logs),
    )
    yield _gauge(
        "queuegate_audit_writable",
        "1 if the last write of the audit log succeeded and no write hangs.",
        (),
        (((), log.is_writable) for log in logs),
    )
    yield _gauge(
        "queuegate_audit_waiting_bytes",
        "Records that wait to be written, in bytes.",
        (),
        (((), log.counts.waiting_bytes) for log in logs),
    )


def _certificates(sources: MetricSources) -> Iterator[Metric]:
    yield _gauge(
        "queuegate_certificate_expiry_timestamp_seconds",
        "When the certificate of a listener expires, in Unix seconds.",
        ("listener",),
        (((each.listener,), each.expires) for each in sources.certificates),
    )
    yield _counter(
        "queuegate_certificate_reloads",
        "Loads of a listener's certificate, key and authorities, including the first one.",
        ("listener", "result"),
        (
            ((each.listener, result), count)
            for each in sources.certificates
            for result, count in (("success", each.reloads), ("failure", each.failures))
        ),
    )
