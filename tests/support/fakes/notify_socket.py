"""The service manager's end of a server's notifications."""

import select
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self


class NotifySocket:
    """Receives what a server sends to `NOTIFY_SOCKET`: a path, or an abstract name starting with
    `@`.
    """

    def __init__(self, address: str) -> None:
        self.environment = {"NOTIFY_SOCKET": address}
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.received: list[str] = []

    def __enter__(self) -> Self:
        self._socket.bind(self._address.replace("@", "\0", 1))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
        if not self._address.startswith("@"):
            Path(self._address).unlink()

    def count(self, text: str) -> int:
        """Return how often a state has been received so far."""
        while select.select([self._socket], [], [], 0)[0]:
            self.received.append(self._socket.recv(4096).decode())
        return sum(text in states for states in self.received)

    def wait_for(self, text: str, *, count: int = 1, seconds: float = 60) -> None:
        """Wait until a state has been received `count` times."""
        end = time.monotonic() + seconds
        while sum(text in states for states in self.received) < count:
            assert time.monotonic() < end, (
                f"{text!r} was not received {count} times: {self.received}"
            )
            if select.select([self._socket], [], [], 0.1)[0]:
                self.received.append(self._socket.recv(4096).decode())
