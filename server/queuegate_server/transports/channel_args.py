"""The settings of gRPC: environment variables, which it reads when it is first imported, and
the channel arguments of a server.
"""

import math
from collections.abc import Iterator, MutableMapping
from typing import Final

from queuegate_server.settings.limits import Connections

ENVIRONMENT: Final = {
    # What gRPC logs to stderr is in our own log already.
    "GRPC_VERBOSITY": "NONE",
    # From 1.80 on, gRPC listens with its event engine, which hands each call over between more
    # threads: a unary call takes a fifth more processor time.
    "GRPC_EXPERIMENTS": "-event_engine_listener",
}


def set_environment_defaults(environment: MutableMapping[str, str]) -> None:
    """Set the variables that are not set. This has no effect once gRPC has been imported."""
    for name, value in ENVIRONMENT.items():
        environment.setdefault(name, value)


def connection_args(bounds: Connections) -> Iterator[tuple[str, int]]:
    """Yield the channel arguments for bounds on connections."""
    yield "grpc.max_allowed_incoming_connections", bounds.most
    yield "grpc.server_handshake_timeout_ms", milliseconds(bounds.handshake_timeout)
    # Above the first size gRPC refuses at random, above the second one always.
    yield "grpc.max_metadata_size", bounds.max_metadata
    yield "grpc.absolute_max_metadata_size", bounds.max_metadata
    if bounds.max_age:
        yield "grpc.max_connection_age_ms", milliseconds(bounds.max_age)
        yield "grpc.max_connection_age_grace_ms", milliseconds(bounds.max_age_grace)
    yield "grpc.keepalive_time_ms", milliseconds(bounds.keepalive_interval)
    yield "grpc.keepalive_timeout_ms", milliseconds(bounds.keepalive_timeout)
    yield "grpc.http2.min_ping_interval_without_data_ms", milliseconds(bounds.min_ping_interval)
    yield "grpc.http2.max_ping_strikes", bounds.max_ping_strikes
    # Without it, a client without calls may ping only every two hours.
    yield "grpc.keepalive_permit_without_calls", 1


def milliseconds(seconds: float) -> int:
    """Convert seconds, rounding up."""
    return math.ceil(seconds * 1000)
