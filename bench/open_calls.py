"""Calls of the open loop, with just enough HTTP/2 to ask and to distinguish answers from refusals.

It takes a tenth of the processor time of a gRPC client, and respects the server's limits as such
clients do: a call waits here while its connection has as many open calls as the server allows, or
no room for its message. Calls are cancelled at their deadline.
"""

import socket
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_TABLE_SIZE, _MAX_STREAMS, _STREAM_ROOM = b"\0\1", b"\0\3", b"\0\4"
_CANCEL: Final = (8).to_bytes(4)
_HEAD: Final = 9
_FRAME: Final = 16_384
"""The longest frame payload that every server accepts."""
_UNWRITTEN: Final = 1 << 20
"""The number of bytes waiting for the socket at which no more calls are sent."""
_WIDE: Final = 2**30
_UNBOUNDED: Final = 2**31
_TOO_MUCH: Final = (b"grpc-status\x018", b"\x9a\xca\xc8\xb2\x12\x34\xda\x8f\x81\x7b")
"""RESOURCE_EXHAUSTED as sent by gRPC and pygrpc-native to a client without a header table."""


@dataclass(slots=True)
class Heard:
    """The outcomes of the calls. Latencies are in milliseconds, for answered calls."""

    asked: int = 0
    refused: int = 0
    """The number of calls that ended with RESOURCE_EXHAUSTED."""
    dropped: int = 0
    """The number of calls that the server ended with another status."""
    late: int = 0
    """The number of calls sent and then cancelled at their deadline."""
    unsent: int = 0
    """The number of calls that waited here until their deadline because the server accepted no
    more.
    """
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    since_sent: list[float] = field(default_factory=list)
    """Latencies from the time of sending, without the wait here."""

    @property
    def answered_per_second(self) -> float:
        """The number of answered calls in each second."""
        return len(self.latencies) / self.seconds

    @property
    def unanswered(self) -> int:
        """The number of calls that got neither an answer nor a refusal."""
        return self.dropped + self.late + self.unsent


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return b"%b%c%c%b%b" % (len(payload).to_bytes(3), kind, flags, stream.to_bytes(4), payload)


def fields(method: str, service: str = "AccessService") -> bytes:
    """Return the headers of every call, uncompressed, with the timeout last."""
    every = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/queuegate.v1.{service}/{method}",
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(_field(name, value.encode()) for name, value in every.items())


def _field(name: str, value: bytes) -> bytes:
    return b"\0%c%b%c%b" % (len(name), name.encode(), len(value), value)


class _Due(NamedTuple):
    """The times when a call was due and when its message had been sent."""

    at: float
    sent: float


