"""Floods of long messages from a client that respects the server's flow control."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from queuegate_server.settings.limits import Limits
from tests.resilience import http2
from tests.resilience.http2 import ACK, DATA, HEADERS, SETTINGS, frame
from tests.resilience.isolation.floods import CHECK, MAX_STREAMS, RESET, SECONDS, numbers

WINDOW_UPDATE: Final = 8
INITIAL_WINDOW: Final = 4
"""The setting with the window of a new stream."""
WINDOW: Final = 65_535
"""The window of a connection, and of a stream unless the server says otherwise."""
PART: Final = bytes(16_384)
CONNECTIONS: Final = 4
LARGEST: Final = Limits().max_message


class Sender:
    """Sends a message of zeros on each stream of a connection, as far as the windows permit."""

    def __init__(self, connection: socket.socket, declared: int, length: int) -> None:
        """Begin the calls.

        Args:
            connection: A connection on which nothing but the settings was sent.
            declared: The length in the prefix of each message, in bytes.
            length: How much of each message is sent, in bytes.
        """
        self._connection = connection
        streams = numbers(MAX_STREAMS)
        self._left = dict.fromkeys(streams, length)
        self._windows = dict.fromkeys((0, *streams), WINDOW)
        self._initial = WINDOW
        self._changed = threading.Condition()
        self._is_open = True
        prefix = b"\0" + declared.to_bytes(4)
        for number in streams:
            self._windows[number] -= len(prefix)
            self._windows[0] -= len(prefix)
            connection.sendall(http2.headers(CHECK, number) + frame(DATA, 0, number, prefix))

    def send(self, end: float) -> None:
        """Send until a point in time, or until the server ends the connection."""
        reader = threading.Thread(target=self._read)
        reader.start()
        with contextlib.suppress(OSError):
            while (left := end - time.monotonic()) > 0 and self._is_open:
                with self._changed:
                    ready = [number for number in self._left if self._room(number)]
                    if not ready:
                        self._changed.wait(min(left, 0.1))
                for number in ready:
                    if size := self._room(number):
                        self._take(number, size)
                        self._connection.sendall(frame(DATA, 0, number, PART[:size]))
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        reader.join()

    def _room(self, number: int) -> int:
        room = min(len(PART), self._left[number], self._windows[number], self._windows[0])
        return max(0, room)

    def _take(self, number: int, size: int) -> None:
        with self._changed:
            self._left[number] -= size
            self._windows[number] -= size
            self._windows[0] -= size

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._connection.makefile("rb") as frames:
            while head := frames.read(9):
                payload = frames.read(int.from_bytes(head[:3]))
                self._note(head[3], head[4], int.from_bytes(head[5:9]), payload)
        self._is_open = False

    def _note(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        with self._changed:
            if kind == WINDOW_UPDATE and number in self._windows:
                self._windows[number] += int.from_bytes(payload)
            elif kind == SETTINGS and not flags & ACK:
                for begin in range(0, len(payload), 6):
                    if int.from_bytes(payload[begin : begin + 2]) == INITIAL_WINDOW:
                        initial = int.from_bytes(payload[begin + 2 : begin + 6])
                        for stream in self._left:
                            self._windows[stream] += initial - self._initial
                        self._initial = initial
                self._connection.sendall(frame(SETTINGS, ACK))
            elif number in self._left and kind in {HEADERS, RESET}:  # the call has ended
                self._left[number] = 0
            self._changed.notify()


def _on_connections(address: str, declared: int, length: int) -> None:
    end = time.monotonic() + SECONDS

    def send() -> None:
        with (
            contextlib.suppress(OSError),
            http2.connected(address, http2.BEGIN) as connection,
        ):
            Sender(connection, declared, length).send(end)

    senders = [threading.Thread(target=send) for _ in range(CONNECTIONS)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


def messages_over_the_limit(address: str) -> None:
    """Send messages of a gigabyte."""
    _on_connections(address, 1 << 30, 1 << 30)


def messages_without_an_end(address: str) -> None:
    """Send all but the last byte of messages of the largest size, and then nothing."""
    _on_connections(address, LARGEST, LARGEST - 1)


MESSAGE_FLOODS: Final[dict[str, Callable[[str], None]]] = {
    each.__name__: each for each in (messages_over_the_limit, messages_without_an_end)
}
