"""What gRPC reads from the environment when it is first imported."""

from collections.abc import MutableMapping
from typing import Final

DEFAULTS: Final = {
    # Its own lines on stderr repeat what is reported properly.
    "GRPC_VERBOSITY": "NONE",
    # From 1.80 on, gRPC listens with its event engine, which hands each call over between
    # more threads: a unary call takes a fifth more of the processor.
    "GRPC_EXPERIMENTS": "-event_engine_listener",
}


def set_defaults(environment: MutableMapping[str, str]) -> None:
    """Set what is not set yet. Has no effect once gRPC is imported."""
    for name, value in DEFAULTS.items():
        environment.setdefault(name, value)
