"""The tree of exceptions, and statuses that no server of ours would send."""

import copy
import pickle
import re
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2

from queuegate import _errors, exceptions
from queuegate.v1 import errors_pb2, status_pb2
from tests.support.fakes.scripted_services import status
from tests.support.rows import rows


def test_the_drawing_is_the_tree() -> None:
    drawn = re.findall(r"^[ │├└─]*?(?:[├└]── |    )(\w+)(?:  |$)", exceptions.__doc__, re.MULTILINE)
    kinds = [
        kind
        for kind in vars(exceptions).values()
        if isinstance(kind, type) and issubclass(kind, exceptions.QueuegateError)
    ]
    assert sorted(drawn) == sorted(kind.__name__ for kind in kinds)
    for kind in kinds:
        parent = kind.__base__
        assert parent
        assert parent is Exception or drawn.index(parent.__name__) < drawn.index(kind.__name__)


@pytest.mark.parametrize(
    "error",
    [
        exceptions.InvalidArgument(
            "m", code="C", reason="R", violations=[exceptions.Violation("f", "d")]
        ),
        exceptions.GroupsUnavailable("m", code="C", reason="R", retry_after=1.5),
        exceptions.ServerError("m", code="C", reason="R"),
    ],
)
@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301
def test_exceptions_survive_copying(error: exceptions.QueuegateError, copied: Any) -> None:
    other = copied(error)
    assert type(other) is type(error)
    assert (str(other), vars(other)) == (str(error), vars(error))


def detail(type_name: str, value: bytes) -> status_pb2.Status:
    packed = AnyMessage(type_url=f"type.googleapis.com/{type_name}", value=value)
    return status_pb2.Status(code=grpc.StatusCode.UNAVAILABLE.value[0], details=[packed])


@pytest.mark.parametrize(
    "odd",
    [
        detail("google.rpc.ErrorInfo", b"\xff\xff"),
        detail("google.rpc.RetryInfo", b"\xff\xff"),
        detail("nobody.knows.This", b"abc"),
        detail("", b""),
        status_pb2.Status(code=14, message="plain"),
    ],
    ids=["garbled info", "garbled retry", "unknown type", "no type", "none"],
)
def test_details_that_cannot_be_read_are_left_out(odd: status_pb2.Status) -> None:
    error = _errors.from_item(odd)
    assert type(error) is exceptions.ServerUnavailable
    assert (error.code, error.reason, error.retry_after) == ("UNAVAILABLE", "", None)


def test_a_reason_of_somebody_else_is_not_ours() -> None:
    info = error_details_pb2.ErrorInfo(reason="RESOLVER_UNAVAILABLE", domain="example.com")
    error = _errors.from_item(status(grpc.StatusCode.UNAVAILABLE, "m", "", info))
    assert type(error) is exceptions.ServerUnavailable
    assert error.reason == ""


@pytest.mark.parametrize("number", [0, 17, -1, 2**31 - 1])
def test_a_code_that_is_none(number: int) -> None:
    error = _errors.from_item(status_pb2.Status(code=number))
    assert type(error) is exceptions.ServerError
    assert str(error)


def test_the_distinguished_reasons_are_in_the_contract() -> None:
    reasons = {name.removeprefix("ERROR_REASON_") for name in errors_pb2.ErrorReason.keys()}  # noqa: SIM118
    assert _errors._UNAVAILABLE_TYPES.keys() < reasons


@rows
def test_the_cause_of_a_failed_connection_is_kept(details: str, message: str) -> None:
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details
    )
    assert str(_errors.from_call(error, "here:1", 1.0, encrypted=False)) == message


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_server_that_has_answered_gets_no_advice_about_tls(encrypted: bool) -> None:
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "Socket closed"
    )
    messages = [
        str(_errors.from_call(error, "here:1", 1.0, encrypted=encrypted, has_worked=has_worked))
        for has_worked in (False, True)
    ]
    assert "if it requires" in messages[0]
    assert messages[1] == "here:1 closed the connection (Socket closed)"
