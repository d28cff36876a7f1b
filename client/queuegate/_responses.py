"""Convert protobuf responses to results.

Unknown enum values become UNSPECIFIED. A response that violates the contract raises ServerError and
never grants access.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Protocol, TypeAlias, TypeVar

from google.protobuf.wrappers_pb2 import Int32Value

from queuegate import _errors, _results, _types
from queuegate._applications import ApplicationExplanation, ApplicationList, ApplicationStep
from queuegate._types import CheckFailure, Decision
from queuegate._users import AccessGrant, ListedUser, UnexpandedGroup, UsableQueue, UserPage
from queuegate.exceptions import ServerError
from queuegate.policy.decision import OUTCOMES, Access, Reason
from queuegate.policy.explain import StepOutcome
from queuegate.policy.reach import SubjectKind
from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2

_Name = TypeVar("_Name", bound=StrEnum)
_Change: TypeAlias = policy_pb2.ReloadPolicyResponse | user_groups_pb2.InvalidateUserGroupsResponse


class _ProtobufEnum(Protocol):
    def items(self) -> Iterable[tuple[str, int]]: ...


def _names(values: _ProtobufEnum, prefix: str, names: type[_Name]) -> Mapping[int, _Name]:
    """Map the values of a protobuf enum to the client's enum members with the same names."""
    return {
        number: names[member]
        for name, number in values.items()
        if (member := name.removeprefix(prefix)) in names.__members__
    }


_REASONS: Final = _names(access_pb2.Reason, "REASON_", Reason)
_STEP_OUTCOMES: Final = _names(access_pb2.StepOutcome, "STEP_OUTCOME_", StepOutcome)
_ORIGINS: Final = _names(access_pb2.GroupsOrigin, "GROUPS_ORIGIN_", _types.GroupsOrigin)
_RESOLVE_OUTCOMES: Final = _names(
    user_groups_pb2.ResolveOutcome, "RESOLVE_OUTCOME_", _results.ResolveOutcome
)
_SEVERITIES: Final = _names(policy_pb2.Severity, "SEVERITY_", _results.Severity)
_LISTS: Final = _names(access_pb2.ApplicationList, "APPLICATION_LIST_", ApplicationList)
_SUBJECT_KINDS: Final = _names(access_pb2.SubjectKind, "SUBJECT_KIND_", SubjectKind)
_REPLICA_STATES: Final = _names(policy_pb2.ReplicaState, "REPLICA_STATE_", _results.ReplicaState)
_REPLICA_ROLES: Final = _names(policy_pb2.ReplicaRole, "REPLICA_ROLE_", _results.ReplicaRole)
_ACCESSES: Final = _names(access_pb2.AccessType, "ACCESS_TYPE_", Access)
_HEALTH: Final = {
    1: _results.HealthStatus.SERVING,
    2: _results.HealthStatus.NOT_SERVING,
    3: _results.HealthStatus.SERVICE_UNKNOWN,
}


def groups(message: access_pb2.ExplainGroups) -> _types.ExplainedGroups:
    """Return the groups in an explanation, with their origin."""
    return _types.ExplainedGroups(
        _ORIGINS.get(message.origin, _types.GroupsOrigin.UNSPECIFIED),
        tuple(message.groups),
        message.resolver,
        message.detail,
    )


def decision(
    response: access_pb2.CheckQueueAccessResponse | access_pb2.CheckApplicationAccessResponse,
) -> Decision:
    """Return the decision in a response.

    Raises:
        ServerError: `allowed` contradicts the reason, so neither can be trusted.
    """
    reason = _REASONS.get(response.reason, Reason.UNSPECIFIED)
    outcome = OUTCOMES.get(reason)
    if outcome is not None and outcome.grants is not response.allowed:
        said = "allowed" if response.allowed else "denied"
        raise ServerError(
            f"the server's response contradicts itself: {said}, with the reason {reason}",
            code="INTERNAL",
        )
    return Decision(
        response.allowed,
        reason,
        response.matched_queue,
        response.matched_subject,
        response.policy_revision,
        response.evaluated_queue,
    )


