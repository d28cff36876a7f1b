"""The standard health service, `grpc.health.v1`, without a dependency for it.

Its two messages have one field each, number 1: a string in the request, an enum in
the response. The wrapper messages of protobuf itself have the same bytes.
"""

from typing import Final

from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from queuegate import _validation
from queuegate._results import HealthStatus

METHOD: Final = "/grpc.health.v1.Health/Check"
SERVICE_UNKNOWN_CODE: Final = "NOT_FOUND"
"""The status code with which the health service answers for a service it lacks."""

serialize = StringValue.SerializeToString
deserialize = Int32Value.FromString

_STATUSES: Final = {
    1: HealthStatus.SERVING,
    2: HealthStatus.NOT_SERVING,
    3: HealthStatus.SERVICE_UNKNOWN,
}


def request(service: str) -> StringValue:
    """Return the request for the health of a service; empty: of the whole server."""
    return StringValue(value=_validation.text("service", service, required=False))


def status(response: Int32Value) -> HealthStatus:
    """Return the health; a number that we do not know is not SERVING."""
    return _STATUSES.get(response.value, HealthStatus.UNKNOWN)
