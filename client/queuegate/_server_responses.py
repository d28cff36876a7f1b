"""Convert protobuf responses about groups, policies and the server's state into results.

`_responses.py` converts responses about access, and documents the rules that apply to all
responses.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from google.protobuf.wrappers_pb2 import Int32Value

from queuegate import _results
from queuegate._responses import ACCESSES, acl_entries, members_by_number, moment
from queuegate.v1 import policy_pb2, user_groups_pb2

_Change: TypeAlias = policy_pb2.ReloadPolicyResponse | user_groups_pb2.InvalidateUserGroupsResponse

_RESOLVE_OUTCOMES: Final = members_by_number(
    user_groups_pb2.ResolveOutcome, "RESOLVE_OUTCOME_", _results.ResolveOutcome
)
_SEVERITIES: Final = members_by_number(policy_pb2.Severity, "SEVERITY_", _results.Severity)
_REPLICA_STATES: Final = members_by_number(
    policy_pb2.ReplicaState, "REPLICA_STATE_", _results.ReplicaState
)
_REPLICA_ROLES: Final = members_by_number(
    policy_pb2.ReplicaRole, "REPLICA_ROLE_", _results.ReplicaRole
)
_HEALTH: Final = {
    1: _results.HealthStatus.SERVING,
    2: _results.HealthStatus.NOT_SERVING,
    3: _results.HealthStatus.SERVICE_UNKNOWN,
}
"""Health statuses by their number in grpc.health.v1.HealthCheckResponse.ServingStatus. The client
does not import that module, because it needs nothing else from it.
"""


def resolution(response: user_groups_pb2.ResolveUserGroupsResponse) -> _results.Resolution:
    """Return a user's groups."""
    return _results.Resolution(
        user=response.user_group.user,
        groups=tuple(response.user_group.groups),
        outcome=_RESOLVE_OUTCOMES.get(response.outcome, _results.ResolveOutcome.UNSPECIFIED),
        resolver=response.resolver,
        cached=response.cached,
        stale=response.stale,
        resolved_at=moment(response, "resolved_at"),
        expires_at=moment(response, "expires_at"),
        detail=response.detail,
    )


def policy(response: policy_pb2.GetPolicyResponse) -> _results.PolicyInfo:
    """Return a partition's policy."""
    return _results.PolicyInfo(
        source=response.source,
        revision=response.revision,
        checksum=response.checksum,
        loaded_at=moment(response, "loaded_at"),
        queues=tuple(
            _results.PolicyQueue(
                queue.path,
                queue.submit_acl,
                queue.admin_acl,
                tuple(queue.submit_acl_dropped_names),
                tuple(queue.admin_acl_dropped_names),
                queue.created_levels,
                acl_entries(queue.submit_acl_entries),
            )
            for queue in response.queues
        ),
        resolver=response.resolver,
        partitions=tuple(response.partitions),
        diagnostics=_diagnostics(response.diagnostics),
        reload_failed_at=moment(response, "reload_failed_at"),
        reload_diagnostics=_diagnostics(response.reload_diagnostics),
        templates=tuple(
            _results.QueueTemplate(
                template.path,
                template.kind,
                template.submit_acl if template.HasField("submit_acl") else None,
                template.admin_acl if template.HasField("admin_acl") else None,
            )
            for template in response.templates
        ),
        format=response.format,
        semantics=response.semantics,
        unenforced=tuple(ACCESSES[each] for each in response.unenforced if each in ACCESSES),
    )


def reload_result(response: policy_pb2.ReloadPolicyResponse) -> _results.ReloadResult:
    """Return the result of a reload."""
    return _results.ReloadResult(
        response.succeeded,
        response.revision,
        _diagnostics(response.diagnostics),
        _cursor(response),
        tuple(response.waited_out),
        _stale_gates((response,)),
    )


def fleet(response: policy_pb2.GetFleetResponse) -> _results.FleetInfo:
    """Return a fleet's replicas."""
    return _results.FleetInfo(
        tuple(map(_replica, response.replicas)),
        response.connected,
        response.agreed,
        tuple(response.problems),
        tuple(map(_gate, response.gates)),
    )


def _gate(gate: policy_pb2.FleetGate) -> _results.FleetGate:
    has_counts, counts = gate.HasField("counts"), gate.counts
    return _results.FleetGate(
        gate.name,
        gate.caller,
        gate.agent,
        gate.replica,
        gate.stale_millis / 1_000,
        counts.decided if has_counts else None,
        counts.stale if has_counts else None,
        counts.fallbacks if counts.HasField("fallbacks") else None,
    )


def _replica(replica: policy_pb2.FleetReplica) -> _results.Replica:
    return _results.Replica(
        replica.name,
        _REPLICA_STATES.get(replica.state, _results.ReplicaState.UNKNOWN),
        replica.self,
        replica.version,
        replica.lag,
        replica.policy_revision,
        replica.policy_checksum,
        replica.gates,
        replica.silent_seconds,
        _REPLICA_ROLES.get(replica.role, _results.ReplicaRole.UNKNOWN),
        tuple(map(_queue_decisions, replica.queue_decisions)),
        tuple(replica.http_addresses),
    )


def _queue_decisions(row: policy_pb2.QueueDecisions) -> _results.QueueDecisions:
    return _results.QueueDecisions(
        row.scheduler, row.mode, row.allowed, row.denied, row.warned, row.failed
    )


def invalidation(
    responses: Sequence[user_groups_pb2.InvalidateUserGroupsResponse],
) -> _results.InvalidationResult:
    """Return the combined result of all requests sent for an invalidation."""
    return _results.InvalidationResult(
        sum(response.dropped for response in responses),
        _cursor(responses[-1]) if responses else None,
        tuple(dict.fromkeys(name for each in responses for name in each.waited_out)),
        _stale_gates(responses),
    )


def _stale_gates(responses: Iterable[_Change]) -> tuple[_results.StaleGate, ...]:
    """Return the gates that may still use old state: each name once, with its longest time."""
    longest: dict[str, float] = {}
    for response in responses:
        for gate in response.stale_gates:
            seconds = gate.remaining_millis / 1_000
            longest[gate.name] = max(seconds, longest.get(gate.name, 0.0))
    return tuple(_results.StaleGate(*each) for each in longest.items())


def _cursor(response: _Change) -> _results.Cursor | None:
    if not response.HasField("cursor"):
        return None
    return _results.Cursor(response.cursor.epoch, response.cursor.sequence)


def validation(response: policy_pb2.ValidatePolicyResponse) -> _results.ValidationResult:
    """Return the result of a validation."""
    return _results.ValidationResult(response.valid, _diagnostics(response.diagnostics))


def health(response: Int32Value) -> _results.HealthStatus:
    """Return the health status. Unrecognized numbers map to UNKNOWN, never to SERVING."""
    return _HEALTH.get(response.value, _results.HealthStatus.UNKNOWN)


def _diagnostics(diagnostics: Iterable[policy_pb2.Diagnostic]) -> tuple[_results.Diagnostic, ...]:
    return tuple(
        _results.Diagnostic(
            _SEVERITIES.get(diagnostic.severity, _results.Severity.UNSPECIFIED),
            diagnostic.line,
            diagnostic.column,
            diagnostic.queue,
            diagnostic.message,
            diagnostic.remedy,
            diagnostic.file,
        )
        for diagnostic in diagnostics
    )
