"""Floods of HTTP/2 frames that carry no call."""

import contextlib
import time
from collections.abc import Callable
from typing import Final

from bench.open_calls import fields
from tests.resilience import http2
from tests.resilience.http2 import HEADERS, PING, SETTINGS, frame
from tests.resilience.isolation.floods import CHECK, SECONDS, connection

CONTINUATION: Final = 9
SILENT: Final = 300
"""Connections that fall silent."""
DEAF: Final = 50
"""Connections that read nothing."""


def _repeated(address: str, frames: bytes, begin: bytes = b"") -> None:
    """Send the same frames over and over, until the server ends the connection."""
    end = time.monotonic() + SECONDS
    with connection(address) as connected:
        connected.sendall(begin)
        while time.monotonic() < end:
            connected.sendall(frames)


def pings(address: str) -> None:
    """Send pings without a pause."""
    _repeated(address, PING * 1_000)


def settings(address: str) -> None:
    """Change a setting without a pause."""
    _repeated(address, frame(SETTINGS, payload=b"\0\4\0\0\xff\xff") * 1_000)


def headers_without_an_end(address: str) -> None:
    """Continue the headers of one call without an end."""
    part = frame(CONTINUATION, 0, 1, b"\0\1x\x7f\x81\x7d" + bytes(16_000))
    _repeated(address, part, frame(HEADERS, 0, 1, fields(CHECK)))


def pongs_unread(address: str) -> None:
    """Send pings on many connections, and read nothing."""
    with contextlib.ExitStack() as stack:
        for _ in range(DEAF):
            connected = stack.enter_context(http2.connected(address, http2.BEGIN))
            connected.settimeout(SECONDS / DEAF)
            with contextlib.suppress(OSError):
                for _ in range(1_000):
                    connected.sendall(PING * 1_000)
            time.sleep(SECONDS / DEAF)


def half_open(address: str) -> None:
    """Connect, begin something on each connection, and fall silent."""
    with contextlib.ExitStack() as stack:
        for number in range(SILENT):
            half = [*http2.HALVES.values()][number % len(http2.HALVES)]
            with contextlib.suppress(OSError):
                stack.enter_context(http2.connected(address, half))
            time.sleep(SECONDS / SILENT)


FRAME_FLOODS: Final[dict[str, Callable[[str], None]]] = {
    each.__name__: each
    for each in (pings, settings, headers_without_an_end, pongs_unread, half_open)
}
