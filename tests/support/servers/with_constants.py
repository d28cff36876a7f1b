"""The program of a server in which some constants have other values, so that tests do not wait."""

import importlib
import json
import os
from collections.abc import Mapping

VARIABLE = "CONSTANTS"
"""The variable with the values: JSON, by module and name below `queuegate_server`."""

NEVER_PAUSED: dict[str, object] = {"identity.guarded_resolver.BREAKER_FAILURES": 10_000}
"""The constant of a server that asks a source however often it fails."""
PATIENT_CONNECTIONS: dict[str, object] = {"identity.rest.rest_client.CONNECT_SECONDS": 60}
"""The constant of a server whose identity provider takes its time on a busy machine."""
NO_OVERLOAD: dict[str, object] = {
    "server.wiring.MAX_WAIT_SECONDS": 60,
    "transports.native.server.MAX_WAIT_SECONDS": 60,
}
"""Constants of a server that does not take hundreds of calls at once for an overload."""


def environment(constants: Mapping[str, object]) -> dict[str, str]:
    """Return the variable for a server whose constants have these values."""
    return {VARIABLE: json.dumps(constants)}


def change_constants() -> None:
    """Give the constants that the variable names their values. Workers inherit the variable."""
    for path, value in json.loads(os.environ.get(VARIABLE, "{}")).items():
        module, _, name = path.rpartition(".")
        found = importlib.import_module(f"queuegate_server.{module}")
        assert hasattr(found, name), path
        setattr(found, name, value)


if __name__ == "__main__":
    from queuegate_server.cli.main import main
    from queuegate_server.transports.registry import set_grpc_environment

    set_grpc_environment(os.environ)
    change_constants()
    main()
