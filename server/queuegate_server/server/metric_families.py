"""Names, help texts and labels of the metrics.

The page docs/reference/metrics.md is generated from them. No label contains the name of a user,
group or queue.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import HistogramMetricFamily as Histogram
from prometheus_client.core import Metric

from queuegate_server.admin.readiness import versions

_CALL: Final = ("grpc_type", "grpc_service", "grpc_method")
_PARTITION: Final = ("partition",)
_KIND: Final = (*_PARTITION, "kind")
_RESOLVER: Final = ("resolver", "defined_in")
_STEP: Final = (*_RESOLVER, "server", "step")


class Family(NamedTuple):
    """The definition of a metric."""

    kind: type[Metric]
    text: str
    labels: tuple[str, ...] = ()


METRICS: Final[Mapping[str, Family]] = {
    "grpc_server_started": Family(Counter, "Calls started.", _CALL),
    "grpc_server_handled": Family(
        Counter,
        "Calls completed, by status. CANCELLED and DEADLINE_EXCEEDED: the caller gave up.",
        (*_CALL, "grpc_code"),
    ),
    "grpc_server_handling_seconds": Family(Histogram, "Duration of calls.", _CALL),
    "queuegate_calls_in_progress": Family(
        Gauge, "Calls in progress, not including gates' streams."
    ),
    "queuegate_calls_limit": Family(
        Gauge, "Maximum number of calls in progress (limits.max_concurrent_calls)."
    ),
    "queuegate_calls_refused": Family(
        Counter,
        "Calls rejected at a limit: calls (too many in progress), waited (queued for too "
        "long under overload), incomplete (the request did not arrive within 10 s, or 1 000 other "
        "requests were incomplete), unread (long calls while 64 MiB of responses were unread), "
        "bytes (long calls while 64 MiB of requests were in progress).",
        ("reason",),
    ),
    "queuegate_decisions": Family(
        Counter,
        "Decisions, including each of a batch: allowed, denied, error.",
        ("outcome", "reason"),
    ),
    "queuegate_cache_requests": Family(
        Counter,
        "Lookups in the group cache: hit, negative_hit (no such user), failure_hit (a recent "
        "failure), stale_hit (expired groups: the resolver fails, or the refresh is queued), "
        "miss. Requests answered from the response cache are not counted.",
        (*_PARTITION, "result"),
    ),
    "queuegate_cache_entries": Family(
        Gauge,
        "Entries, including expired ones: groups (of users), negative (unknown users and "
        "failed lookups).",
        _KIND,
    ),
    "queuegate_cache_refreshes_waiting": Family(
        Gauge, "Cached users whose refresh is due and queued.", _PARTITION
    ),
    "queuegate_cache_refreshes": Family(
        Counter,
        "Refreshes of users whose groups were cached, most of them ahead of expiry.",
        _PARTITION,
    ),
    "queuegate_cache_evictions": Family(
        Counter,
        "Entries evicted to make room for others of the same kind (max_entries for each).",
        _KIND,
    ),
    "queuegate_cache_invalidated": Family(Counter, "Entries invalidated on request.", _PARTITION),
    "queuegate_cache_outdated": Family(
        Counter, "Lookups whose result was already outdated when they finished.", _PARTITION
    ),
    "queuegate_resolver_lookups": Family(
        Counter,
        "Lookups, including rejected and timed-out ones: found, no_such_user, could_not_ask.",
        (*_RESOLVER, "outcome"),
    ),
    "queuegate_resolver_lookup_seconds": Family(
        Histogram, "Duration of lookups, including their time in the queue.", _RESOLVER
    ),
    "queuegate_resolver_breaker_state": Family(
        Gauge,
        "1 for the current state of the circuit breaker: closed, open, half-open.",
        (*_RESOLVER, "state"),
    ),
    "queuegate_resolver_lookups_running": Family(
        Gauge, "Lookups in progress (max_concurrent).", _RESOLVER
    ),
    "queuegate_resolver_lookups_waiting": Family(
        Gauge, "Lookups in the queue; at most 10 000.", _RESOLVER
    ),
    "queuegate_resolver_changes_state": Family(
        Gauge,
        "1 for the current state of a resolver that follows the changes of its source: starting, "
        "following, failed (cached groups expire as usual), standby (another replica follows). "
        "Absent for other resolvers.",
        (*_RESOLVER, "state"),
    ),
    "queuegate_resolver_changes_lag_seconds": Family(
        Gauge,
        "Seconds since all changes of the source were last known to be in effect; up to 10 while "
        "the source is followed, or 5 s to 10 s if it is asked for changes; 0 on standby.",
        _RESOLVER,
    ),
    "queuegate_resolver_changes": Family(
        Counter,
        "Changes of the source: users (whose groups may have changed), all (times that all users "
        "were invalidated).",
        (*_RESOLVER, "kind"),
    ),
    "queuegate_resolver_changes_failures": Family(
        Counter, "Times the source could not be followed, or no longer.", _RESOLVER
    ),
    "queuegate_ldap_steps": Family(
        Counter,
        "Operations on a directory server (connect, bind, user search and so on): success, "
        "failure.",
        (*_STEP, "result"),
    ),
    "queuegate_ldap_step_seconds": Family(Counter, "Total duration of these operations.", _STEP),
    "queuegate_ldap_events": Family(
        Counter,
        "Unusual events in lookups: retried, ambiguous (several users match), depth_reached "
        "(a walk stopped at nested_depth), other_spelling (the directory spells the name "
        "differently), outside_base (ignored entries outside user_base and group_base), "
        "skipped_names (groups without a readable name).",
        (*_RESOLVER, "event"),
    ),
    "queuegate_provider_requests": Family(
        Counter,
        "Requests to an identity provider (token, user, groups and so on): success, failure, "
        "throttled (refused because of the provider's rate limits).",
        (*_RESOLVER, "request", "result"),
    ),
    "queuegate_provider_request_seconds": Family(
        Counter, "Total duration of these requests.", (*_RESOLVER, "request")
    ),
    "queuegate_build_info": Family(
        Gauge, "Always 1; the labels are the versions.", tuple(versions())
    ),
    "queuegate_ready": Family(Gauge, "1 if /readyz reports ready."),
    "queuegate_settings_last_reload_successful": Family(
        Gauge, "1 if the last reload of the settings succeeded; 0 if older ones are in use."
    ),
    "queuegate_policy_reloads": Family(
        Counter, "Loads of the policy, including the initial one: success, failure.", ("result",)
    ),
    "queuegate_policy_last_reload_successful": Family(
        Gauge, "1 if the last load succeeded; 0 if an older policy is in use."
    ),
    "queuegate_policy_revision": Family(Gauge, "Increases by 1 with each new policy."),
    "queuegate_policy_loaded_timestamp_seconds": Family(
        Gauge, "When the policy was loaded, in Unix seconds; its age is time() minus this."
    ),
    "queuegate_policy_queues": Family(Gauge, "Queues in the policy.", _PARTITION),
    "queuegate_sync_streams": Family(Gauge, "Open SyncService streams (one per gate)."),
    "queuegate_sync_streams_limit": Family(Gauge, "Maximum number of open SyncService streams."),
    "queuegate_sync_lag_seconds": Family(
        Gauge, "Age of the oldest change not yet confirmed by a gate; 0 if there is none."
    ),
    "queuegate_sync_messages": Family(
        Counter,
        "Messages to gates by kind. policy: part of a policy; reset: drop the lease and state.",
        ("kind",),
    ),
    "queuegate_sync_barriers": Family(
        Counter,
        "Calls that waited for gates, by result: confirmed, waited_out if leases had to expire, or "
        "stale if gates may still use their last state.",
        ("result",),
    ),
    "queuegate_fleet_groups_available": Family(
        Gauge,
        "1 while groups are shared; 0 while Redis fails or this replica does not follow "
        "the fleet. Absent without a fleet.",
    ),
    "queuegate_fleet_group_reads": Family(
        Counter,
        "Reads of groups that were not cached here: hit (shared by another replica), miss, "
        "unavailable (Redis fails or takes too long, or this replica does not follow the fleet). "
        "Without a hit, the resolver is queried.",
        ("result",),
    ),
    "queuegate_fleet_groups_refused": Family(
        Counter,
        "Rejected values in Redis: mac (not written with this fleet's key), format (written by "
        "another version), settings (different resolver settings), expired, outdated "
        "(invalidated, or older than the events known to this replica).",
        ("cause",),
    ),
    "queuegate_fleet_group_writes": Family(
        Counter,
        "Lookup results to share: written to Redis, outdated before they were written, dropped "
        "(too many waiting, or Redis fails), failed.",
        ("result",),
    ),
    "queuegate_fleet_group_read_failures": Family(
        Counter,
        "Batch reads from Redis that failed or took longer than fleet.read_timeout.",
    ),
    "queuegate_fleet_following": Family(
        Gauge, "1 if this replica follows the fleet, 0 if not. Absent without a fleet."
    ),
    "queuegate_fleet_replicas": Family(
        Gauge,
        "Replicas as seen by this one: following, starting, joining, silent (no heartbeats).",
        ("state",),
    ),
    "queuegate_fleet_policies": Family(
        Gauge, "Number of distinct policies among the replicas that are not silent."
    ),
    "queuegate_fleet_lag": Family(
        Gauge, "Number of changes not yet applied by the replica furthest behind."
    ),
    "queuegate_fleet_events": Family(Counter, "Changes by other replicas applied here."),
    "queuegate_fleet_gaps": Family(
        Counter,
        "Times this replica stopped following the fleet and had to look up cached groups again.",
    ),
    "queuegate_fleet_statuses_rejected": Family(Counter, "Statuses in Redis with an invalid MAC."),
    "queuegate_audit_records": Family(
        Counter,
        "Audit records: written, dropped, refused (the call failed). Audit metrics have no values "
        "without an audit log.",
        ("result",),
    ),
    "queuegate_audit_write_failures": Family(Counter, "Failed writes to the audit log."),
    "queuegate_audit_rotation_failures": Family(Counter, "Failed rotations of the audit log."),
    "queuegate_audit_writable": Family(
        Gauge, "1 if the last write to the audit log succeeded and no write hangs."
    ),
    "queuegate_audit_waiting_bytes": Family(
        Gauge, "Audit records waiting to be written, in bytes (audit.buffer)."
    ),
    "queuegate_certificate_expiry_timestamp_seconds": Family(
        Gauge,
        "When a listener's certificate chain expires, in Unix seconds.",
        ("listener",),
    ),
    "queuegate_certificate_reloads": Family(
        Counter,
        "Loads of a listener's certificate, key and authorities, including the initial one: "
        "success, failure (the old files remain in use).",
        ("listener", "result"),
    ),
    "queuegate_console_sign_ins": Family(
        Counter,
        "Console sign-in attempts: success, failure, refused (too many failures from the peer). "
        "No values without the console.",
        ("result",),
    ),
}
"""Metrics by name, in output order."""
