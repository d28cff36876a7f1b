"""What the audit log says of a decision, made from the bytes of request and answer.

The memo keeps no more of an answer than its bytes; they are parsed for the records that
are due, and by the thread that writes them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from queuegate.policy.names import partition_name
from queuegate.v1 import access_pb2
from queuegate_server.rpc import convert, wire

Record = dict[str, Any]
_Question = access_pb2.CheckQueueAccessRequest | access_pb2.CheckApplicationAccessRequest
"""Or one to explain, which has the same fields."""

_ACCESS: Final = {access_pb2.ACCESS_TYPE_SUBMIT: "submit", access_pb2.ACCESS_TYPE_ADMIN: "admin"}
_ACTIONS: Final = {
    number: name.removeprefix("APPLICATION_ACTION_").lower()
    for name, number in access_pb2.ApplicationAction.items()
    if number
}
_REASONS: Final[dict[int, str]] = {
    number: name.removeprefix("REASON_").lower() for name, number in access_pb2.Reason.items()
}
COLUMNS: Final = "CheckQueueAccessColumns"
_BATCHES: Final[dict[str, Any]] = {
    "BatchCheckQueueAccess": access_pb2.CheckResult,
    "StreamQueueAccess": access_pb2.CheckResult,
    "BatchCheckApplicationAccess": access_pb2.ApplicationCheckResult,
}
_QUESTIONS: Final[dict[str, Any]] = {
    "CheckQueueAccess": access_pb2.CheckQueueAccessRequest,
    "ExplainQueueAccess": access_pb2.ExplainQueueAccessRequest,
    "BatchCheckQueueAccess": access_pb2.CheckQueueAccessRequest,
    COLUMNS: access_pb2.CheckQueueAccessRequest,
    "StreamQueueAccess": access_pb2.CheckQueueAccessRequest,
    "CheckApplicationAccess": access_pb2.CheckApplicationAccessRequest,
    "ExplainApplicationAccess": access_pb2.ExplainApplicationAccessRequest,
    "BatchCheckApplicationAccess": access_pb2.CheckApplicationAccessRequest,
}
"""By method: what one question is; of a batch, each of its items."""
_ANSWERS: Final[dict[str, Callable[[bytes], Any]]] = {
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
class Answered:
    """A call that was answered."""

    method: str
    time: float
    """When, in wall-clock seconds."""
    caller: str
    request: bytes
    response: bytes
    denials_only: bool
    """Whether what was allowed is left out."""

    def records(self) -> Iterator[Record]:
        """Yield a record for each question."""
        if self.method == COLUMNS:
            yield from self._columns()
            return
        results = _BATCHES.get(self.method)
        if results is None:
            asked = _parsed(self.method, self.request)
            yield from self._record(asked, _ANSWERS[self.method](self.response))
            return
        questions = wire.first_field_items(self.request)
        answers = wire.first_field_items(self.response)
        for question, data in zip(questions, answers, strict=True):
            result = results.FromString(data)
            if result.WhichOneof("outcome") == "error":
                reason = _error_reason(result.error)
                yield Failed(self.method, self.time, self.caller, question, reason).record()
            else:
                yield from self._record(_parsed(self.method, question), result.decision)

    def _columns(self) -> Iterator[Record]:
        """Yield a record for each question. The response has its decisions, whether or not
        the caller asked for them.
        """
        request = access_pb2.CheckQueueAccessColumnsRequest.FromString(self.request)
        response = access_pb2.CheckQueueAccessColumnsResponse.FromString(self.response)
        reasons = {
            number: _error_reason(error.error)
            for error in response.errors
            for number in error.questions
        }
        pairs = zip(
            request.user_indexes, request.queue_indexes, response.decision_indexes, strict=True
        )
        for number, (user, queue, place) in enumerate(pairs):
            decision = response.decisions[place - 1] if place else None
            if decision is not None and decision.allowed and self.denials_only:
                continue
            asked = access_pb2.CheckQueueAccessRequest(
                user=request.users[user],
                partition=request.partition,
                queue=request.queues[queue],
                access=request.access,
            )
            if decision is not None:
                yield from self._record(asked, decision)
            else:
                head = _record(self.method, self.time, self.caller, asked)
                yield head | {"decision": "error", "reason": reasons[number]}

    def _record(self, asked: _Question | None, decision: Any) -> Iterator[Record]:
        if decision.allowed and self.denials_only:
            return
        yield _record(self.method, self.time, self.caller, asked) | {
            "decision": "allowed" if decision.allowed else "denied",
            "reason": reason_text(decision.reason),
            "matched_queue": decision.matched_queue,
            "matched_name": decision.matched_subject,
            "revision": decision.policy_revision,
        }


@dataclass(frozen=True, slots=True)
class Failed:
    """A question, or a whole call, that could not be decided."""

    method: str
    time: float
    caller: str
    request: bytes
    reason: str

    def records(self) -> Iterator[Record]:
        """Yield the one record."""
        yield self.record()

    def record(self) -> Record:
        """Return the record."""
        asked = _parsed(self.method, self.request)
        head = _record(self.method, self.time, self.caller, asked)
        return head | {"decision": "error", "reason": self.reason}


def reason_text(number: int) -> str:
    """Return the reason of a decision as logs and metrics call it, such as `no_match`."""
    return _REASONS[number]


def _parsed(method: str, request: bytes) -> _Question | None:
    """Return the question; None if it is not one, which the answer told the caller."""
    try:
        asked = _QUESTIONS[method].FromString(request)
    except DecodeError:
        return None
    question: _Question = asked.check if method == "ExplainApplicationAccess" else asked
    return question


def _record(method: str, time: float, caller: str, asked: _Question | None) -> Record:
    moment = datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")
    record = {
        "time": moment.replace("+00:00", "Z"),
        "caller": caller,
        "method": method,
    }
    return record if asked is None else record | _asked(asked)


def _asked(asked: _Question) -> Record:
    """Return who asked for what. Texts that are no valid names are cut to bounds of these."""
    who: Record = {
        "user": _cut(asked.user.user),
        "partition": partition_name(_cut(asked.partition)),
    }
    if asked.user.groups:
        who["groups_in_request"] = len(asked.user.groups)
    if not isinstance(asked, access_pb2.CheckApplicationAccessRequest):
        queue = asked.queue[: convert.MAX_QUEUE_BYTES]
        return {**who, "queue": queue, "access": _ACCESS.get(asked.access, "")}
    spark = asked.WhichOneof("subject") == "spark"
    return {
        **who,
        "queue": asked.application.queue[: convert.MAX_QUEUE_BYTES],
        "action": _ACTIONS.get(asked.action, ""),
        "owner": _cut(asked.spark.spark_user if spark else asked.application.owner),
        "target_queue": asked.target_queue[: convert.MAX_QUEUE_BYTES],
    }


def _cut(name: str) -> str:
    return name[: convert.MAX_NAME_BYTES]


def _error_reason(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            break
    reason: str = info.reason
    return reason.lower()
