"""The decisions in the bytes of requests and responses, as the log of decisions takes them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2

from queuegate.policy.applications import Action
from queuegate.policy.decision import Decision
from queuegate.policy.names import partition_name
from queuegate.v1 import access_pb2, status_pb2, sync_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.decisions.records import (
    ApplicationQuestion,
    DecidedCheck,
    QueueQuestion,
    Report,
)
from queuegate_server.rpc import validation, wire
from queuegate_server.rpc.messages import REASON_OF

COLUMNS: Final = "CheckQueueAccessColumns"
_ACTIONS: Final = {
    access_pb2.ApplicationAction.Value(f"APPLICATION_ACTION_{action.name}"): action
    for action in Action
}
_BATCHES: Final[dict[str, Any]] = {
    "BatchCheckQueueAccess": access_pb2.CheckResult,
    "BatchCheckApplicationAccess": access_pb2.ApplicationCheckResult,
}
_REQUESTS: Final[dict[str, Any]] = {
    "CheckQueueAccess": access_pb2.CheckQueueAccessRequest,
    "ExplainQueueAccess": access_pb2.ExplainQueueAccessRequest,
    "BatchCheckQueueAccess": access_pb2.CheckQueueAccessRequest,
    COLUMNS: access_pb2.CheckQueueAccessRequest,
    "CheckApplicationAccess": access_pb2.CheckApplicationAccessRequest,
    "ExplainApplicationAccess": access_pb2.ExplainApplicationAccessRequest,
    "BatchCheckApplicationAccess": access_pb2.CheckApplicationAccessRequest,
}
"""By method: the message of a check; of a batch, the message of each item."""
_DECISIONS: Final[dict[str, Callable[[bytes], Any]]] = {
    "CheckQueueAccess": access_pb2.CheckQueueAccessResponse.FromString,
    "CheckApplicationAccess": access_pb2.CheckApplicationAccessResponse.FromString,
    "ExplainQueueAccess": lambda data: (
        access_pb2.ExplainQueueAccessResponse.FromString(data).decision
    ),
    "ExplainApplicationAccess": lambda data: (
        access_pb2.ExplainApplicationAccessResponse.FromString(data).decision
    ),
}


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call that was answered."""

    method: str
    time: float
    """When, in wall-clock seconds."""
    caller: str
    request: bytes
    response: bytes

    def checks(self) -> Iterator[DecidedCheck]:
        """Yield each check."""
        if self.method == COLUMNS:
            yield from self._columns()
            return
        results = _BATCHES.get(self.method)
        if results is None:
            question = _question(self.method, self.request)
            yield self._decided(question, _DECISIONS[self.method](self.response))
            return
        checks = wire.first_field_items(self.request)
        answers = wire.first_field_items(self.response)
        reasons: dict[int, str] = {}
        for number, (request, data) in enumerate(zip(checks, answers, strict=True)):
            result = results.FromString(data)
            question = _question(self.method, request)
            outcome = result.WhichOneof("outcome")
            if outcome == "decision":
                yield self._decided(question, result.decision)
                continue
            if outcome == "error":
                reasons[number] = _error_reason(result.error)
            reason = reasons[number if outcome == "error" else result.same_error_as]
            yield DecidedCheck(self.method, self.time, self.caller, question, reason)

    def _columns(self) -> Iterator[DecidedCheck]:
        """Yield each check. The response has its decisions, whether or not the caller wants
        them.
        """
        request = access_pb2.CheckQueueAccessColumnsRequest.FromString(self.request)
        response = access_pb2.CheckQueueAccessColumnsResponse.FromString(self.response)
        reasons = {
            number: _error_reason(error.error)
            for error in response.errors
            for number in error.questions
        }
        # Once for each user and queue: a user with many groups may be in every pair.
        users = [_who(user, request.partition) for user in request.users]
        queues = [_what(queue, request.access) for queue in request.queues]
        pairs = zip(
            request.user_indexes, request.queue_indexes, response.decision_indexes, strict=True
        )
        for number, (user, queue, place) in enumerate(pairs):
            question = QueueQuestion(*users[user], *queues[queue])
            if place:
                yield self._decided(question, response.decisions[place - 1])
            else:
                yield DecidedCheck(self.method, self.time, self.caller, question, reasons[number])

    def _decided(
        self, question: QueueQuestion | ApplicationQuestion | None, message: Any
    ) -> DecidedCheck:
        decision = _decision(message)
        revision = message.policy_revision
        return DecidedCheck(self.method, self.time, self.caller, question, decision, revision)


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A check, or a whole call, that could not be decided."""

    method: str
    time: float
    caller: str
    request: bytes | None
    """None if it is known not to be a message."""
    reason: str

    def checks(self) -> Iterator[DecidedCheck]:
        """Yield the call."""
        question = None if self.request is None else _question(self.method, self.request)
        yield DecidedCheck(self.method, self.time, self.caller, question, self.reason)


@dataclass(frozen=True, slots=True)
class ReportedDecisions:
    """Decisions that a gate made."""

    received: float
    """When they arrived, in wall-clock seconds."""
    caller: str
    gate: str
    """The name of the gate's stream."""
    decisions: Sequence[sync_pb2.LocalDecision]

    def checks(self) -> Iterator[DecidedCheck]:
        """Yield each decision."""
        for each in self.decisions:
            given = UserGroupInformation(user=each.user, no_groups=each.no_groups)
            user, partition, count = _who(given, each.partition)
            what = _what(each.queue, each.access)
            question = QueueQuestion(user, partition, each.groups_in_request or count, *what)
            yield DecidedCheck(
                "Sync",
                each.time.ToNanoseconds() / 1e9,
                self.caller,
                question,
                _decision(each.decision),
                each.decision.policy_revision,
                Report(self.gate, self.received, each.stale),
            )


def _decision(message: Any) -> Decision:
    return Decision(
        message.allowed, REASON_OF[message.reason], message.matched_queue, message.matched_subject
    )


def _question(method: str, request: bytes) -> QueueQuestion | ApplicationQuestion | None:
    """Return the question of a check; None if the bytes are no check.

    Invalid names are cut to the length of valid ones.
    """
    try:
        parsed = _REQUESTS[method].FromString(request)
    except DecodeError:
        return None
    # An explain request has the fields of a check.
    check = parsed.check if method == "ExplainApplicationAccess" else parsed
    who = _who(check.user, check.partition)
    if not isinstance(check, access_pb2.CheckApplicationAccessRequest):
        return QueueQuestion(*who, *_what(check.queue, check.access))
    spark = check.WhichOneof("subject") == "spark"
    return ApplicationQuestion(
        *who,
        queue=check.application.queue[: validation.MAX_QUEUE_BYTES],
        action=_ACTIONS.get(check.action),
        owner=_cut(check.spark.spark_user if spark else check.application.owner),
        target_queue=check.target_queue[: validation.MAX_QUEUE_BYTES],
    )


def _who(user: UserGroupInformation, partition: str) -> tuple[str, str, int | None]:
    count = len(user.groups) if user.groups or user.no_groups else None
    return _cut(user.user), partition_name(_cut(partition)), count


def _what(queue: str, access: int) -> tuple[str, Any]:
    return queue[: validation.MAX_QUEUE_BYTES], validation.ACCESS.get(access)


def _cut(name: str) -> str:
    return name[: validation.MAX_NAME_BYTES]


def _error_reason(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            break
    reason: str = info.reason
    return reason.lower()