class Connection:
    """A connection and its calls."""

    def __init__(self, address: str, fields: bytes, deadline: float, heard: Heard) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # No header table: refusals can be recognized without one.
        settings = _STREAM_ROOM + _WIDE.to_bytes(4) + _TABLE_SIZE + (0).to_bytes(4)
        self.socket.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS, 0, 0, settings)
            + _frame(_WINDOW, 0, 0, _WIDE.to_bytes(4))
        )
        self.socket.setblocking(False)
        self._heard = heard
        self._fields = fields
        self._deadline = deadline
        self._open: dict[int, _Due] = {}
        """Calls sent, at least partly, by stream, in the order in which they were due."""
        self.held: deque[tuple[float, bytes]] = deque()
        """Calls not sent yet: when they were due, and their messages."""
        self._parts: dict[int, tuple[bytes, int]] = {}
        """The unsent rest of each partly sent message, and the room for it."""
        self._next = 1
        self._room = 65_535
        self._stream_room = 65_535
        self._most = 0
        """The number of concurrent calls that the server allows: none before its SETTINGS."""
        self._out = bytearray()
        self._in = bytearray()
        self.is_ending = False
        """Whether the server accepts no more calls on it."""

    @property
    def sent(self) -> int:
        """The number of calls that were sent, at least partly, and have not ended."""
        return len(self._open)

    def ask(self, message: bytes, due: float) -> None:
        self.held.append((due, b"\0" + len(message).to_bytes(4) + message))

    def send(self, now: float) -> None:
        self._give_up(now)
        for stream, (payload, room) in list(self._parts.items()):
            self._send_part(stream, payload, room, now)
        while self.held and self._room > 0 and not self.is_ending:
            if len(self._open) >= self._most or len(self._out) >= _UNWRITTEN:
                break
            due, payload = self.held.popleft()
            stream, self._next = self._next, self._next + 2
            left = b"%dm" % max(1, int((due + self._deadline - now) * 1000))
            fields = self._fields + _field("grpc-timeout", left)
            self._out += _frame(_HEADERS, _END_HEADERS, stream, fields)
            self._open[stream] = _Due(due, now)
            self._send_part(stream, payload, self._stream_room, now)
        if self._out:
            try:
                del self._out[: self.socket.send(self._out)]
            except (BlockingIOError, ConnectionError):  # reading reports the latter
                return

    def _send_part(self, stream: int, payload: bytes, room: int, now: float) -> None:
        """Send as much of a message as there is room for."""
        size = min(len(payload), room, self._room)
        if size > 0:
            for at in range(0, size, _FRAME):
                end = min(at + _FRAME, size)
                flags = _END_STREAM if end == len(payload) else 0
                self._out += _frame(_DATA, flags, stream, payload[at:end])
            self._room -= size
        if size < len(payload):
            self._parts[stream] = (payload[max(0, size) :], room - max(0, size))
        elif self._parts.pop(stream, None):
            self._open[stream] = _Due(self._open[stream].at, now)

    def _give_up(self, now: float) -> None:
        """End calls whose deadline has passed, as clients do."""
        latest = now - self._deadline
        while self.held and self.held[0][0] <= latest:
            self.held.popleft()
            self._heard.unsent += 1
        while self._open and (first := next(iter(self._open.items())))[1].at <= latest:
            stream = first[0]
            del self._open[stream]
            if self._parts.pop(stream, None):
                self._heard.unsent += 1
            else:
                self._heard.late += 1
            self._out += _frame(_RESET, 0, stream, _CANCEL)

    def receive(self) -> bool:
        """Process received data. Return False at the end of the connection."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError:
            data = b""
        self.is_ending |= not data
        now = time.perf_counter()
        self._in += data
        buffer, at = self._in, 0
        while len(buffer) - at >= _HEAD:
            length = int.from_bytes(buffer[at : at + 3])
            end = at + _HEAD + length
            if len(buffer) < end:
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + _HEAD])
            if kind == _DATA and length and stream in self._open:
                due = self._open.pop(stream)
                self._heard.latencies.append((now - due.at) * 1000)
                self._heard.since_sent.append((now - due.sent) * 1000)
            elif stream == 0:
                self._of_connection(kind, flags, bytes(buffer[at + _HEAD : end]))
            elif kind == _WINDOW:
                if (part := self._parts.get(stream)) is not None:
                    room = part[1] + int.from_bytes(buffer[at + _HEAD : end])
                    self._parts[stream] = (part[0], room)
            elif (kind == _HEADERS and flags & _END_STREAM) or kind == _RESET:
                self._refused(stream, bytes(buffer[at + _HEAD : end]))
            at = end
        del buffer[:at]
        return bool(data)

    def _refused(self, stream: int, fields: bytes) -> None:
        if self._open.pop(stream, None) is None:
            return
        self._parts.pop(stream, None)
        if any(status in fields for status in _TOO_MUCH):
            self._heard.refused += 1
        else:
            self._heard.dropped += 1

    def _of_connection(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == _WINDOW:
            self._room += int.from_bytes(payload)
        elif kind == _PING and not flags & _ACK:
            self._out += _frame(_PING, _ACK, 0, payload)
        elif kind == _SETTINGS and not flags & _ACK:
            self._out += _frame(_SETTINGS, _ACK, 0, b"")
            self._most = self._most or _UNBOUNDED
            for at in range(0, len(payload), 6):
                key, value = payload[at : at + 2], int.from_bytes(payload[at + 2 : at + 6])
                if key == _MAX_STREAMS:
                    self._most = value
                elif key == _STREAM_ROOM:
                    more, self._stream_room = value - self._stream_room, value
                    for stream, (rest, room) in self._parts.items():
                        self._parts[stream] = (rest, room + more)
        elif kind == _GOAWAY:
            # The server also ends a connection on which too many calls passed their deadline.
            self.is_ending = True
