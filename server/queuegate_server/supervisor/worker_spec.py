"""What a worker is told when it is started: who it is, and how to reach its supervisor."""

import contextlib
import os
import socket
from dataclasses import dataclass

from queuegate_server.supervisor.channel import frame


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker's place among the others."""

    index: int
    descriptor: int
    """Its end of the channel, as a file descriptor."""
    settings: int
    """A file with the content of the settings' file when the supervisor started, as a file
    descriptor: workers that start later are not to have other settings. 0: there is none.
    """
    changed: int
    """The same of the last content that SIGHUP found valid; 0: there was no such signal."""
    ports: tuple[int, ...]
    """The port of each address of the settings; 0 for what has none."""

    def __str__(self) -> str:
        """Return the value of the option `--worker`."""
        return ":".join(
            str(part)
            for part in (self.index, self.descriptor, self.settings, self.changed, *self.ports)
        )

    @classmethod
    def parse(cls, text: str) -> "WorkerSpec":
        """Read what `str` gives. Raises ValueError."""
        index, descriptor, settings, changed, *ports = (int(part) for part in text.split(":"))
        return cls(index, descriptor, settings, changed, tuple(ports))

    def content(self) -> bytes | None:
        """Return what was in the settings' file. Raises OSError."""
        return _content(self.settings)

    def changed_content(self) -> bytes | None:
        """Return what was in it at the last SIGHUP. Raises OSError."""
        return _content(self.changed)

    def channel_end(self) -> socket.socket:
        """Return the end of the channel, for whoever closes it. Raises OSError."""
        end = socket.socket(fileno=os.dup(self.descriptor))
        os.set_inheritable(self.descriptor, False)
        return end

    def report(self, failure: str) -> None:
        """Tell the supervisor why this worker cannot start, outside of any event loop."""
        with contextlib.suppress(OSError), self.channel_end() as end:
            end.settimeout(1)
            end.sendall(frame({"ask": "failed", "number": 0, "value": failure}))


def _content(descriptor: int) -> bytes | None:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0) if descriptor else None
