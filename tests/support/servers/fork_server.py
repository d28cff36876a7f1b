"""Starts server processes by forking an interpreter that has already imported the server.

Imports take most of the 0.7 s of processor time of a start. The fork server,
`fork_server_program.py`, imports the modules once. Each server is a fork of it with its own
arguments, environment, working directory and standard streams, and runs the same `main` as
`python -m queuegate_server`. All forks share one hash seed.
"""

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

STATUS: Final = struct.Struct("i")
"""How a process ID and an exit status are written to the pipe of a process."""
_END_SECONDS: Final = 60
_READ_LATE: Final = ("ADMISSION_", "KRB5_", "NOTIFY_SOCKET", "PYTHONPATH")
"""Prefixes of variables that take effect even if they are set after the imports."""
_IGNORED: Final = "PYTEST_"
_SET_BY_US: Final = {"GRPC_VERBOSITY": "NONE", "LDAPNOINIT": "1"}
"""Variables that our code sets for its process, in servers and in the process of the tests."""


class ForkedProcess:
    """A server process, with the attributes and methods of `subprocess.Popen` that tests use."""

    def __init__(self, stdout: int, stderr: int, status: int) -> None:
        self.stdout: IO[str] | None = os.fdopen(stdout)
        self.stderr: IO[str] | None = os.fdopen(stderr)
        self.returncode: int | None = None
        self._status = status
        self.pid = self._read()

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process, and return its exit status.

        Raises:
            subprocess.TimeoutExpired: The process still runs after `timeout` seconds.

        """
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("queuegate-server", timeout or 0)
            self.returncode = self._read()
            os.close(self._status)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            # Its parent, which is not this process, may have released the ID meanwhile.
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Send SIGTERM, unless the process has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        self.send_signal(signal.SIGKILL)

    def _read(self) -> int:
        content = os.read(self._status, STATUS.size)
        assert content, "the fork server has ended"
        number: int = STATUS.unpack(content)[0]
        return number


class ForkServer:
    """A process that forks servers. It starts with the first of them."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket
        self._environment: Mapping[str, str]

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> ForkedProcess | None:
        """Run `queuegate-server` with these arguments and the complete environment.

        Returns:
            None if the environment contains variables that would have no effect after the imports.

        """
        with self._starting:
            if self._process is None:
                self._launch()
        differences = (environment.items() ^ self._environment.items()) - _SET_BY_US.items()
        if not all(name.startswith((_IGNORED, *_READ_LATE)) for name, _ in differences):
            return None
        pipes = [os.pipe() for _ in ("stdout", "stderr", "status")]
        request = {
            "arguments": arguments,
            "environment": dict(environment),
            "folder": str(Path.cwd()),
        }
        ends = [writing for _, writing in pipes]
        socket.send_fds(self._control, [json.dumps(request).encode()], ends)
        for end in ends:
            os.close(end)
        return ForkedProcess(*(reading for reading, _ in pipes))

    def close(self) -> None:
        """End the fork server, after all of its forks. Fails if one of them is still running."""
        if self._process is not None:
            self._control.close()
            try:
                assert self._process.wait(_END_SECONDS) == 0
            finally:
                self._process.kill()
                self._process.wait()

    def _launch(self) -> None:
        self._environment = dict(os.environ)
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.support.servers.fork_server_program"),
                    str(other.fileno()),
                ],
                cwd=Path(__file__).parents[3],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
            )
