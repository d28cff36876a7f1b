"""A load generator that asks at a fixed rate, however long the answers take.

It speaks just enough HTTP/2 to ask single calls and to tell answers from refusals, in a
tenth of the processor time that a gRPC client needs: generator and server share a machine,
and one that is late itself would blame the server. It keeps to what the server allows, as
clients do: a call waits here while as many as may be are open on its connection, or while
there is no room for its message. A call whose deadline passes is cancelled. Latencies are
counted from the moment at which the call was due.
"""

import argparse
import json
import select
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final, NamedTuple

from bench.command import CannotMeasure
from bench.questions import undelimited

_CONNECTIONS: Final = 8
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_TABLE_SIZE, _MOST_STREAMS, _STREAM_ROOM = b"\0\1", b"\0\3", b"\0\4"
_CANCEL: Final = (8).to_bytes(4)
_HEAD: Final = 9
_FRAME: Final = 16_384
"""The longest payload of a frame that every server takes."""
_UNWRITTEN: Final = 1 << 20
"""So many bytes may wait for the socket before more of them are made."""
_LAST_ANSWERS: Final = 2.0
"""Seconds after the last deadline, for the last word of the server."""
_WIDE: Final = 2**30
_TOO_MUCH: Final = (b"grpc-status\x018", b"\x9a\xca\xc8\xb2\x12\x34\xda\x8f\x81\x7b")
"""RESOURCE_EXHAUSTED, as gRPC and as pygrpc-native write it where no table is kept."""


class Rate(NamedTuple):
    """Calls per second for some time; with a rate of 0, so many calls at once instead."""

    per_second: float
    seconds: float
    at_once: int = 0


@dataclass(slots=True)
class Heard:
    """What became of the calls. Latencies in milliseconds, of what was answered."""

    asked: int = 0
    refused: int = 0
    """How many ended with RESOURCE_EXHAUSTED."""
    dropped: int = 0
    """How many the server ended with another status."""
    late: int = 0
    """How many were sent, and cancelled when their deadline passed."""
    unsent: int = 0
    """How many waited here until then, because the server let no more be sent."""
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    since_sent: list[float] = field(default_factory=list)
    """The same from when a call had been sent, which leaves out what it waited here."""

    @property
    def answered_per_second(self) -> float:
        """How many calls got an answer, each second."""
        return len(self.latencies) / self.seconds

    @property
    def unanswered(self) -> int:
        """How many calls got neither an answer nor a refusal."""
        return self.dropped + self.late + self.unsent


def run(
    address: str, data: Path, rate: Rate, deadline: float, method: str = "CheckQueueAccess"
) -> Heard:
    """Ask a server in a process of its own. Raises CannotMeasure."""
    command = [sys.executable, "-m", "bench.open_loop", address, str(data)]
    command += [f"--rate={rate.per_second}", f"--seconds={rate.seconds}"]
    command += [f"--at-once={rate.at_once}", f"--deadline={deadline}", f"--method={method}"]
    root = Path(__file__).parents[1]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    if told.returncode:
        raise CannotMeasure(f"the open loop failed: {told.stderr[-1000:]}")
    return Heard(**json.loads(told.stdout))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return b"%b%c%c%b%b" % (len(payload).to_bytes(3), kind, flags, stream.to_bytes(4), payload)