def decision_or_failure(
    response: access_pb2.CheckQueueAccessResponse | access_pb2.CheckApplicationAccessResponse,
) -> Decision | CheckFailure:
    """Return the result of a check in a batch. A contradictory decision fails only its own
    check.
    """
    try:
        return decision(response)
    except ServerError as error:
        return CheckFailure(error)


def results(
    request: access_pb2.BatchCheckQueueAccessRequest
    | access_pb2.BatchCheckApplicationAccessRequest,
    response: access_pb2.BatchCheckQueueAccessResponse
    | access_pb2.BatchCheckApplicationAccessResponse,
) -> list[Decision | CheckFailure]:
    """Return the result of each check in a batch.

    Raises:
        ServerError: The number of results does not match the number of checks.
    """
    expected, received = len(request.checks), len(response.results)
    if expected != received:
        raise ServerError(
            f"the server returned {received} results for {expected} checks", code="INTERNAL"
        )
    absent = CheckFailure(ServerError("the server omitted a result", code="INTERNAL"))
    failures: dict[int, CheckFailure] = {}
    collected: list[Decision | CheckFailure] = []
    for result in response.results:
        index, outcome = len(collected), result.WhichOneof("outcome")
        if outcome == "decision":
            collected.append(decision_or_failure(result.decision))
            continue
        if outcome == "error":
            failures[index] = CheckFailure(_errors.from_item(result.error))
        first = result.same_error_as if outcome == "same_error_as" else index
        collected.append(failures.get(first, absent))
    return collected


def explanation(response: access_pb2.ExplainQueueAccessResponse) -> _types.Explanation:
    """Return the explanation of a queue access decision."""
    return _types.Explanation(
        decision=decision(response.decision),
        steps=tuple(_step(step) for step in response.steps),
        groups=groups(response.groups),
        evaluated_queue=response.evaluated_queue,
        will_be_created=response.will_be_created,
        is_parent=response.is_parent,
    )


def _step(step: access_pb2.ExplainStep) -> _types.Step:
    return _types.Step(
        step.queue,
        _ACCESSES.get(step.acl),
        step.acl_text,
        _STEP_OUTCOMES.get(step.outcome, StepOutcome.UNSPECIFIED),
        step.matched_subject,
        tuple(step.dropped_names),
        step.template_property,
    )


def application_explanation(
    response: access_pb2.ExplainApplicationAccessResponse,
) -> ApplicationExplanation:
    """Return the explanation of an application access decision."""
    return ApplicationExplanation(
        decision(response.decision),
        tuple(
            ApplicationStep(
                _LISTS.get(step.list, ApplicationList.UNSPECIFIED),
                step.queue,
                step.acl_text,
                step.granted,
            )
            for step in response.steps
        ),
        groups(response.groups),
    )


_Paged = TypeVar("_Paged", access_pb2.ListQueuesRequest, access_pb2.ListUsersRequest)


def next_page(
    request: _Paged, response: access_pb2.ListQueuesResponse | access_pb2.ListUsersResponse
) -> _Paged | None:
    """Return the request for the next page, or None after the last page.

    Raises:
        ServerError: The server repeated a page token.
    """
    if not response.next_page_token:
        return None
    if response.next_page_token == request.page_token:
        raise ServerError("the server returned the same page token twice", code="INTERNAL")
    following = type(request)()
    following.CopyFrom(request)
    following.page_token = response.next_page_token
    return following


def usable_queues(response: access_pb2.ListQueuesResponse) -> list[UsableQueue]:
    """Return the queues on a page. Raises ServerError if any of them lacks its ACL entry."""
    if len(response.via) != len(response.queues):
        raise ServerError(
            f"the server returned {len(response.queues)} queues with {len(response.via)} entries:"
            " it may be older than this client",
            code="INTERNAL",
        )
    return [*map(UsableQueue, response.queues, map(_grant, response.via))]


