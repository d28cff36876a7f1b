"""The bounds on connections, as gRPC takes them."""

import math
from collections.abc import Iterator

from queuegate_server.settings.limits import Connections


def connection_options(bounds: Connections) -> Iterator[tuple[str, int]]:
    """Yield the options of a gRPC server."""
    yield "grpc.max_allowed_incoming_connections", bounds.most
    yield "grpc.server_handshake_timeout_ms", milliseconds(bounds.handshake_timeout)
    # The first is where gRPC begins to refuse at random, the second where it always does.
    yield "grpc.max_metadata_size", bounds.max_metadata
    yield "grpc.absolute_max_metadata_size", bounds.max_metadata
    if bounds.max_age:
        yield "grpc.max_connection_age_ms", milliseconds(bounds.max_age)
        yield "grpc.max_connection_age_grace_ms", milliseconds(bounds.max_age_grace)
    yield "grpc.keepalive_time_ms", milliseconds(bounds.keepalive_interval)
    yield "grpc.keepalive_timeout_ms", milliseconds(bounds.keepalive_timeout)
    yield "grpc.http2.min_ping_interval_without_data_ms", milliseconds(bounds.min_ping_interval)
    yield "grpc.http2.max_ping_strikes", bounds.max_ping_strikes
    # Without it, clients without a call may ping every two hours only.
    yield "grpc.keepalive_permit_without_calls", 1


def milliseconds(seconds: float) -> int:
    """Convert, upwards."""
    return math.ceil(seconds * 1000)
