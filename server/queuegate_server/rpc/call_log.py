"""Counts decisions, and writes audit records for them.

Records are built from serialized messages, because the response cache stores only bytes. Messages
are parsed only when a record is due, in the thread that writes it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from google.rpc import error_details_pb2

from queuegate.decision_record import Record, queue_fields, user_fields
from queuegate.policy.decision import Decision
from queuegate.v1 import access_pb2, status_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.decisions.log import AuditUnavailable, DecidedCheck, DecisionLog
from queuegate_server.rpc import validation, wire
from queuegate_server.rpc.authentication import current_caller
from queuegate_server.rpc.errors import UnreadableRequest, reason_name
from queuegate_server.rpc.messages import REASON_OF

COLUMNS: Final = "CheckQueueAccessColumns"
_RESULTS: Final[dict[str, Any]] = {
    "BatchCheckQueueAccess": access_pb2.CheckResult,
    "BatchCheckApplicationAccess": access_pb2.ApplicationCheckResult,
}
"""The type of a result message, by batch method."""

_Outcome = tuple[Record, Decision | str, int]
"""The request's fields, the decision or error reason, and the policy's revision."""


class CallLog:
    """Counts decisions and writes audit records. Methods raise AuditUnavailable if that fails."""

    def __init__(self, decisions: DecisionLog, wall: Callable[[], float]) -> None:
        self._decisions = decisions
        self._is_due = decisions.is_due
        self._counts = decisions.counts
        self._wall = wall
        self.due = decisions.due
        """Returns the number of decisions to record, given each decision's reason number."""

    async def record(self, method: str, request: bytes, response: bytes, reason: int) -> None:
        """Count a single decision, and write its audit record if one is due."""
        if self._is_due[reason]:
            size = len(request) + len(response)
            await self._record(method, request, response, 1, checks=1, size=size)
        self._counts[reason] += 1

    async def record_failure(self, method: str, request: bytes, error: Exception) -> None:
        """Count and record a failed call."""
        reason = reason_name(error)
        self._decisions.count_errors(reason)
        if not self._decisions.has_audit:
            return
        parsable = None if isinstance(error, UnreadableRequest) else request
        now, caller = self._wall(), current_caller()

        def checks() -> Iterator[DecidedCheck]:
            fields = {} if parsable is None else request_fields(method, parsable)
            yield DecidedCheck(method, now, caller, fields, reason)

        try:
            await self._decisions.record(checks, 1, len(parsable or b""))
        except AuditUnavailable as unavailable:
            raise unavailable from error

    async def record_batch(
        self,
        method: str,
        request: bytes,
        response: bytes,
        reasons: bytes,
        errors: Iterable[str],
        *,
        size: int = 0,
    ) -> None:
        """Count a batch's decisions, and write the audit records that are due.

        Args:
            method: The method's name.
            request: The serialized request.
            response: The serialized response. For columns, it must include the decisions.
            reasons: The reason number of each check, one byte each.
            errors: The ErrorInfo reasons of failed checks, in lower case.
            size: The records' size in bytes, if larger than the messages.
        """
        if due := self.due(reasons):
            size = max(size, len(request) + len(response))
            await self._record(method, request, response, due, checks=len(reasons), size=size)
        self._decisions.count(reasons, errors)

    async def _record(
        self, method: str, request: bytes, response: bytes, due: int, *, checks: int, size: int
    ) -> None:
        """Write the audit records due for a response. On failure, count its checks as errors."""
        now, caller, latest = self._wall(), current_caller(), self._decisions.latest

        def decided_checks() -> Iterator[DecidedCheck]:
            for outcome in _outcomes(method, request, response):
                yield DecidedCheck(method, now, caller, *outcome, latest)

        try:
            await self._decisions.record(decided_checks, due, size)
        except AuditUnavailable as withheld:
            self._decisions.count_errors(reason_name(withheld), checks)
            raise


