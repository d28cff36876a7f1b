"""This process's Prometheus metrics, collected from counters at each scrape."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, get_args

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from queuegate_server.admin.readiness import versions
from queuegate_server.engine import Snapshot
from queuegate_server.fleet.view import ReplicaState
from queuegate_server.identity.guarded_resolver import CircuitState
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics
from queuegate_server.server.metric_families import METRICS
from queuegate_server.server.wiring import ServerParts

_CACHE_RESULTS: Final = {
    "hit": "hits",
    "negative_hit": "negative_hits",
    "failure_hit": "failure_hits",
    "stale_hit": "stale_hits",
    "miss": "misses",
}
"""The attribute of `CacheStats` for each value of the label `result`."""
_CACHE_COUNTS: Final = ("refreshes", "invalidated", "outdated")
"""Attributes of `CacheStats` exported as separate metrics."""
_CACHE_KINDS: Final = ("groups", "negative")
"""Attributes of `CacheStats` exported as values of the label `kind`."""
_LDAP_EVENTS: Final = (
    "retried", "ambiguous", "other_spelling", "outside_base", "skipped_names", "depth_reached",
)  # fmt: skip
"""Attributes of `LdapStatistics` exported as events."""

_Samples = list[tuple[Any, ...]]
"""Arguments for `add_metric`: the label values, then the metric's value or its buckets and sum."""


def metrics_writer(parts: ServerParts) -> Callable[[], bytes]:
    """Return a function that renders the metrics of the server and its process."""
    registry = CollectorRegistry()
    registry.register(_Collector(parts))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return lambda: generate_latest(registry)


class _Collector(Collector):
    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        samples: dict[str, _Samples] = {}
        for read in (
            _calls,
            _caches,
            _resolvers,
            _ldap,
            _policy,
            _sync,
            _sharing,
            _fleet,
            _audit,
            _certificates,
        ):
            samples |= read(self._parts)
        for name, (kind, text, labels) in METRICS.items():
            family: Any = kind(name, text, labels=labels)  # type: ignore[call-arg]
            for sample in samples[name]:
                family.add_metric(*sample)
            yield family


def _calls(parts: ServerParts) -> dict[str, _Samples]:
    methods = [((each.kind, each.service, each.method), each) for each in parts.calls]
    limit = parts.call_limit
    return {
        "grpc_server_started": [(labels, method.started) for labels, method in methods],
        "grpc_server_handled": [
            ((*labels, code), count)
            for labels, method in methods
            for code, count in method.codes.items()
        ],
        "grpc_server_handling_seconds": [
            (labels, method.durations.buckets(), method.durations.sum) for labels, method in methods
        ],
        "queuegate_calls_in_progress": [((), limit.running)],
        "queuegate_calls_limit": [((), limit.limit)],
        "queuegate_calls_refused": _by_label(limit.refused),
        "queuegate_decisions": [
            ((outcome, reason), count) for outcome, reason, count in parts.core.decisions.tallied()
        ],
    }


def _caches(parts: ServerParts) -> dict[str, _Samples]:
    groups = {
        name: served.groups
        for snapshot in _snapshots(parts)
        for name, served in snapshot.served.items()
    }
    stats = {name: resolver.stats for name, resolver in groups.items()}
    samples: dict[str, _Samples] = {
        f"queuegate_cache_{attribute}": [
            ((name,), getattr(counts, attribute)) for name, counts in stats.items()
        ]
        for attribute in _CACHE_COUNTS
    }
    samples |= {
        f"queuegate_cache_{attribute}": [
            ((name, kind), getattr(getattr(counts, kind), attribute))
            for name, counts in stats.items()
            for kind in _CACHE_KINDS
        ]
        for attribute in ("entries", "evictions")
    }
    samples["queuegate_cache_requests"] = [
        ((name, result), getattr(counts, attribute))
        for name, counts in stats.items()
        for result, attribute in _CACHE_RESULTS.items()
    ]
    samples["queuegate_cache_refreshes_waiting"] = [
        ((name,), resolver.refreshes_waiting) for name, resolver in groups.items()
    ]
    return samples


def _resolvers(parts: ServerParts) -> dict[str, _Samples]:
    lookups = parts.core.lookups
    resolvers = [((each.name, where), each) for where, each in parts.core.resolvers.resolvers()]
    return {
        "queuegate_resolver_lookups": [
            ((*labels, outcome), count)
            for labels, counters in lookups.items()
            for outcome, count in counters.outcomes.items()
        ],
        "queuegate_resolver_lookup_seconds": [
            (labels, counters.durations.buckets(), counters.durations.sum)
            for labels, counters in lookups.items()
        ],
        "queuegate_resolver_breaker_state": [
            ((*labels, state), state is resolver.breaker.state)
            for labels, resolver in resolvers
            for state in CircuitState
        ],
        "queuegate_resolver_lookups_running": [
            (labels, resolver.bulkhead.running) for labels, resolver in resolvers
        ],
        "queuegate_resolver_lookups_waiting": [
            (labels, resolver.bulkhead.waiting) for labels, resolver in resolvers
        ],
    }


