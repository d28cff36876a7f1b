"""The start parameters of a worker, which its supervisor passes on the command line."""

import contextlib
import os
import socket
import sys
import tempfile
from dataclasses import dataclass
from typing import IO

from queuegate_server.supervisor.channel import frame


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What one worker is started with."""

    index: int
    channel: int
    """The worker's end of the channel, as a file descriptor."""
    initial: int
    """A file descriptor of the settings' file as it was when the supervisor started: workers that
    start later use the same settings. 0: there is no file.
    """
    current: int
    """The same for the last settings that a reload found valid; 0: there was no reload."""
    ports: tuple[int, ...]
    """The port of each address of the settings; 0 for addresses without a port."""

    def __str__(self) -> str:
        """Return the value of the option `--worker`."""
        return ":".join(
            map(str, (self.index, self.channel, self.initial, self.current, *self.ports))
        )

    @classmethod
    def parse(cls, text: str) -> "WorkerSpec":
        """Parse the value of the option `--worker`. Raises ValueError."""
        index, channel, initial, current, *ports = (int(part) for part in text.split(":"))
        return cls(index, channel, initial, current, tuple(ports))

    def initial_content(self) -> bytes | None:
        """Return the content of the settings' file at the start. Raises OSError."""
        return _content(self.initial)

    def current_content(self) -> bytes | None:
        """Return its content at the last reload. Raises OSError."""
        return _content(self.current)

    def channel_end(self) -> socket.socket:
        """Return a socket for the channel, which the caller closes. Raises OSError."""
        end = socket.socket(fileno=os.dup(self.channel))
        os.set_inheritable(self.channel, False)
        return end

    def report(self, failure: str) -> None:
        """Report to the supervisor why this worker cannot start; needs no event loop."""
        with contextlib.suppress(OSError), self.channel_end() as end:
            end.settimeout(1)
            end.sendall(frame({"ask": "failed", "number": 0, "value": failure}))


class SettingsFiles:
    """Anonymous files with the initial and the current content of the settings' file."""

    def __init__(self, content: bytes | None) -> None:
        """Store the initial content; None if there is no file."""
        self.initial = _store(content)
        """A file descriptor for workers; 0 if there is none."""
        self.current = 0
        """The same."""

    def replace(self, content: bytes | None) -> None:
        """Store content that a reload found valid."""
        old, self.current = self.current, _store(content)
        if old:
            os.close(old)

    def close(self) -> None:
        """Close the files."""
        for descriptor in filter(None, (self.initial, self.current)):
            os.close(descriptor)
        self.initial = self.current = 0


def _content(descriptor: int) -> bytes | None:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0) if descriptor else None


def _store(content: bytes | None) -> int:
    if content is None:
        return 0
    with _anonymous_file() as file:
        file.write(content)
        file.flush()
        return os.dup(file.fileno())


def _anonymous_file() -> IO[bytes]:
    """Return a file in memory where the system has them: the disk may be read-only."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("queuegate-settings"), "wb")
    return tempfile.TemporaryFile()
