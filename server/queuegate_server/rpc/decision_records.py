"""Audit records of decisions, made from the bytes of a request and its response.

The response cache holds nothing but bytes; they are parsed only for records that are due, by the
thread that writes them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from queuegate.policy.names import partition_name
from queuegate.v1 import access_pb2
from queuegate_server.rpc import validation, wire

Record = dict[str, Any]
_Check = access_pb2.CheckQueueAccessRequest | access_pb2.CheckApplicationAccessRequest
"""Or an explain request, which has the same fields."""

_ACCESS: Final = {access_pb2.ACCESS_TYPE_SUBMIT: "submit", access_pb2.ACCESS_TYPE_ADMIN: "admin"}
_ACTIONS: Final = {
    number: name.removeprefix("APPLICATION_ACTION_").lower()
    for name, number in access_pb2.ApplicationAction.items()
    if number
}
REASON_NAMES: Final[dict[int, str]] = {
    number: name.removeprefix("REASON_").lower() for name, number in access_pb2.Reason.items()
}
"""The reasons of decisions as logs and metrics call them, such as `no_match`."""
COLUMNS: Final = "CheckQueueAccessColumns"
_BATCHES: Final[dict[str, Any]] = {
    "BatchCheckQueueAccess": access_pb2.CheckResult,
    "StreamQueueAccess": access_pb2.CheckResult,
    "BatchCheckApplicationAccess": access_pb2.ApplicationCheckResult,
}
_REQUESTS: Final[dict[str, Any]] = {
    "CheckQueueAccess": access_pb2.CheckQueueAccessRequest,
    "ExplainQueueAccess": access_pb2.ExplainQueueAccessRequest,
    "BatchCheckQueueAccess": access_pb2.CheckQueueAccessRequest,
    COLUMNS: access_pb2.CheckQueueAccessRequest,
    "StreamQueueAccess": access_pb2.CheckQueueAccessRequest,
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
        """Yield a record for each check."""
        if self.method == COLUMNS:
            yield from self._columns()
            return
        results = _BATCHES.get(self.method)
        if results is None:
            check = _parsed(self.method, self.request)
            yield from self._record(check, _DECISIONS[self.method](self.response))
            return
        checks = wire.first_field_items(self.request)
        answers = wire.first_field_items(self.response)
        for request, data in zip(checks, answers, strict=True):
            result = results.FromString(data)
            if result.WhichOneof("outcome") == "error":
                reason = _error_reason(result.error)
                yield Failed(self.method, self.time, self.caller, request, reason).record()
            else:
                yield from self._record(_parsed(self.method, request), result.decision)

    def _columns(self) -> Iterator[Record]:
        """Yield a record for each check. The response has its decisions, whether or not the
        caller wants them.
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
            check = access_pb2.CheckQueueAccessRequest(
                user=request.users[user],
                partition=request.partition,
                queue=request.queues[queue],
                access=request.access,
            )
            if decision is not None:
                yield from self._record(check, decision)
            else:
                head = _record(self.method, self.time, self.caller, check)
                yield head | {"decision": "error", "reason": reasons[number]}

    def _record(self, check: _Check | None, decision: Any) -> Iterator[Record]:
        if decision.allowed and self.denials_only:
            return
        yield _record(self.method, self.time, self.caller, check) | {
            "decision": "allowed" if decision.allowed else "denied",
            "reason": REASON_NAMES[decision.reason],
            "matched_queue": decision.matched_queue,
            "matched_name": decision.matched_subject,
            "revision": decision.policy_revision,
        }


@dataclass(frozen=True, slots=True)
class Failed:
    """A check, or a whole call, that could not be decided."""

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
        check = _parsed(self.method, self.request)
        head = _record(self.method, self.time, self.caller, check)
        return head | {"decision": "error", "reason": self.reason}


def _parsed(method: str, request: bytes) -> _Check | None:
    """Return the check; None if the bytes are not one."""
    try:
        parsed = _REQUESTS[method].FromString(request)
    except DecodeError:
        return None
    check: _Check = parsed.check if method == "ExplainApplicationAccess" else parsed
    return check


def _record(method: str, time: float, caller: str, check: _Check | None) -> Record:
    moment = datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")
    record = {"time": moment.replace("+00:00", "Z"), "caller": caller, "method": method}
    return record if check is None else record | _fields(check)


def _fields(check: _Check) -> Record:
    """Return the user and the queue of a check. Invalid names are cut to the length of valid
    ones.
    """
    who: Record = {
        "user": _cut(check.user.user),
        "partition": partition_name(_cut(check.partition)),
    }
    if check.user.groups:
        who["groups_in_request"] = len(check.user.groups)
    if not isinstance(check, access_pb2.CheckApplicationAccessRequest):
        queue = check.queue[: validation.MAX_QUEUE_BYTES]
        return {**who, "queue": queue, "access": _ACCESS.get(check.access, "")}
    spark = check.WhichOneof("subject") == "spark"
    return {
        **who,
        "queue": check.application.queue[: validation.MAX_QUEUE_BYTES],
        "action": _ACTIONS.get(check.action, ""),
        "owner": _cut(check.spark.spark_user if spark else check.application.owner),
        "target_queue": check.target_queue[: validation.MAX_QUEUE_BYTES],
    }


def _cut(name: str) -> str:
    return name[: validation.MAX_NAME_BYTES]


def _error_reason(status: status_pb2.Status) -> str:
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            break
    reason: str = info.reason
    return reason.lower()