def users(response: access_pb2.ListUsersResponse) -> UserPage:
    """Return a page of users."""
    return UserPage(
        users=tuple(
            ListedUser(each.user, _grants(each.via), each.further, each.confirmed, each.detail)
            for each in response.users
        ),
        everyone=response.everyone,
        everyone_via=_grant(response.everyone_via) if response.everyone else None,
        complete=response.complete,
        incomplete=tuple(response.incomplete),
        unexpanded_groups=tuple(
            UnexpandedGroup(_grant(each.grant), each.detail) for each in response.unexpanded_groups
        ),
        proxies=_grants(response.proxies),
        groups_may_be_asserted=response.groups_may_be_asserted,
        directory_as_of=_moment(response, "directory_as_of"),
        policy_revision=response.policy_revision,
        evaluated_queue=response.evaluated_queue,
    )


def _grants(grants: Iterable[access_pb2.AccessGrant]) -> tuple[AccessGrant, ...]:
    return tuple(map(_grant, grants))


def _grant(grant: access_pb2.AccessGrant) -> AccessGrant:
    return AccessGrant(
        grant.queue,
        _ACCESSES.get(grant.acl),
        _SUBJECT_KINDS.get(grant.kind),
        grant.name,
        tuple(grant.nested),
    )


def resolution(response: user_groups_pb2.ResolveUserGroupsResponse) -> _results.Resolution:
    """Return a user's groups."""
    return _results.Resolution(
        user=response.user_group.user,
        groups=tuple(response.user_group.groups),
        outcome=_RESOLVE_OUTCOMES.get(response.outcome, _results.ResolveOutcome.UNSPECIFIED),
        resolver=response.resolver,
        cached=response.cached,
        stale=response.stale,
        resolved_at=_moment(response, "resolved_at"),
        expires_at=_moment(response, "expires_at"),
        detail=response.detail,
    )


def policy(response: policy_pb2.GetPolicyResponse) -> _results.PolicyInfo:
    """Return a partition's policy."""
    return _results.PolicyInfo(
        source=response.source,
        revision=response.revision,
        checksum=response.checksum,
        loaded_at=_moment(response, "loaded_at"),
        queues=tuple(
            _results.PolicyQueue(
                queue.path,
                queue.submit_acl,
                queue.admin_acl,
                tuple(queue.submit_acl_dropped_names),
                tuple(queue.admin_acl_dropped_names),
                queue.created_levels,
            )
            for queue in response.queues
        ),
        resolver=response.resolver,
        partitions=tuple(response.partitions),
        diagnostics=_diagnostics(response.diagnostics),
        reload_failed_at=_moment(response, "reload_failed_at"),
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
        unenforced=tuple(_ACCESSES[each] for each in response.unenforced if each in _ACCESSES),
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
    """Return the gates that may still use old state, each name once with its longest time."""
    longest: dict[str, float] = {}
    for response in responses:
        for gate in response.stale_gates:
            seconds = gate.remaining_millis / 1_000
            longest[gate.name] = max(seconds, longest.get(gate.name, 0.0))
    return tuple(_results.StaleGate(*each) for each in longest.items())


def _cursor(
    response: _Change,
) -> _results.Cursor | None:
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


def _moment(
    response: user_groups_pb2.ResolveUserGroupsResponse
    | policy_pb2.GetPolicyResponse
    | access_pb2.ListUsersResponse,
    field: str,
) -> datetime | None:
    """Return a timestamp field as a datetime, or None if it is unset or out of range."""
    if not response.HasField(field):  # type: ignore[arg-type]
        return None
    try:
        moment: datetime = getattr(response, field).ToDatetime(UTC)
    except ValueError:
        return None
    return moment
