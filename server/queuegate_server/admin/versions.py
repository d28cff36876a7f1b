"""What runs here, as /version and `queuegate_build_info` tell it."""

import platform
from importlib.metadata import version


def versions() -> dict[str, str]:
    """Return the versions of queuegate, Python and gRPC. Reads files."""
    return {
        "version": version("queuegate"),
        "python": platform.python_version(),
        "grpc": version("grpcio"),
    }