def _ldap(parts: ServerParts) -> dict[str, _Samples]:
    directories = [
        ((each.name, where), statistics)
        for where, each in parts.core.resolvers.resolvers()
        if isinstance(statistics := getattr(each.resolver, "statistics", None), LdapStatistics)
    ]
    steps = [
        ((*labels, *server_and_step), count)
        for labels, statistics in directories
        for server_and_step, count in statistics.steps.items()
    ]
    return {
        "queuegate_ldap_steps": [
            ((*labels, result), number)
            for labels, count in steps
            for result, number in (("success", count.succeeded), ("failure", count.failed))
        ],
        "queuegate_ldap_step_seconds": [(labels, count.seconds) for labels, count in steps],
        "queuegate_ldap_events": [
            ((*labels, event), getattr(statistics, event))
            for labels, statistics in directories
            for event in _LDAP_EVENTS
        ],
    }


def _policy(parts: ServerParts) -> dict[str, _Samples]:
    reloader, snapshots = parts.core.reloader, _snapshots(parts)
    return {
        "queuegate_build_info": [(versions().values(), 1)],
        "queuegate_ready": [((), parts.readiness.is_ready)],
        "queuegate_settings_last_reload_successful": [((), not parts.readiness.settings_errors)],
        "queuegate_policy_reloads": [
            (("success",), reloader.succeeded),
            (("failure",), reloader.failed),
        ],
        "queuegate_policy_last_reload_successful": [((), reloader.state.succeeded)],
        "queuegate_policy_revision": [((), each.policy.revision) for each in snapshots],
        "queuegate_policy_loaded_timestamp_seconds": [((), each.loaded_at) for each in snapshots],
        "queuegate_policy_queues": [
            ((name,), len(partition.queues))
            for snapshot in snapshots
            for name, partition in snapshot.policy.partitions.items()
        ],
    }


def _sync(parts: ServerParts) -> dict[str, _Samples]:
    hub = parts.core.sync
    return {
        "queuegate_sync_streams": [((), len(hub.leases))],
        "queuegate_sync_streams_limit": [((), parts.sync_streams_limit)],
        "queuegate_sync_lag_seconds": [((), hub.lag)],
        "queuegate_sync_messages": _by_label(hub.sent),
        "queuegate_sync_barriers": _by_label(hub.waited),
        "queuegate_sync_decisions": _by_label(hub.reported),
    }


def _sharing(parts: ServerParts) -> dict[str, _Samples]:
    names = [name for name in METRICS if name.startswith("queuegate_fleet_group")]
    sharing = parts.core.sharing
    if sharing is None:
        return {name: [] for name in names}
    store, counts = sharing.store, sharing.counts
    return {
        "queuegate_fleet_groups_available": [((), int(sharing.shares_groups))],
        "queuegate_fleet_group_reads": _by_label(counts.reads),
        "queuegate_fleet_groups_refused": _by_label(counts.refused),
        "queuegate_fleet_group_writes": _by_label(store.writes),
        "queuegate_fleet_group_read_failures": [((), store.failed_reads)],
    }


def _by_label(counts: Mapping[str, int]) -> _Samples:
    return [((label,), count) for label, count in counts.items()]


def _fleet(parts: ServerParts) -> dict[str, _Samples]:
    views = [] if parts.core.fleet is None else [(parts.core.fleet, parts.core.fleet.view())]
    return {
        "queuegate_fleet_following": [
            ((), member.session.log.position is not None) for member, _ in views
        ],
        "queuegate_fleet_replicas": [
            ((state,), sum(each.state == state for _, view in views for each in view.replicas))
            for state in get_args(ReplicaState)
        ],
        "queuegate_fleet_policies": [((), len(view.checksums)) for _, view in views],
        "queuegate_fleet_lag": [
            ((), max((each.lag for each in view.replicas), default=0)) for _, view in views
        ],
        "queuegate_fleet_events": [((), member.session.applied) for member, _ in views],
        "queuegate_fleet_gaps": [((), member.session.gaps) for member, _ in views],
        "queuegate_fleet_statuses_rejected": [
            ((), member.stream.statuses.rejected) for member, _ in views
        ],
    }


def _audit(parts: ServerParts) -> dict[str, _Samples]:
    logs = [] if parts.core.audit is None else [parts.core.audit]
    return {
        "queuegate_audit_records": [
            ((result,), getattr(log.counts, result))
            for log in logs
            for result in ("written", "dropped", "refused")
        ],
        "queuegate_audit_write_failures": [((), log.counts.failed_writes) for log in logs],
        "queuegate_audit_rotation_failures": [((), log.target.failed_rotations) for log in logs],
        "queuegate_audit_writable": [((), log.is_writable) for log in logs],
        "queuegate_audit_waiting_bytes": [((), log.counts.waiting_bytes) for log in logs],
    }


def _certificates(parts: ServerParts) -> dict[str, _Samples]:
    certificates = parts.listeners.certificates
    return {
        "queuegate_console_sign_ins": _by_label(parts.sign_ins),
        "queuegate_certificate_expiry_timestamp_seconds": [
            ((each.listener,), each.expires) for each in certificates
        ],
        "queuegate_certificate_reloads": [
            ((each.listener, result), count)
            for each in certificates
            for result, count in (("success", each.reloads), ("failure", each.failures))
        ],
    }


def _snapshots(parts: ServerParts) -> list[Snapshot]:
    """Return the current snapshot, if any."""
    latest = parts.core.engine.latest
    return [] if latest is None else [latest]
