"""Prometheus metrics of this process.

They are read, at each scrape, from counters that the server keeps anyway, so that a call only
increments a number. No label carries the name of a user, group or queue. docs/reference/metrics.md
has the same texts.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import HistogramMetricFamily as Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from queuegate_server.admin.readiness import versions
from queuegate_server.engine import NotReady, Snapshot
from queuegate_server.identity.guards import CircuitState
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics
from queuegate_server.server.wiring import ServerParts

_CALL: Final = ("grpc_type", "grpc_service", "grpc_method")
_PARTITION: Final = ("partition",)
_KIND: Final = (*_PARTITION, "kind")
_RESOLVER: Final = ("resolver", "defined_in")
_STEP: Final = (*_RESOLVER, "server", "step")

METRICS: Final[Mapping[str, tuple[type[Metric], str, tuple[str, ...]]]] = {
    "grpc_server_started": (Counter, "Calls started.", _CALL),
    "grpc_server_handled": (
        Counter,
        ("Calls completed, by status. CANCELLED and DEADLINE_EXCEEDED: the caller gave up."),
        (*_CALL, "grpc_code"),
    ),
    "grpc_server_handling_seconds": (Histogram, "Duration of calls.", _CALL),
    "queuegate_calls_in_progress": (Gauge, "Calls in progress, including streams.", ()),
    "queuegate_calls_limit": (
        Gauge,
        ("How many calls may be in progress (limits.max_concurrent_calls)."),
        (),
    ),
    "queuegate_streams_in_progress": (Gauge, "Streams in progress.", ()),
    "queuegate_streams_limit": (Gauge, "How many streams may be open: half of the calls.", ()),
    "queuegate_calls_refused": (
        Counter,
        (
            "Calls rejected at a limit: calls (too many in progress), streams (too many open), "
            "waited (queued for too long in an overload, limits.max_wait), incomplete (the "
            "request did not arrive within limits.connections.transfer_timeout, or 1 000 others "
            "waited for theirs), unread (long calls while 64 MiB of answers were unread), bytes "
            "(long calls while 64 MiB of requests were in progress)."
        ),
        ("reason",),
    ),
    "queuegate_decisions": (
        Counter,
        ("Decisions, including each of a batch: allowed, denied, error."),
        ("outcome", "reason"),
    ),
    "queuegate_cache_requests": (
        Counter,
        (
            "Lookups in the group cache: hit, negative_hit (no such user), failure_hit (a recent "
            "failure), stale_hit (expired groups: the resolver fails, or the refresh is queued), "
            "miss. Repeated requests, which the response cache answers, do not reach it."
        ),
        (*_PARTITION, "result"),
    ),
    "queuegate_cache_entries": (
        Gauge,
        (
            "Entries, including expired ones: groups (of users), negative (names of no user or "
            "that could not be looked up)."
        ),
        _KIND,
    ),
    "queuegate_cache_refreshes_waiting": (
        Gauge,
        "Cached users whose refresh is due and queued.",
        _PARTITION,
    ),
    "queuegate_cache_refreshes": (
        Counter,
        ("Refreshes of users whose groups were cached, most of them ahead of expiry."),
        _PARTITION,
    ),
    "queuegate_cache_evictions": (
        Counter,
        ("Entries evicted to make room for others of their kind (max_entries of each)."),
        _KIND,
    ),
    "queuegate_cache_invalidated": (Counter, "Entries dropped on request.", _PARTITION),
    "queuegate_cache_outdated": (
        Counter,
        "Lookups whose result was outdated when they finished.",
        _PARTITION,
    ),
    "queuegate_resolver_lookups": (
        Counter,
        (
            "Lookups, including those that were rejected or timed out: found, no_such_user, "
            "could_not_ask."
        ),
        (*_RESOLVER, "outcome"),
    ),
    "queuegate_resolver_lookup_seconds": (
        Histogram,
        "Duration of lookups, including their time in the queue.",
        _RESOLVER,
    ),
    "queuegate_resolver_breaker_state": (
        Gauge,
        ("1 for the current state of the circuit breaker: closed, open, half-open."),
        (*_RESOLVER, "state"),
    ),
    "queuegate_resolver_lookups_running": (
        Gauge,
        "Lookups in progress (max_concurrent).",
        _RESOLVER,
    ),
    "queuegate_resolver_lookups_waiting": (
        Gauge,
        "Lookups in the queue (max_waiting).",
        _RESOLVER,
    ),
    "queuegate_ldap_steps": (
        Counter,
        (
            "Operations on a directory server (connect, bind, user search and so on): success, "
            "failure."
        ),
        (*_STEP, "result"),
    ),
    "queuegate_ldap_step_seconds": (Counter, "Total duration of these operations.", _STEP),
    "queuegate_ldap_events": (
        Counter,
        (
            "Unusual events in lookups: retried, ambiguous (several users match), depth_reached "
            "(a walk ended at nested_depth), other_spelling (only names in another spelling), "
            "outside_base (ignored entries outside of user_base and group_base), skipped_names "
            "(groups without a readable name)."
        ),
        (*_RESOLVER, "event"),
    ),
    "queuegate_build_info": (Gauge, "Always 1; the labels are the versions.", tuple(versions())),
    "queuegate_ready": (Gauge, "1 if /readyz reports ready.", ()),
    "queuegate_policy_reloads": (
        Counter,
        ("Loads of the policy, including the first one: success, failure."),
        ("result",),
    ),
    "queuegate_policy_last_reload_successful": (
        Gauge,
        ("1 if the policy that was read last is served; 0 if an older one is."),
        (),
    ),
    "queuegate_policy_revision": (Gauge, "Increases by 1 with each new policy.", ()),
    "queuegate_policy_loaded_timestamp_seconds": (
        Gauge,
        ("When the policy was loaded, in Unix seconds; its age is time() minus this."),
        (),
    ),
    "queuegate_policy_queues": (Gauge, "Queues of the policy.", _PARTITION),
    "queuegate_sync_streams": (Gauge, "Open streams of SyncService: gates.", ()),
    "queuegate_sync_streams_limit": (Gauge, "How many of them may be open.", ()),
    "queuegate_sync_lag_seconds": (
        Gauge,
        "For how long a gate has not confirmed a change, at most; 0 if all have.",
        (),
    ),
    "queuegate_sync_messages": (
        Counter,
        "Messages to gates; policy: a part of one, reset: what the gate held is not used.",
        ("kind",),
    ),
    "queuegate_sync_barriers": (
        Counter,
        "Calls that waited for gates, by result: confirmed, or waited_out if leases had to end.",
        ("result",),
    ),
    "queuegate_sync_decisions": (
        Counter,
        (
            "Decisions that gates reported: recorded in the audit log, or refused because they "
            "are not valid (the log says why)."
        ),
        ("result",),
    ),
    "queuegate_fleet_groups_available": (
        Gauge,
        (
            "Whether groups are shared: 1, or 0 while Redis fails or this replica does not follow "
            "the fleet. No sample without a fleet."
        ),
        (),
    ),
    "queuegate_fleet_group_reads": (
        Counter,
        (
            "Users whose groups were not cached here: hit (another replica knew them), miss, "
            "refused (the value must not be used), unavailable (Redis fails or takes too long, "
            "or this replica does not follow the fleet). All but hits ask the resolver."
        ),
        ("result",),
    ),
    "queuegate_fleet_groups_refused": (
        Counter,
        (
            "Values in Redis that were not used: mac (not written with this fleet's key), "
            "format (by another version), settings (with other settings of the resolver), expired, "
            "outdated (by an invalidation, or from before the events that this replica knows)."
        ),
        ("cause",),
    ),
    "queuegate_fleet_group_writes": (
        Counter,
        (
            "Answers of resolvers: written to Redis, outdated by then, dropped (too many waited, "
            "or Redis fails), failed."
        ),
        ("result",),
    ),
    "queuegate_fleet_group_read_failures": (
        Counter,
        "Reads from Redis, of many users each, that failed or took longer than fleet.read_timeout.",
        (),
    ),
    "queuegate_fleet_following": (
        Gauge,
        "1 if this replica follows the fleet; 0 if it works alone. Absent without a fleet.",
        (),
    ),
    "queuegate_fleet_replicas": (
        Gauge,
        "Replicas, as this one sees them: following, joining, silent.",
        ("state",),
    ),
    "queuegate_fleet_policies": (
        Gauge,
        "How many different policies the replicas serve that report themselves.",
        (),
    ),
    "queuegate_fleet_lag": (
        Gauge,
        "Changes that the replica furthest behind has yet to carry out.",
        (),
    ),
    "queuegate_fleet_events": (Counter, "Changes of other replicas that were carried out.", ()),
    "queuegate_fleet_gaps": (
        Counter,
        "How often this replica stopped to follow the fleet: cached groups were asked for again.",
        (),
    ),
    "queuegate_fleet_rows_rejected": (
        Counter,
        "Reports in Redis that no replica of this fleet has written.",
        (),
    ),
    "queuegate_audit_records": (
        Counter,
        (
            "Audit records: written, dropped, refused (their calls failed). Without an audit log, "
            "audit metrics have no values."
        ),
        ("result",),
    ),
    "queuegate_audit_write_failures": (Counter, "Writes of the audit log that failed.", ()),
    "queuegate_audit_rotation_failures": (Counter, "Rotations of the audit log that failed.", ()),
    "queuegate_audit_writable": (
        Gauge,
        ("1 if the last write of the audit log succeeded and no write hangs."),
        (),
    ),
    "queuegate_audit_waiting_bytes": (
        Gauge,
        ("Audit records that wait to be written, in bytes (audit.buffer)."),
        (),
    ),
    "queuegate_certificate_expiry_timestamp_seconds": (
        Gauge,
        ("When the first certificate of a listener's chain expires, in Unix seconds."),
        ("listener",),
    ),
    "queuegate_certificate_reloads": (
        Counter,
        (
            "Loads of a listener's certificate, key and authorities, including the first one: "
            "success, failure (the old ones stay in use)."
        ),
        ("listener", "result"),
    ),
    "queuegate_console_sign_ins": (
        Counter,
        (
            "Tokens presented to the console: success (a session began), failure, refused (too "
            "many failures of the peer). Without the console it has no values."
        ),
        ("result",),
    ),
}
"""By name, in the order of the output: the type, the text and the labels of each metric."""

_CACHE_RESULTS: Final = {
    "hit": "hits",
    "negative_hit": "negative_hits",
    "failure_hit": "failure_hits",
    "stale_hit": "stale_hits",
    "miss": "misses",
}
"""By the label `result`: the attribute of `CacheStats` that counts it."""
_CACHE_COUNTS: Final = ("refreshes", "invalidated", "outdated")
"""Attributes of `CacheStats` that are metrics of their own."""
_CACHE_KINDS: Final = ("groups", "negative")
"""Attributes of `CacheStats` that are kinds of entries."""
_LDAP_EVENTS: Final = (
    "retried", "ambiguous", "other_spelling", "outside_base", "skipped_names", "depth_reached",
)  # fmt: skip
"""Attributes of `LdapStatistics` that are exported as events."""

_Samples = list[tuple[Any, ...]]
"""The values of the labels, then the value of the metric, or its buckets and sum."""


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
        "queuegate_streams_in_progress": [((), limit.streams)],
        "queuegate_streams_limit": [((), limit.stream_limit)],
        "queuegate_calls_refused": [((reason,), count) for reason, count in limit.refused.items()],
        "queuegate_decisions": [
            ((outcome, reason), count) for outcome, reason, count in parts.decisions.tallied()
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
    lookups = parts.lookups.resolvers
    resolvers = [((each.name, where), each) for where, each in parts.resolvers.resolvers()]
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
        for where, each in parts.resolvers.resolvers()
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
    reloader, snapshots = parts.reloader, _snapshots(parts)
    return {
        "queuegate_build_info": [(versions().values(), 1)],
        "queuegate_ready": [((), parts.readiness.is_ready)],
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
    hub = parts.sync
    return {
        "queuegate_sync_streams": [((), len(hub.leases))],
        "queuegate_sync_streams_limit": [((), parts.sync_streams_limit)],
        "queuegate_sync_lag_seconds": [((), hub.lag)],
        "queuegate_sync_messages": [((kind,), count) for kind, count in hub.sent.items()],
        "queuegate_sync_barriers": [((result,), count) for result, count in hub.waited.items()],
        "queuegate_sync_decisions": [((result,), count) for result, count in hub.reported.items()],
    }


def _sharing(parts: ServerParts) -> dict[str, _Samples]:
    names = [name for name in METRICS if name.startswith("queuegate_fleet_group")]
    sharing = parts.sharing
    if sharing is None:
        return {name: [] for name in names}
    store, counts = sharing.store, sharing.counts
    return {
        "queuegate_fleet_groups_available": [((), int(sharing.is_active))],
        "queuegate_fleet_group_reads": _by_label(counts.reads),
        "queuegate_fleet_groups_refused": _by_label(counts.refused),
        "queuegate_fleet_group_writes": _by_label(store.writes),
        "queuegate_fleet_group_read_failures": [((), store.failed_reads)],
    }


def _by_label(counts: Mapping[str, int]) -> _Samples:
    return [((label,), count) for label, count in counts.items()]


def _fleet(parts: ServerParts) -> dict[str, _Samples]:
    """Return the samples of the fleet; there are none without a fleet."""
    views = [] if parts.fleet is None else [(parts.fleet, parts.fleet.view())]
    states = ("following", "joining", "silent")
    return {
        "queuegate_fleet_following": [
            ((), member.state.position is not None) for member, _ in views
        ],
        "queuegate_fleet_replicas": [
            ((state,), sum(each.state == state for _, view in views for each in view.replicas))
            for state in states
        ],
        "queuegate_fleet_policies": [((), len(view.checksums)) for _, view in views],
        "queuegate_fleet_lag": [
            ((), max((each.lag for each in view.replicas), default=0)) for _, view in views
        ],
        "queuegate_fleet_events": [((), member.applied) for member, _ in views],
        "queuegate_fleet_gaps": [((), member.gaps) for member, _ in views],
        "queuegate_fleet_rows_rejected": [((), member.stream.rejected) for member, _ in views],
    }


def _audit(parts: ServerParts) -> dict[str, _Samples]:
    """Return the samples of the audit log; there are none without an audit log."""
    logs = [] if parts.audit is None else [parts.audit]
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
        "queuegate_console_sign_ins": [
            ((result,), count) for result, count in parts.sign_ins.items()
        ],
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
    """Return the snapshot that is served, if there is one."""
    try:
        return [parts.engine.snapshot]
    except NotReady:
        return []
