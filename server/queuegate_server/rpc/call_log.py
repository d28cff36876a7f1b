"""Counts and records the decisions of calls, given the bytes of requests and responses.

The response cache holds only bytes; they are parsed only for records that are due, in the thread
that writes them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2

from queuegate.policy.decision import Decision
from queuegate.policy.names import partition_name
from queuegate.v1 import access_pb2, status_pb2, sync_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.decisions.log import (
    NUMBERS,
    AuditUnavailable,
    DecidedCheck,
    DecisionLog,
    Record,
    Report,
)
from queuegate_server.rpc import validation, wire
from queuegate_server.rpc.authentication import current_caller
from queuegate_server.rpc.errors import UnreadableRequest, reason_name
from queuegate_server.rpc.messages import REASON_OF

COLUMNS: Final = "CheckQueueAccessColumns"
_RESULTS: Final[dict[str, Any]] = {
    "BatchCheckQueueAccess": access_pb2.CheckResult,
    "BatchCheckApplicationAccess": access_pb2.ApplicationCheckResult,
}
"""The message type of a result, by method of a batch."""

_Outcome = tuple[Record, Decision | str, int]
"""The question, the decision or the reason of the error, and the revision that decided."""


class CallLog:
    """Counts the decisions of calls, and records those that are due.

    Its methods raise AuditUnavailable if a record cannot be written.
    """

    def __init__(self, decisions: DecisionLog, wall: Callable[[], float]) -> None:
        self._decisions = decisions
        self._is_due = decisions.is_due
        self._counts = decisions.counts
        self._wall = wall
        self.due = decisions.due
        """Returns how many decisions must be recorded, given the number of the reason of each."""

    async def decided(self, method: str, request: bytes, response: bytes, reason: int) -> None:
        """Count a single decision, and record it if it is due."""
        if self._is_due[reason]:
            size = len(request) + len(response)
            await self._record(method, request, response, 1, checks=1, size=size)
        self._counts[reason] += 1

    async def failed(self, method: str, request: bytes, error: Exception) -> None:
        """Count and record a call that could not be decided."""
        reason = reason_name(error)
        self._decisions.count_errors(reason)
        if not self._decisions.has_audit:
            return
        kept = None if isinstance(error, UnreadableRequest) else request
        now, caller = self._wall(), current_caller()

        def checks() -> Iterator[DecidedCheck]:
            question = {} if kept is None else question_of(method, kept)
            yield DecidedCheck(method, now, caller, question, reason)

        try:
            await self._decisions.record(checks, 1, len(kept or b""))
        except AuditUnavailable as unavailable:
            raise unavailable from error

    async def decided_batch(
        self,
        method: str,
        request: bytes,
        response: bytes,
        reasons: bytes,
        errors: Iterable[str],
        *,
        size: int = 0,
    ) -> None:
        """Count the decisions of a batch, and record those that are due.

        Args:
            method: The name of the method.
            request: The bytes of the request.
            response: The bytes of the response, with the decisions of columns.
            reasons: The number of the reason of each check.
            errors: The reasons of the errors, as in their ErrorInfo, in lower case.
            size: The size of the records, if they are larger than the messages.
        """
        if due := self.due(reasons):
            size = max(size, len(request) + len(response))
            await self._record(method, request, response, due, checks=len(reasons), size=size)
        self._decisions.count(reasons, errors)

    async def reported(
        self, gate: str, decisions: Sequence[sync_pb2.LocalDecision], size: int
    ) -> None:
        """Count and record valid decisions of a gate; `size` is that of the message, in bytes."""
        reasons = bytes(NUMBERS[REASON_OF[each.decision.reason]] for each in decisions)
        if due := self.due(reasons):
            checks = partial(_reported_checks, gate, self._wall(), current_caller(), decisions)
            await self._decisions.record_report(checks, due, size)
        self._decisions.count(reasons, ())

    async def _record(
        self, method: str, request: bytes, response: bytes, due: int, *, checks: int, size: int
    ) -> None:
        """Record the decisions in a response that are due. If that fails, the answers are withheld,
        and all checks count as errors.
        """
        now, caller = self._wall(), current_caller()

        def decided_checks() -> Iterator[DecidedCheck]:
            for outcome in _outcomes(method, request, response):
                yield DecidedCheck(method, now, caller, *outcome)

        try:
            await self._decisions.record(decided_checks, due, size)
        except AuditUnavailable as withheld:
            self._decisions.count_errors(reason_name(withheld), checks)
            raise


def _outcomes(method: str, request: bytes, response: bytes) -> Iterator[_Outcome]:
    """Yield the outcome of each check of a call that was answered."""
    if method == COLUMNS:
        yield from _outcomes_of_columns(request, response)
    elif method in _RESULTS:
        yield from _outcomes_of_batch(method, request, response)
    else:
        message = getattr(access_pb2, f"{method}Response").FromString(response)
        decision = message.decision if method.startswith("Explain") else message
        yield question_of(method, request), _decision(decision), decision.policy_revision


def _outcomes_of_batch(method: str, request: bytes, response: bytes) -> Iterator[_Outcome]:
    parse = _RESULTS[method].FromString
    reasons: dict[int, str] = {}
    items = zip(wire.first_field_items(request), wire.first_field_items(response), strict=True)
    for number, (check, data) in enumerate(items):
        question, result = question_of(method, check), parse(data)
        match result.WhichOneof("outcome"):
            case "decision":
                yield question, _decision(result.decision), result.decision.policy_revision
            case "error":
                reasons[number] = _error_reason(result.error)
                yield question, reasons[number], 0
            case _:
                yield question, reasons[result.same_error_as], 0


def _outcomes_of_columns(data: bytes, answer: bytes) -> Iterator[_Outcome]:
    request = access_pb2.CheckQueueAccessColumnsRequest.FromString(data)
    response = access_pb2.CheckQueueAccessColumnsResponse.FromString(answer)
    reasons = {
        number: _error_reason(error.error)
        for error in response.errors
        for number in error.questions
    }
    # Once for each user and queue: a user with many groups may be in every pair.
    users = [_who(user, request.partition) for user in request.users]
    queues = [_what(queue, request.access) for queue in request.queues]
    pairs = zip(request.user_indexes, request.queue_indexes, response.decision_indexes, strict=True)
    for number, (user, queue, place) in enumerate(pairs):
        question = users[user] | queues[queue]
        if place:
            decision = response.decisions[place - 1]
            yield question, _decision(decision), decision.policy_revision
        else:
            yield question, reasons[number], 0


def _reported_checks(
    gate: str, received: float, caller: str, decisions: Sequence[sync_pb2.LocalDecision]
) -> Iterator[DecidedCheck]:
    for each in decisions:
        user = UserGroupInformation(user=each.user, no_groups=each.no_groups)
        question = _who(user, each.partition)
        if each.groups_in_request:
            question["groups_in_request"] = each.groups_in_request
        yield DecidedCheck(
            "Sync",
            each.time.ToNanoseconds() / 1e9,
            caller,
            question | _what(each.queue, each.access),
            _decision(each.decision),
            each.decision.policy_revision,
            Report(gate, received, each.stale),
        )


def _decision(message: Any) -> Decision:
    return Decision(
        message.allowed, REASON_OF[message.reason], message.matched_queue, message.matched_subject
    )


def question_of(method: str, request: bytes) -> Record:
    """Return the question of a check as fields of its record; none if the bytes are not a check.

    Invalid names are cut to the maximum length of valid ones.
    """
    kind = f"{method.removeprefix('Batch').removesuffix('Columns')}Request"
    try:
        parsed = getattr(access_pb2, kind).FromString(request)
    except DecodeError:
        return {}
    # A request to explain a queue has the fields of a check.
    check = parsed.check if method == "ExplainApplicationAccess" else parsed
    who = _who(check.user, check.partition)
    if not isinstance(check, access_pb2.CheckApplicationAccessRequest):
        return who | _what(check.queue, check.access)
    spark = check.WhichOneof("subject") == "spark"
    owner = check.spark.spark_user if spark else check.application.owner
    return who | {
        "queue": _cut_queue(check.application.queue),
        "action": str(validation.ACTIONS.get(check.action, "")),
        "owner": _cut(owner),
        "target_queue": _cut_queue(check.target_queue),
    }


def _who(user: UserGroupInformation, partition: str) -> Record:
    who: Record = {"user": _cut(user.user), "partition": partition_name(_cut(partition))}
    # Absent: the request said nothing about groups. 0: it said that the user has none.
    if user.groups or user.no_groups:
        who["groups_in_request"] = len(user.groups)
    return who


def _what(queue: str, access: int) -> Record:
    return {"queue": _cut_queue(queue), "access": str(validation.ACCESS.get(access, ""))}


def _cut(name: str) -> str:
    return name[: validation.MAX_NAME_BYTES]


def _cut_queue(path: str) -> str:
    return path[: validation.MAX_QUEUE_BYTES]


def _error_reason(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            break
    reason: str = info.reason
    return reason.lower()
