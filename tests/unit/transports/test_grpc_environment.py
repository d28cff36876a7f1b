"""Variables by which the server configures gRPC."""

import os
import subprocess
import sys

from queuegate_server.transports.registry import GRPC_ENVIRONMENT, set_grpc_environment

_STARTS_GRPC = "import grpc; grpc.insecure_channel('127.0.0.1:1')"


def test_set_values_are_left() -> None:
    environment = {"GRPC_VERBOSITY": "DEBUG"}

    set_grpc_environment(environment)

    assert environment == {**GRPC_ENVIRONMENT, "GRPC_VERBOSITY": "DEBUG"}


def test_grpc_knows_what_it_is_asked_for() -> None:
    # It complains of experiments that have been removed; then the line goes.
    environment = {**os.environ, **GRPC_ENVIRONMENT}

    started = subprocess.run(
        [sys.executable, "-c", _STARTS_GRPC],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert started.stderr == ""
