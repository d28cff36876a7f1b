"""The questions of `queuegate.Client`, asked over HTTP: another transport for the same suites."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Self

import grpc

import queuegate
from queuegate import _errors
from queuegate._applications import Application, ApplicationCheck, SparkApplication
from queuegate._types import Check, CheckFailure, Decision
from queuegate.policy.decision import Reason
from queuegate.v1.status_pb2 import Status
from tests.support.servers.http_port import EVALUATION, EVALUATIONS, connect, exchange

if TYPE_CHECKING:
    import http.client

_CODES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}


class HttpClient:
    """A client with the methods that the conformance suites call."""

    def __init__(self, address: str) -> None:
        self._opened: http.client.HTTPConnection = connect(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def check(self, *args: Any, **kwargs: Any) -> Decision:
        return self._one(evaluation(Check(*args, **kwargs)))

    def check_application(self, *args: Any, **kwargs: Any) -> Decision:
        return self._one(application_evaluation(ApplicationCheck(*args, **kwargs)))

    def check_many(self, checks: Iterable[Check]) -> list[Decision | CheckFailure]:
        return self._many([evaluation(check) for check in checks])

    def check_applications(
        self, checks: Iterable[ApplicationCheck]
    ) -> list[Decision | CheckFailure]:
        return self._many([application_evaluation(check) for check in checks])

    def _one(self, body: dict[str, Any]) -> Decision:
        reply = exchange(self._opened, EVALUATION, body)
        if reply.status != 200:
            raise _error(reply.status, reply.content)
        return _decision(reply.content)

    def _many(self, bodies: list[dict[str, Any]]) -> list[Decision | CheckFailure]:
        if not bodies:  # the standard reads an empty list as a single evaluation
            return []
        reply = exchange(self._opened, EVALUATIONS, {"evaluations": bodies})
        assert reply.status == 200, reply
        found = reply.content["evaluations"]
        assert len(found) == len(bodies)
        return [_result(each) for each in found]


def evaluation(check: Check) -> dict[str, Any]:
    """Return the request for a check."""
    return {
        "subject": _subject(check),
        "action": {"name": str(check.access)},
        "resource": {
            "type": "queue",
            "id": check.queue,
            "properties": {"partition": check.partition},
        },
    }


def application_evaluation(check: ApplicationCheck) -> dict[str, Any]:
    """Return the request for a check of an application."""
    properties: dict[str, Any] = {"partition": check.partition}
    match check.application:
        case Application() as stated:
            properties |= {
                "queue": stated.queue,
                "owner": stated.owner,
                "view_acl": stated.view_acl,
                "modify_acl": stated.modify_acl,
            }
        case SparkApplication() as stated:
            properties["spark"] = {
                "properties": dict(stated.properties),
                "spark_user": stated.spark_user,
                "process_user": stated.process_user,
            }
    if check.target_queue:
        properties["target_queue"] = check.target_queue
    return {
        "subject": _subject(check),
        "action": {"name": str(check.action)},
        "resource": {"type": "application", "id": "any", "properties": properties},
    }


def _subject(check: Check | ApplicationCheck) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if check.groups is not None:
        properties["groups"] = list(check.groups)
    if check.real_user:
        properties["real_user"] = check.real_user
    return {"type": "user", "id": check.user, "properties": properties}


def _result(found: dict[str, Any]) -> Decision | CheckFailure:
    if error := found["context"].get("error"):
        assert found["decision"] is False
        return CheckFailure(_error(error["status"], error["message"]))
    return _decision(found)


def _decision(found: dict[str, Any]) -> Decision:
    context = found["context"]
    assert context["message"].startswith("allowed: " if found["decision"] else "denied: ")
    return Decision(
        found["decision"],
        Reason(context["reason"]),
        context.get("queue", ""),
        "",
        context["policy_revision"],
    )


def _error(status: int, message: str) -> queuegate.QueuegateError:
    code = _CODES.get(status, grpc.StatusCode.INTERNAL)
    return _errors.from_item(Status(code=code.value[0], message=message))
