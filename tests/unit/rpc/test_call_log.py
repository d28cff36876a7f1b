"""Which decisions are recorded, and the content of a record."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from queuegate.policy.decision import Reason
from queuegate.v1 import access_pb2
from queuegate_server.decisions.log import ERROR, NUMBERS, AuditUnavailable, DecisionLog
from queuegate_server.engine import NotReady
from queuegate_server.observe.audit import AuditLog
from queuegate_server.rpc import wire
from queuegate_server.rpc.authentication import Principal, set_current_principal
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.errors import InvalidRequest, UnreadableRequest, to_status
from queuegate_server.settings.callers import Rights

REQUEST = access_pb2.CheckQueueAccessRequest(queue="root", partition="[rm]gpu")
REQUEST.user.user = 'eve\n{"decision":"allowed"}\u2028'


class Audit(AuditLog):
    """Keeps the records that it accepts in memory."""

    def __init__(self) -> None:
        self.is_full = False
        self.records: list[Mapping[str, Any]] = []
        self.numbers: list[int] = []

    async def append(
        self, records: Callable[[], Iterable[Mapping[str, Any]]], number: int, size: int
    ) -> bool:
        del size
        self.records += records()
        self.numbers.append(number)
        return not self.is_full


USER, NO_MATCH = NUMBERS[Reason.USER], NUMBERS[Reason.NO_MATCH]


def logs(
    audit: AuditLog, *, allowed: bool = False, now: float = 0.0
) -> tuple[DecisionLog, CallLog]:
    """Return a log of decisions, and that of the calls in which they are made."""
    decisions = DecisionLog(audit, allowed=allowed)
    return decisions, CallLog(decisions, lambda: now)


def answer(number: int) -> bytes:
    allowed = number == USER
    reason = access_pb2.REASON_USER if allowed else access_pb2.REASON_NO_MATCH
    return access_pb2.CheckQueueAccessResponse(
        allowed=allowed, reason=reason, policy_revision=7
    ).SerializeToString()


@pytest.mark.parametrize(
    ("allowed", "reason", "recorded"),
    [
        (False, USER, False),
        (False, NO_MATCH, True),
        (True, USER, True),
    ],
)
async def test_which_records_are_due(allowed: bool, reason: int, recorded: bool) -> None:
    audit = Audit()
    decisions, calls = logs(audit, allowed=allowed)
    await calls.record("CheckQueueAccess", b"", answer(reason), reason)
    assert len(audit.records) == recorded
    assert decisions.counts[reason] == 1
    audit.is_full = True
    if recorded:
        with pytest.raises(AuditUnavailable):
            await calls.record("CheckQueueAccess", b"", answer(reason), reason)
    else:
        await calls.record("CheckQueueAccess", b"", answer(reason), reason)


async def test_a_record_names_the_caller_and_forges_nothing() -> None:
    audit = Audit()
    decisions, calls = logs(audit, now=1.5)
    set_current_principal(Principal("spiffe://cluster/shim", Rights()))
    await calls.record_failure("CheckQueueAccess", REQUEST.SerializeToString(), NotReady())
    (record,) = audit.records
    assert record == {
        "time": "1970-01-01T00:00:01.500000Z",
        "caller": "spiffe://cluster/shim",
        "method": "CheckQueueAccess",
        "user": REQUEST.user.user,
        "partition": "gpu",
        "queue": "root",
        "access": "",
        "decision": "error",
        "reason": "not_ready",
    }
    assert len(json.dumps(record).splitlines()) == 1
    assert list(decisions.tallied())[-1] == ("error", "not_ready", 1)


@pytest.mark.parametrize(("allowed", "number", "made"), [(False, 2, 2), (True, 5, 5)])
async def test_batches(allowed: bool, number: int, made: int) -> None:
    audit = Audit()
    decisions, calls = logs(audit, allowed=allowed)
    reasons = [USER] * 3 + [NO_MATCH] * 2
    results = []
    for reason in reasons:
        decision = access_pb2.CheckQueueAccessResponse.FromString(answer(reason))
        results.append(access_pb2.CheckResult(decision=decision))
    request = access_pb2.BatchCheckQueueAccessRequest(checks=[REQUEST] * 5).SerializeToString()
    response = access_pb2.BatchCheckQueueAccessResponse(results=results).SerializeToString()
    await calls.record_batch("BatchCheckQueueAccess", request, response, bytes(reasons), ())
    assert decisions.counts[NO_MATCH] == 2
    assert audit.numbers == [number]
    assert len(audit.records) == made


@pytest.mark.parametrize(
    ("error", "reason"),
    [(RuntimeError(), "internal"), (UnreadableRequest([]), "invalid_field")],
    ids=["parsed in vain", "not parsed again"],
)
async def test_requests_that_are_no_messages_have_a_record_too(
    error: Exception, reason: str
) -> None:
    audit = Audit()
    _, calls = logs(audit)
    await calls.record_failure("CheckQueueAccess", b"\xff", error)
    assert audit.records[0]["reason"] == reason
    assert "user" not in audit.records[0]


@pytest.mark.parametrize(
    ("method", "results"),
    [
        ("BatchCheckQueueAccess", access_pb2.BatchCheckQueueAccessResponse),
        ("BatchCheckApplicationAccess", access_pb2.BatchCheckApplicationAccessResponse),
    ],
)
async def test_an_error_that_was_sent_once_is_in_each_record(method: str, results: Any) -> None:
    audit = Audit()
    decisions, calls = logs(audit)
    request = access_pb2.BatchCheckQueueAccessRequest(checks=[REQUEST] * 4).SerializeToString()
    response = results()
    response.results.add().decision.reason = access_pb2.REASON_NO_MATCH
    response.results.add().error.CopyFrom(to_status(NotReady()).proto)
    response.results.add().error.CopyFrom(to_status(InvalidRequest([("queue", "bad")])).proto)
    response.results.add().same_error_as = 1
    kinds = bytes([NO_MATCH, ERROR, ERROR, ERROR])
    errors = ["not_ready", "invalid_field", "not_ready"]
    await calls.record_batch(method, request, response.SerializeToString(), kinds, errors)
    assert ("error", "not_ready", 2) in decisions.tallied()
    reasons = [record["reason"] for record in audit.records]
    assert reasons == ["no_match", "not_ready", "invalid_field", "not_ready"]


@pytest.mark.parametrize("error", [NotReady(), None], ids=["before it is read", "when it is read"])
@pytest.mark.parametrize("method", ["CheckQueueAccess", "ExplainApplicationAccess"])
async def test_a_request_of_too_many_fields_is_not_parsed_for_its_record(
    error: Exception | None, method: str
) -> None:
    audit, request = Audit(), b"\x78\x01" * (wire.MAX_FIELDS + 1)
    if error is None:
        with pytest.raises(UnreadableRequest, match="fields") as caught:
            wire.parse(getattr(access_pb2, f"{method}Request"), request)
        error = caught.value
    _, calls = logs(audit)
    await calls.record_failure(method, request, error)
    [record] = audit.records
    assert not {"user", "queue"} & record.keys()


async def test_names_are_cut_to_the_longest_allowed() -> None:
    audit = Audit()
    _, calls = logs(audit)
    request = access_pb2.CheckQueueAccessRequest(queue="q" * 100_000, partition="p" * 100_000)
    request.user.user = "u" * 100_000
    await calls.record_failure("CheckQueueAccess", request.SerializeToString(), RuntimeError())
    assert len(json.dumps(audit.records[0])) < 7_000


async def test_a_withheld_decision_counts_as_an_error() -> None:
    audit = Audit()
    audit.is_full = True
    decisions, calls = logs(audit, allowed=True)
    with pytest.raises(AuditUnavailable):
        await calls.record("CheckQueueAccess", REQUEST.SerializeToString(), answer(USER), USER)
    with pytest.raises(AuditUnavailable):
        await calls.record_batch("BatchCheckQueueAccess", b"", b"", bytes([USER] * 3), ())
    assert [each for each in decisions.tallied() if each[2]] == [("error", "audit_unavailable", 4)]
