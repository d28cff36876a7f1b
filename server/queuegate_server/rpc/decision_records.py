"""Audit records of decisions, made from the bytes of a request and its response.

The response cache holds nothing but bytes; they are parsed only for records that are due, by the
thread that writes them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2

from queuegate.policy.names import partition_name
from queuegate.v1 import access_pb2, status_pb2, sync_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.rpc import validation, wire

Record = dict[str, Any]
_Check = access_pb2.CheckQueueAccessRequest | access_pb2.CheckApplicationAccessRequest
"""Or an explain request, which has the same fields."""

_ACCESS: Final[dict[int, str]] = {
    access_pb2.ACCESS_TYPE_SUBMIT: "submit",
    access_pb2.ACCESS_TYPE_ADMIN: "admin",
}
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
class Answered:
    """A call that was answered."""

    method: str
    time: float
    """When, in wall-clock seconds."""
    caller: str
    request: bytes
    response: bytes
    denials_only: bool
    """Whether granted checks are left out."""

    def records(self) -> Iterator[Record]:
        """Yield a record for each check."""
        if self.method == COLUMNS:
            yield from self._columns()
            return
        results = _BATCHES.get(self.method)
        if results is None:
            fields = _fields(self.method, self.request)
            yield from self._record(fields, _DECISIONS[self.method](self.response))
            return
        checks = wire.first_field_items(self.request)
        answers = wire.first_field_items(self.response)
        reasons: dict[int, str] = {}
        for number, (request, data) in enumerate(zip(checks, answers, strict=True)):
            result = results.FromString(data)
            outcome = result.WhichOneof("outcome")
            if outcome == "decision":
                yield from self._record(_fields(self.method, request), result.decision)
                continue
            if outcome == "error":
                reasons[number] = _error_reason(result.error)
            reason = reasons[number if outcome == "error" else result.same_error_as]
            yield Failed(self.method, self.time, self.caller, request, reason).record()

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
        # Once for each user and queue: a user with many groups may be in every pair.
        users = [_who(user, request.partition) for user in request.users]
        queues = [_what(queue, request.access) for queue in request.queues]
        pairs = zip(
            request.user_indexes, request.queue_indexes, response.decision_indexes, strict=True
        )
        for number, (user, queue, place) in enumerate(pairs):
            fields = users[user] | queues[queue]
            if place:
                yield from self._record(fields, response.decisions[place - 1])
            else:
                head = _head(self.method, self.time, self.caller)
                yield head | fields | {"decision": "error", "reason": reasons[number]}

    def _record(self, fields: Record, decision: Any) -> Iterator[Record]:
        if decision.allowed and self.denials_only:
            return
        yield _head(self.method, self.time, self.caller) | fields | _outcome(decision)


@dataclass(frozen=True, slots=True)
class Failed:
    """A check, or a whole call, that could not be decided."""

    method: str
    time: float
    caller: str
    request: bytes | None
    """None if it is known not to be a message."""
    reason: str

    def records(self) -> Iterator[Record]:
        """Yield the one record."""
        yield self.record()

    def record(self) -> Record:
        """Return the record."""
        head = _head(self.method, self.time, self.caller)
        fields = {} if self.request is None else _fields(self.method, self.request)
        return head | fields | {"decision": "error", "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Reported:
    """Decisions that a caller of SyncService made."""

    received: float
    """When they arrived, in wall-clock seconds."""
    caller: str
    decided_by: str
    """The name of the caller's stream."""
    decisions: Sequence[sync_pb2.LocalDecision]
    denials_only: bool

    def records(self) -> Iterator[Record]:
        """Yield a record for each decision."""
        for each in self.decisions:
            if each.decision.allowed and self.denials_only:
                continue
            user = UserGroupInformation(user=each.user)
            record = _head("Sync", each.time.ToNanoseconds() / 1e9, self.caller)
            record |= _who(user, each.partition) | _what(each.queue, each.access)
            if each.groups_in_request:
                record["groups_in_request"] = each.groups_in_request
            record |= _outcome(each.decision)
            record["decided_by"] = self.decided_by
            record["received"] = _moment(self.received)
            if each.stale:
                record["stale"] = True
            yield record


def _head(method: str, time: float, caller: str) -> Record:
    return {"time": _moment(time), "caller": caller, "method": method}


def _moment(time: float) -> str:
    moment = datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")
    return moment.replace("+00:00", "Z")


def _fields(method: str, request: bytes) -> Record:
    """Return the user and the queue of a check; nothing if the bytes are no check.

    Invalid names are cut to the length of valid ones.
    """
    try:
        parsed = _REQUESTS[method].FromString(request)
    except DecodeError:
        return {}
    check: _Check = parsed.check if method == "ExplainApplicationAccess" else parsed
    who = _who(check.user, check.partition)
    if not isinstance(check, access_pb2.CheckApplicationAccessRequest):
        return who | _what(check.queue, check.access)
    spark = check.WhichOneof("subject") == "spark"
    return {
        **who,
        "queue": check.application.queue[: validation.MAX_QUEUE_BYTES],
        "action": _ACTIONS.get(check.action, ""),
        "owner": _cut(check.spark.spark_user if spark else check.application.owner),
        "target_queue": check.target_queue[: validation.MAX_QUEUE_BYTES],
    }


def _who(user: UserGroupInformation, partition: str) -> Record:
    who: Record = {"user": _cut(user.user), "partition": partition_name(_cut(partition))}
    if user.groups:
        who["groups_in_request"] = len(user.groups)
    return who


def _what(queue: str, access: int) -> Record:
    return {"queue": queue[: validation.MAX_QUEUE_BYTES], "access": _ACCESS.get(access, "")}


def _outcome(decision: Any) -> Record:
    return {
        "decision": "allowed" if decision.allowed else "denied",
        "reason": REASON_NAMES[decision.reason],
        "matched_queue": decision.matched_queue,
        "matched_name": decision.matched_subject,
        "revision": decision.policy_revision,
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
