"""Reads the results of a batch as a caller must."""

from collections.abc import Sequence
from typing import TypeVar

from queuegate.v1 import access_pb2

Result = TypeVar("Result", access_pb2.CheckResult, access_pb2.ApplicationCheckResult)


def with_errors(results: Sequence[Result]) -> list[Result]:
    """Return the results, each with a decision or an individual error."""
    resolved = []
    for number, result in enumerate(results):
        if result.WhichOneof("outcome") == "same_error_as":
            assert result.same_error_as < number
            resolved.append(results[result.same_error_as])
            assert resolved[-1].HasField("error")
        else:
            resolved.append(result)
    return resolved
