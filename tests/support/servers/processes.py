"""Servers of other projects, each a process that tests start, freeze and kill."""

import contextlib
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, TypeVar

_ATTEMPTS = 3


class ServerProcess(ABC):
    """A server that runs in a process of its own."""

    stop_seconds: ClassVar[float] = 30
    """How long the server may take to end by itself."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @abstractmethod
    def start(self) -> None:
        """Start the server, and return once it answers. Raises AssertionError if it does not."""

    def freeze(self) -> None:
        """Make the server hang: its port accepts connections, and nobody answers."""
        freeze(self.pid)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server as an administrator does."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
            os.kill(process.pid, number)
        try:
            process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


S = TypeVar("S", bound=ServerProcess)


@contextlib.contextmanager
def running(build: Callable[[Path], S], folder: Path) -> Iterator[S]:
    """Build and start a server in a new folder below this one; stop it at the end in any case."""
    for attempt in range(_ATTEMPTS):
        server = build(folder / str(attempt))
        try:
            server.start()
        except AssertionError:
            # Another process took the port first.
            server.stop()
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            break
    try:
        yield server
    finally:
        server.stop()


def freeze(pid: int) -> None:
    """Suspend a process, and return once it is suspended."""
    os.kill(pid, signal.SIGSTOP)
    state = Path(f"/proc/{pid}/stat")
    while state.read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.005)
