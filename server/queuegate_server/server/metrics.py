"""Prometheus metrics of this process.

They are read, at each scrape, from counters that the server keeps anyway, so that a call only
increments a number. No label carries the name of a user, group or queue. deploy/OPERATIONS.md lists
all metrics.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from queuegate_server.admin.readiness import versions
from queuegate_server.engine import NotReady, Snapshot
from queuegate_server.identity.guards import CircuitState
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics
from queuegate_server.server.wiring import ServerParts

_CALL: Final = ("grpc_type", "grpc_service", "grpc_method")
_RESOLVER: Final = ("resolver", "defined_in")
_PARTITION: Final = ("partition",)
_CACHE_RESULTS: Final = {
    "hit": "hits",
    "negative_hit": "negative_hits",
    "failure_hit": "failure_hits",
    "stale_hit": "stale_hits",
    "miss": "misses",
}
"""Attributes of `CacheStats`, by their values of the label `result`."""
_CACHE_COUNTS: Final = {
    "refreshes": "Refreshes of users whose groups were cached.",
    "evictions": "Entries evicted to make room for others.",
    "invalidated": "Entries dropped on request.",
    "outdated": "Look-ups whose result was outdated when they finished.",
}
"""The texts of other attributes of `CacheStats`."""
_LDAP_EVENTS: Final = ("retried", "ambiguous", "other_spelling", "skipped_names", "depth_reached")
"""Attributes of `LdapStatistics` that are exported as events."""


def metrics_writer(parts: ServerParts) -> Callable[[], bytes]:
    """Return a function that writes the metrics of the server and its process as text."""
    registry = CollectorRegistry()
    registry.register(_Collector(parts))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return lambda: generate_latest(registry)


class _Collector(Collector):
    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        for metrics in (_calls, _caches, _resolvers, _ldap, _policy, _audit, _certificates):
            yield from metrics(self._parts)


def _family(
    kind: Callable[..., Any],
    name: str,
    text: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], Any]] | Mapping[str, float],
) -> Metric:
    """Return a metric with one sample for each of the values of its labels.

    If there is one label, `samples` may be a mapping by its values.
    """
    family = kind(name, text, labels=labels)
    if isinstance(samples, Mapping):
        samples = (((label,), value) for label, value in samples.items())
    for values, value in samples:
        if kind is HistogramMetricFamily:
            family.add_metric(values, value.buckets(), value.sum)
        else:
            family.add_metric(values, value)
    return family  # type: ignore[no-any-return]


_counter: Final = partial(_family, CounterMetricFamily)
_gauge: Final = partial(_family, GaugeMetricFamily)
_histogram: Final = partial(_family, HistogramMetricFamily)


def _calls(parts: ServerParts) -> Iterator[Metric]:
    methods = [((each.kind, each.service, each.method), each) for each in parts.calls]
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
    limit = parts.call_limit
    for name, text, value in (
        ("calls_in_progress", "Calls in progress.", limit.running),
        ("calls_limit", "How many calls may be in progress.", limit.limit),
        ("streams_in_progress", "Streams in progress.", limit.streams),
        ("streams_limit", "How many streams may be open.", limit.stream_limit),
    ):
        yield GaugeMetricFamily(f"queuegate_{name}", text, value)
    yield _counter(
        "queuegate_calls_refused", "Calls rejected at a limit.", ("reason",), limit.refused
    )
    yield _counter(
        "queuegate_decisions",
        "Decisions, including those of batches and streams.",
        ("outcome", "reason"),
        (((outcome, reason), count) for outcome, reason, count in parts.decisions.tallied()),
    )


def _caches(parts: ServerParts) -> Iterator[Metric]:
    groups = {
        name: served.groups
        for snapshot in _snapshots(parts)
        for name, served in snapshot.served.items()
    }
    stats = {name: resolver.stats for name, resolver in groups.items()}
    yield _counter(
        "queuegate_cache_requests",
        "Look-ups in the group cache; repeated requests do not reach it.",
        (*_PARTITION, "result"),
        (
            ((name, result), getattr(counts, attribute))
            for name, counts in stats.items()
            for result, attribute in _CACHE_RESULTS.items()
        ),
    )
    yield _gauge(
        "queuegate_cache_entries",
        "Entries, including expired ones.",
        _PARTITION,
        {name: counts.entries for name, counts in stats.items()},
    )
    yield _gauge(
        "queuegate_cache_refreshes_waiting",
        "Cached users whose refresh is due and queued.",
        _PARTITION,
        {name: resolver.refreshes_waiting for name, resolver in groups.items()},
    )
    for attribute, text in _CACHE_COUNTS.items():
        yield _counter(
            f"queuegate_cache_{attribute}",
            text,
            _PARTITION,
            {name: getattr(counts, attribute) for name, counts in stats.items()},
        )


def _resolvers(parts: ServerParts) -> Iterator[Metric]:
    lookups = parts.lookups.resolvers
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
    resolvers = [((each.name, where), each) for where, each in parts.resolvers.resolvers()]
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
    for attribute, text in (
        ("running", "Look-ups in progress."),
        ("waiting", "Look-ups in the queue."),
    ):
        yield _gauge(
            f"queuegate_resolver_lookups_{attribute}",
            text,
            _RESOLVER,
            ((labels, getattr(resolver.bulkhead, attribute)) for labels, resolver in resolvers),
        )


def _ldap(parts: ServerParts) -> Iterator[Metric]:
    directories = [
        ((each.name, where), statistics)
        for where, each in parts.resolvers.resolvers()
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
            for event in _LDAP_EVENTS
        ),
    )


def _policy(parts: ServerParts) -> Iterator[Metric]:
    build, reloader, snapshots = versions(), parts.reloader, _snapshots(parts)
    yield _gauge(
        "queuegate_build_info",
        "Always 1; the labels are the versions.",
        tuple(build),
        [(tuple(build.values()), 1)],
    )
    yield GaugeMetricFamily(
        "queuegate_ready", "1 if /readyz reports ready.", parts.readiness.is_ready
    )
    yield _counter(
        "queuegate_policy_reloads",
        "Loads of the policy, including the first one.",
        ("result",),
        {"success": reloader.succeeded, "failure": reloader.failed},
    )
    yield GaugeMetricFamily(
        "queuegate_policy_last_reload_successful",
        "1 if the policy that was read last is served.",
        reloader.state.succeeded,
    )
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


def _audit(parts: ServerParts) -> Iterator[Metric]:
    """Yield the metrics of the audit log; without an audit log they have no values."""
    logs = [] if parts.audit is None else [parts.audit]
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


def _certificates(parts: ServerParts) -> Iterator[Metric]:
    certificates = parts.listeners.certificates
    yield _gauge(
        "queuegate_certificate_expiry_timestamp_seconds",
        "When the certificate of a listener expires, in Unix seconds.",
        ("listener",),
        {each.listener: each.expires for each in certificates},
    )
    yield _counter(
        "queuegate_certificate_reloads",
        "Loads of a listener's certificate, key and authorities, including the first one.",
        ("listener", "result"),
        (
            ((each.listener, result), count)
            for each in certificates
            for result, count in (("success", each.reloads), ("failure", each.failures))
        ),
    )


def _snapshots(parts: ServerParts) -> list[Snapshot]:
    """Return the snapshot that is served, if there is one."""
    try:
        return [parts.engine.snapshot]
    except NotReady:
        return []
