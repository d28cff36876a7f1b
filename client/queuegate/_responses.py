"""Convert protobuf responses about access into results. `_server_responses.py` converts all others.

Unknown enum values become UNSPECIFIED. A response that violates the contract raises ServerError and
never grants access.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from queuegate import _errors, _types
from queuegate._applications import ApplicationExplanation, ApplicationList, ApplicationStep
from queuegate._types import CheckFailure, Decision
from queuegate._users import AccessGrant, ListedUser, UnexpandedGroup, UsableQueue, UserPage
from queuegate.exceptions import ServerError
from queuegate.policy.decision import OUTCOMES, Access, Reason
from queuegate.policy.explain import StepOutcome
from queuegate.policy.reach import SubjectKind
from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2

_Name = TypeVar("_Name", bound=StrEnum)


class _ProtobufEnum(Protocol):
    def items(self) -> Iterable[tuple[str, int]]: ...


def members_by_number(
    values: _ProtobufEnum, prefix: str, names: type[_Name]
) -> Mapping[int, _Name]:
    """Map the values of a protobuf enum to the client's enum members with the same names."""
    return {
        number: names[member]
        for name, number in values.items()
        if (member := name.removeprefix(prefix)) in names.__members__
    }


_REASONS: Final = members_by_number(access_pb2.Reason, "REASON_", Reason)
_STEP_OUTCOMES: Final = members_by_number(access_pb2.StepOutcome, "STEP_OUTCOME_", StepOutcome)
_ORIGINS: Final = members_by_number(access_pb2.GroupsOrigin, "GROUPS_ORIGIN_", _types.GroupsOrigin)
_LISTS: Final = members_by_number(access_pb2.ApplicationList, "APPLICATION_LIST_", ApplicationList)
_SUBJECT_KINDS: Final = members_by_number(access_pb2.SubjectKind, "SUBJECT_KIND_", SubjectKind)
ACCESSES: Final = members_by_number(access_pb2.AccessType, "ACCESS_TYPE_", Access)


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
        ACCESSES.get(step.acl),
        step.acl_text,
        _STEP_OUTCOMES.get(step.outcome, StepOutcome.UNSPECIFIED),
        step.matched_subject,
        tuple(step.dropped_names),
        step.template_property,
        acl_entries(step.entries),
        step.further_entries,
    )


def acl_entries(entries: Iterable[access_pb2.AclEntry]) -> tuple[_types.AclEntry, ...]:
    """Return the entries of an ACL built from Kubernetes role bindings."""
    return tuple(
        _types.AclEntry(_SUBJECT_KINDS.get(each.kind), each.name, tuple(each.origins))
        for each in entries
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
        directory_as_of=moment(response, "directory_as_of"),
        policy_revision=response.policy_revision,
        evaluated_queue=response.evaluated_queue,
    )


def _grants(grants: Iterable[access_pb2.AccessGrant]) -> tuple[AccessGrant, ...]:
    return tuple(map(_grant, grants))


def _grant(grant: access_pb2.AccessGrant) -> AccessGrant:
    return AccessGrant(
        grant.queue,
        ACCESSES.get(grant.acl),
        _SUBJECT_KINDS.get(grant.kind),
        grant.name,
        tuple(grant.nested),
        tuple(grant.origins),
    )


def moment(
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
