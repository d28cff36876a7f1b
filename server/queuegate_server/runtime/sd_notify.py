"""Sends status notifications to systemd (`Type=notify`).

https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

SOCKET: Final = "NOTIFY_SOCKET"
_MICROSECONDS: Final = 1_000_000


class Notifier:
    """Notifies the service manager, if there is one. Never blocks and never raises."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        """Read the socket and the watchdog interval from the environment."""
        self._address = _address(variables.get(SOCKET, ""))
        self._watchdog = _watchdog(variables) if self._address else None

    def ready(self) -> None:
        """Report that the service is ready, after a start or a reload."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Report that a reload has started; `ready` reports its completion."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now}")

    def stopping(self) -> None:
        """Report that the service is stopping."""
        self._send("STOPPING=1")

    async def keep_alive(self) -> None:
        """Until cancelled, report twice per watchdog interval that the event loop is running."""
        while self._watchdog is not None:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._watchdog / 2)

    def _send(self, state: str) -> None:
        if self._address is None:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.setblocking(False)
            sender.connect(self._address)
            sender.send(state.encode())


def _address(text: str) -> str | None:
    """Return the socket's address; None if there is none. `@` denotes an abstract socket."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else None


def _watchdog(variables: Mapping[str, str]) -> float | None:
    """Return the watchdog interval in seconds; None if no watchdog monitors this process."""
    pid = str(os.getpid())
    interval = variables.get("WATCHDOG_USEC", "")
    is_other = variables.get("WATCHDOG_PID", pid) != pid
    if is_other or not (interval.isascii() and interval.isdigit()):
        return None
    return int(interval) / _MICROSECONDS or None
