"""The process that `fork_server.py` starts: it imports the server, and forks for each request."""

import gc
import importlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any, Final

from queuegate_server.cli import main
from queuegate_server.transports.registry import set_grpc_environment
from tests.support.servers.fork_server import STATUS
from tests.support.servers.with_constants import change_constants

_MODULES: Final = (
    "cryptography.x509",
    "queuegate_server.admin.http",
    "queuegate_server.admission.process",
    "queuegate_server.console.app",
    "queuegate_server.fleet.driver",
    "queuegate_server.fleet.join",
    "queuegate_server.identity.resolvers.ldap.member_lookup",
    "queuegate_server.identity.resolvers.ldap.pool",
    "queuegate_server.server.lifecycle",
    "queuegate_server.server.metrics",
    "queuegate_server.transports.grpcio",
    "queuegate_server.transports.stalls",
)
"""What a running server imports late, beyond what its commands import."""
_MAX_REQUEST: Final = 1 << 20


def serve(control: socket.socket) -> list[str] | None:
    """Fork until the socket is closed.

    Returns:
        In a fork, the arguments of the server that it is to become; otherwise None.

    """
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, _MAX_REQUEST, 3)
        _reap(os.WNOHANG)
        if not message:
            _reap(0)
            return None
        if not os.fork():
            control.close()
            return _fork_server_process(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _reap(options: int) -> None:
    """Release the processes that have ended, or wait for the end of all."""
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass


def _fork_server_process(
    request: dict[str, Any], stdout: int, stderr: int, status: int
) -> list[str]:
    """Fork the server, and return in it. Its parent writes its ID and exit status to the pipe."""
    server = os.fork()
    if server:
        os.close(stdout)
        os.close(stderr)
        os.write(status, STATUS.pack(server))
        _, raw = os.waitpid(server, 0)
        os.write(status, STATUS.pack(os.waitstatus_to_exitcode(raw)))
        os._exit(0)
    for descriptor, standard in ((stdout, 1), (stderr, 2)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.close(status)
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [request["folder"], *(path for path in more if path and path not in before)]
    arguments: list[str] = request["arguments"]
    return arguments


if __name__ == "__main__":
    set_grpc_environment(os.environ)
    main.command_group()
    for _module in _MODULES:
        importlib.import_module(_module)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork would lose the other threads"
    gc.freeze()
    _arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    if _arguments is not None:
        __package__ = "queuegate_server"  # from which click takes the name of the command
        sys.orig_argv = [sys.executable, "-m", "queuegate_server", *_arguments]
        sys.argv = [str(Path(main.__file__).parents[1] / "__main__.py"), *_arguments]
        change_constants()
        main.main()
