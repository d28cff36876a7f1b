"""Prometheus metrics of the decision core: caches, resolvers, policy, fleet and audit log.

Collected from counters at each scrape, by the gRPC server and the admission webhook alike.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from queuegate_server.admin.readiness import Readiness, versions
from queuegate_server.decisions.core import DecisionCore
from queuegate_server.engine import Snapshot
from queuegate_server.fleet.view import ReplicaState
from queuegate_server.identity.following import FollowState
from queuegate_server.identity.guarded_resolver import CircuitState
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.identity.rest.request_statistics import RequestStatistics
from queuegate_server.observe.metric_families import SERVER

_CACHE_RESULTS: Final = {
    "hit": "hits",
    "negative_hit": "negative_hits",
    "failure_hit": "failure_hits",
    "stale_hit": "stale_hits",
    "miss": "misses",
}
"""The attribute of `CacheStats` for each value of the `result` label."""
_CACHE_COUNTS: Final = ("refreshes", "invalidated", "outdated")
"""Attributes of `CacheStats` exported as separate metrics."""
_CACHE_KINDS: Final = ("groups", "negative")
"""Attributes of `CacheStats` exported as values of the `kind` label."""
_LDAP_EVENTS: Final = (
    "retried", "ambiguous", "other_spelling", "outside_base", "skipped_names", "depth_reached",
)  # fmt: skip
"""Attributes of `LdapStatistics` exported as events."""

Samples = list[tuple[Any, ...]]
"""Arguments for `add_metric`: the label values, then the metric's value or its buckets and sum."""


def core_samples(core: DecisionCore, readiness: Readiness) -> dict[str, Samples]:
    """Return the samples of each metric."""
    samples: dict[str, Samples] = {
        "queuegate_decisions": [
            ((outcome, reason), count) for outcome, reason, count in core.decisions.tallied()
        ]
    }
    for read in (
        *(_caches, _resolvers, _changes, _ldap, _rest),
        *(_cluster, _sharing, _fleet, _audit),
    ):
        samples |= read(core)
    return samples | _policy(core, readiness)


def families(samples: Mapping[str, Samples]) -> Iterator[Metric]:
    """Yield the metrics that have samples, in the order of metrics.toml."""
    for name, family in SERVER.items():
        if name in samples:
            metric = family.empty()
            for sample in samples[name]:
                metric.add_metric(*sample)
            yield metric


class CoreCollector(Collector):
    """Collects the metrics of the decision core."""

    def __init__(self, core: DecisionCore, readiness: Readiness) -> None:
        self._core = core
        self._readiness = readiness

    def collect(self) -> Iterator[Metric]:
        """Yield the current values."""
        yield from families(core_samples(self._core, self._readiness))


def _caches(core: DecisionCore) -> dict[str, Samples]:
    groups = {
        name: served.groups
        for snapshot in _snapshots(core)
        for name, served in snapshot.served.items()
    }
    stats = {name: resolver.stats for name, resolver in groups.items()}
    samples: dict[str, Samples] = {
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


def _resolvers(core: DecisionCore) -> dict[str, Samples]:
    lookups = core.lookups
    resolvers = [((each.name, where), each) for where, each in core.resolvers.resolvers()]
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


def _changes(core: DecisionCore) -> dict[str, Samples]:
    followers = [
        ((each.name, where), each.follower)
        for where, each in core.resolvers.resolvers()
        if each.follower is not None
    ]
    return {
        "queuegate_resolver_changes_state": [
            ((*labels, state), state is follower.state)
            for labels, follower in followers
            for state in FollowState
        ],
        "queuegate_resolver_changes_lag_seconds": [
            (labels, follower.lag) for labels, follower in followers
        ],
        "queuegate_resolver_changes": [
            ((*labels, kind), count)
            for labels, follower in followers
            for kind, count in follower.reported.items()
        ],
        "queuegate_resolver_changes_failures": [
            (labels, follower.failures) for labels, follower in followers
        ],
    }


def _ldap(core: DecisionCore) -> dict[str, Samples]:
    directories = [
        ((each.name, where), statistics)
        for where, each in core.resolvers.resolvers()
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


def _rest(core: DecisionCore) -> dict[str, Samples]:
    requests = [
        ((each.name, where, name), count)
        for where, each in core.resolvers.resolvers()
        if isinstance(statistics := getattr(each.resolver, "statistics", None), RequestStatistics)
        for name, count in statistics.requests.items()
    ]
    return {
        "queuegate_provider_requests": [
            ((*labels, result), getattr(count, result))
            for labels, count in requests
            for result in ("success", "failure", "throttled")
        ],
        "queuegate_provider_request_seconds": [
            (labels, count.seconds) for labels, count in requests
        ],
    }


def _policy(core: DecisionCore, readiness: Readiness) -> dict[str, Samples]:
    reloader, snapshots = core.reloader, _snapshots(core)
    return {
        "queuegate_build_info": [(versions().values(), 1)],
        "queuegate_ready": [((), readiness.is_ready)],
        "queuegate_settings_last_reload_successful": [((), not readiness.settings_errors)],
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


def _cluster(core: DecisionCore) -> dict[str, Samples]:
    cluster = core.reloader.cluster
    clusters = () if cluster is None else (cluster,)
    return {
        "queuegate_cluster_age_seconds": [((), each.age.seconds) for each in clusters],
        "queuegate_cluster_faults": [((), len([*each.faults])) for each in clusters],
        "queuegate_cluster_left_out": [((), each.left_out) for each in clusters],
    }


def _sharing(core: DecisionCore) -> dict[str, Samples]:
    names = [name for name in SERVER if name.startswith("queuegate_fleet_group")]
    sharing = core.sharing
    if sharing is None:
        return {name: [] for name in names}
    store, counts = sharing.store, sharing.counts
    return {
        "queuegate_fleet_groups_available": [((), int(sharing.shares_groups))],
        "queuegate_fleet_group_reads": by_label(counts.reads),
        "queuegate_fleet_groups_refused": by_label(counts.refused),
        "queuegate_fleet_group_writes": by_label(store.writes),
        "queuegate_fleet_group_read_failures": [((), store.failed_reads)],
    }


def _fleet(core: DecisionCore) -> dict[str, Samples]:
    views = [] if core.fleet is None else [(core.fleet, core.fleet.view())]
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


def _audit(core: DecisionCore) -> dict[str, Samples]:
    logs = [] if core.audit is None else [core.audit]
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


def _snapshots(core: DecisionCore) -> list[Snapshot]:
    """Return the current snapshot, if any."""
    latest = core.engine.latest
    return [] if latest is None else [latest]


def by_label(counts: Mapping[str, int]) -> Samples:
    """Return a sample for each value of a metric's only label."""
    return [((label,), count) for label, count in counts.items()]