def _outcomes(method: str, request: bytes, response: bytes) -> Iterator[_Outcome]:
    """Yield the outcome of each check in a successful call."""
    if method == COLUMNS:
        yield from _outcomes_of_columns(request, response)
    elif method in _RESULTS:
        yield from _outcomes_of_batch(method, request, response)
    else:
        message = getattr(access_pb2, f"{method}Response").FromString(response)
        decision = message.decision if method.startswith("Explain") else message
        yield request_fields(method, request), _decision(decision), decision.policy_revision


def _outcomes_of_batch(method: str, request: bytes, response: bytes) -> Iterator[_Outcome]:
    parse = _RESULTS[method].FromString
    reasons: dict[int, str] = {}
    items = zip(wire.first_field_items(request), wire.first_field_items(response), strict=True)
    for number, (check, data) in enumerate(items):
        fields, result = request_fields(method, check), parse(data)
        match result.WhichOneof("outcome"):
            case "decision":
                yield fields, _decision(result.decision), result.decision.policy_revision
            case "error":
                reasons[number] = _error_reason(result.error)
                yield fields, reasons[number], 0
            case _:
                yield fields, reasons[result.same_error_as], 0


def _outcomes_of_columns(request_data: bytes, response_data: bytes) -> Iterator[_Outcome]:
    request = access_pb2.CheckQueueAccessColumnsRequest.FromString(request_data)
    response = access_pb2.CheckQueueAccessColumnsResponse.FromString(response_data)
    reasons = {
        number: _error_reason(error.error)
        for error in response.errors
        for number in error.questions
    }
    # Convert each user and queue once, because a user with many groups may be in every pair.
    users = [_user_fields(user, request.partition) for user in request.users]
    queues = [_queue_fields(queue, request.access) for queue in request.queues]
    pairs = zip(request.user_indexes, request.queue_indexes, response.decision_indexes, strict=True)
    for number, (user, queue, decision_index) in enumerate(pairs):
        fields = users[user] | queues[queue]
        if decision_index:
            decision = response.decisions[decision_index - 1]
            yield fields, _decision(decision), decision.policy_revision
        else:
            yield fields, reasons[number], 0


def _decision(message: Any) -> Decision:
    return Decision(
        message.allowed, REASON_OF[message.reason], message.matched_queue, message.matched_subject
    )


def request_fields(method: str, request: bytes) -> Record:
    """Return a check's audit fields, with truncated names; empty if it cannot be parsed.

    A call may fail before its fields are counted, so they are counted here as well.
    """
    kind = f"{method.removeprefix('Batch').removesuffix('Columns')}Request"
    try:
        parsed = wire.parse(getattr(access_pb2, kind), request)
    except UnreadableRequest:
        return {}
    # ExplainQueueAccessRequest has the same fields as a check.
    check = parsed.check if method == "ExplainApplicationAccess" else parsed
    fields = _user_fields(check.user, check.partition)
    if not isinstance(check, access_pb2.CheckApplicationAccessRequest):
        return fields | _queue_fields(check.queue, check.access)
    spark = check.WhichOneof("subject") == "spark"
    owner = check.spark.spark_user if spark else check.application.owner
    return fields | {
        "queue": _cut_queue(check.application.queue),
        "action": str(validation.ACTIONS.get(check.action, "")),
        "owner": _cut(owner),
        "target_queue": _cut_queue(check.target_queue),
    }


def _user_fields(user: UserGroupInformation, partition: str) -> Record:
    groups = len(user.groups) if user.groups or user.no_groups else None
    return user_fields(_cut(user.user), _cut(partition), groups)


def _queue_fields(queue: str, access: int) -> Record:
    return queue_fields(_cut_queue(queue), str(validation.ACCESS.get(access, "")))


def _cut(name: str) -> str:
    return name[: validation.MAX_NAME_BYTES]


def _cut_queue(path: str) -> str:
    return path[: validation.MAX_QUEUE_BYTES]


def _error_reason(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            break
    return str(info.reason).lower()
