"""The start parameters of a worker: the first message on its channel, which is its stdin."""

import base64
import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from queuegate_server.supervisor.channel import frame, receive

_STDIN = 0


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker is started with."""

    index: int
    ports: tuple[int, ...]
    """The port of each address of the settings; 0 for addresses without a port."""
    initial: bytes | None
    """The content of the settings' file when the supervisor started: workers that start later use
    the same settings. None if there is no file.
    """
    current: bytes | None
    """The content that the last reload found valid; None if there was no reload."""
    channel: socket.socket
    """The worker's end of the channel; `report` uses it after the event loop has ended."""

    @classmethod
    def receive(cls) -> "WorkerSpec":
        """Receive the spec on stdin, which is then redirected from /dev/null.

        Raises OSError and EOFError if there is no supervisor.
        """
        channel = socket.socket(fileno=os.dup(_STDIN))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, _STDIN)
        os.close(null)
        try:
            spec = receive(channel)
        except BaseException:
            channel.close()
            raise
        return cls(
            index=spec["index"],
            ports=tuple(spec["ports"]),
            initial=_decode(spec["initial"]),
            current=_decode(spec["current"]),
            channel=channel,
        )

    def report(self, failure: str) -> None:
        """Report to the supervisor why this worker cannot start; needs no event loop."""
        with contextlib.suppress(OSError):
            self.channel.settimeout(1)
            self.channel.sendall(frame({"ask": "failed", "number": 0, "value": failure}))


def spec_message(
    index: int, ports: Sequence[int], initial: bytes | None, current: bytes | None
) -> dict[str, Any]:
    """Return the message that `WorkerSpec.receive` expects."""
    return {
        "index": index,
        "ports": list(ports),
        "initial": _encode(initial),
        "current": _encode(current),
    }


def _encode(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _decode(content: str | None) -> bytes | None:
    return None if content is None else base64.b64decode(content)