def _fields(method: str) -> bytes:
    """Return the headers of every call, without compression; the timeout comes last."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/queuegate.v1.AccessService/{method}",
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(_field(name, value.encode()) for name, value in fields.items())


def _field(name: str, value: bytes) -> bytes:
    return b"\0%c%b%c%b" % (len(name), name.encode(), len(value), value)


class _Due(NamedTuple):
    """When a call was due, and when its message had been sent."""

    at: float
    sent: float


class _Connection:
    """One connection and the calls on it."""

    def __init__(self, address: str, fields: bytes, deadline: float, heard: Heard) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # No table of headers: what a refusal says can be told without keeping one.
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
        """Calls that were sent, or begun to be, by stream; in the order in which they were due."""
        self._held: deque[tuple[float, bytes]] = deque()
        self._parts: dict[int, tuple[bytes, int]] = {}
        """What is left to send of messages that were begun, and for how much there is room."""
        self._next = 1
        self._room = 65_535
        self._stream_room = 65_535
        self._most = 2**31
        self._out = bytearray()
        self._in = bytearray()
        self.is_ending = False
        """Whether the server takes no more calls on it."""

    @property
    def waiting(self) -> int:
        """How many calls have not ended."""
        return len(self._open) + len(self._held)

    def ask(self, message: bytes, due: float) -> None:
        self._held.append((due, b"\0" + len(message).to_bytes(4) + message))

    def send(self, now: float) -> None:
        self._give_up(now)
        for stream, (payload, room) in list(self._parts.items()):
            self._send_part(stream, payload, room, now)
        while self._held and self._room > 0 and not self.is_ending:
            if len(self._open) >= self._most or len(self._out) >= _UNWRITTEN:
                break
            due, payload = self._held.popleft()
            stream, self._next = self._next, self._next + 2
            left = b"%dm" % max(1, int((due + self._deadline - now) * 1000))
            fields = self._fields + _field("grpc-timeout", left)
            self._out += _frame(_HEADERS, _END_HEADERS, stream, fields)
            self._open[stream] = _Due(due, now)
            self._send_part(stream, payload, self._stream_room, now)
        if self._out:
            try:
                del self._out[: self.socket.send(self._out)]
            except (BlockingIOError, ConnectionError):  # reading tells of the latter
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
        while self._held and self._held[0][0] <= latest:
            self._held.popleft()
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
        """Take what has come; return False if it is the last."""
        data = self.socket.recv(1 << 18)
        if not data and not self.is_ending:
            raise CannotMeasure("the server closed a connection")
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
            for at in range(0, len(payload), 6):
                key, value = payload[at : at + 2], int.from_bytes(payload[at + 2 : at + 6])
                if key == _MOST_STREAMS:
                    self._most = value
                elif key == _STREAM_ROOM:
                    more, self._stream_room = value - self._stream_room, value
                    for stream, (rest, room) in self._parts.items():
                        self._parts[stream] = (rest, room + more)
        elif kind == _GOAWAY:
            # As it does where too many calls of one passed their deadline.
            self.is_ending = True


class _Connections:
    """Several connections, each replaced once the server ends it."""

    def __init__(self, address: str, fields: bytes, deadline: float, heard: Heard) -> None:
        self._make = partial(_Connection, address, fields, deadline, heard)
        self._heard = heard
        self._poll = select.poll()
        self._open: dict[int, _Connection] = {}
        self._asking = [self._opened() for _ in range(_CONNECTIONS)]

    @property
    def waiting(self) -> int:
        return sum(each.waiting for each in self._open.values())

    def ask(self, number: int, message: bytes, due: float) -> None:
        place = number % _CONNECTIONS
        if self._asking[place].is_ending:
            self._asking[place] = self._opened()
        self._asking[place].ask(message, due)

    def exchange(self) -> None:
        """Send what is to be sent, and take what has come."""
        now = time.perf_counter()
        for each in self._open.values():
            each.send(now)
        for descriptor, _ in self._poll.poll(0):
            if not self._open[descriptor].receive():
                self._poll.unregister(descriptor)
                ended = self._open.pop(descriptor)
                ended.socket.close()
                self._heard.dropped += ended.waiting

    def close(self) -> None:
        for each in self._open.values():
            each.socket.close()
        self._heard.dropped += self.waiting

    def _opened(self) -> _Connection:
        made = self._make()
        self._open[made.socket.fileno()] = made
        self._poll.register(made.socket, select.POLLIN)
        return made


def ask(address: str, messages: list[bytes], rate: Rate, deadline: float, method: str) -> Heard:
    """Ask until the time is over, and wait for the last answers."""
    heard = Heard()
    connections = _Connections(address, _fields(method), deadline, heard)
    questions = cycle(messages)
    begin = time.perf_counter()
    end = begin + rate.seconds
    stop = end + deadline + _LAST_ANSWERS
    while (now := time.perf_counter()) < stop:
        if now < end:
            if rate.per_second:
                due = int((now - begin) * rate.per_second) + 1
            else:
                due = heard.asked + rate.at_once - connections.waiting
            while heard.asked < due:
                at = begin + heard.asked / rate.per_second if rate.per_second else now
                connections.ask(heard.asked, next(questions), at)
                heard.asked += 1
        elif not connections.waiting:
            break
        connections.exchange()
    connections.close()
    heard.seconds = rate.seconds
    return heard


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("data", type=Path)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--at-once", type=int, default=0)
    parser.add_argument("--deadline", type=float, default=1.0)
    parser.add_argument("--method", default="CheckQueueAccess")
    given = parser.parse_args()
    rate = Rate(given.rate, given.seconds, given.at_once)
    messages = undelimited(given.data.read_bytes())
    print(json.dumps(asdict(ask(given.address, messages, rate, given.deadline, given.method))))


if __name__ == "__main__":
    _main()
