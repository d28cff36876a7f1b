"""A load generator that asks at a fixed rate, however long the answers take.

It speaks just enough HTTP/2 to ask single checks and to tell answers from refusals, in a
tenth of the processor time that a gRPC client needs: generator and server share a machine,
and one that is late itself would blame the server. An answer has a message, a refusal has
only headers, which are not looked into. A latency is counted from the moment at which the
call was due.
"""

import argparse
import json
import select
import socket
import subprocess
import sys
import time
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
_MAX_CONCURRENT_STREAMS = b"\0\3"
_HEAD: Final = 9
_LAST_ANSWERS: Final = 2.0
"""Seconds after the last deadline, for the last word of the server."""
_WIDE: Final = 2**30


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
    unanswered: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def answered_per_second(self) -> float:
        """How many calls got an answer, each second."""
        return len(self.latencies) / self.seconds


def run(
    address: str, data: Path, rate: Rate, deadline: float, method: str = "CheckQueueAccess"
) -> Heard:
    """Ask a server in a process of its own. Messages must fit into a frame (16 KiB). Raises
    CannotMeasure.
    """
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


def _fields(method: str, deadline: float) -> bytes:
    """Return the headers of every call, without compression."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/queuegate.v1.AccessService/{method}",
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
        "grpc-timeout": f"{deadline * 1000:.0f}m",
    }
    return b"".join(
        b"\0%c%b%c%b" % (len(name), name.encode(), len(value), value.encode())
        for name, value in fields.items()
    )


class _Connection:
    """One connection and the calls on it."""

    def __init__(self, address: str, fields: bytes, heard: Heard) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        settings = (4).to_bytes(2) + _WIDE.to_bytes(4)
        self.socket.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS, 0, 0, settings)
            + _frame(_WINDOW, 0, 0, _WIDE.to_bytes(4))
        )
        self.socket.setblocking(False)
        self.waiting: dict[int, float] = {}
        """When calls without an answer were due, by stream."""
        self._heard = heard
        self._fields = fields
        self._next = 1
        self._room = 65_535
        """How many bytes of requests the server lets us send."""
        self._held: list[tuple[int, bytes]] = []
        self._most = 2**31
        """How many calls at once the server lets us make."""
        self._out = bytearray()
        self._in = bytearray()
        self.is_ending = False
        """Whether the server takes no more calls on it."""

    def ask(self, message: bytes, due: float) -> None:
        stream, self._next = self._next, self._next + 2
        self.waiting[stream] = due
        self._held.append((stream, b"\0" + len(message).to_bytes(4) + message))

    def send(self) -> None:
        taken = 0
        most = self._most - (len(self.waiting) - len(self._held))
        for stream, payload in self._held:
            if self._room < len(payload) or taken >= most:
                break
            self._room -= len(payload)
            self._out += _frame(_HEADERS, _END_HEADERS, stream, self._fields)
            self._out += _frame(_DATA, _END_STREAM, stream, payload)
            taken += 1
        del self._held[:taken]
        if self._out:
            try:
                del self._out[: self.socket.send(self._out)]
            except BlockingIOError:
                return

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
            if len(buffer) - at < _HEAD + length:
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + _HEAD])
            if kind == _DATA and length and stream in self.waiting:
                self._heard.latencies.append((now - self.waiting.pop(stream)) * 1000)
            elif (kind == _HEADERS and flags & _END_STREAM) or kind == _RESET:
                self._heard.refused += self.waiting.pop(stream, None) is not None
            elif stream == 0:
                self._of_connection(kind, flags, bytes(buffer[at + _HEAD : at + _HEAD + length]))
            at += _HEAD + length
        del buffer[:at]
        return bool(data)

    def _of_connection(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == _WINDOW:
            self._room += int.from_bytes(payload)
        elif kind == _PING and not flags & _ACK:
            self._out += _frame(_PING, _ACK, 0, payload)
        elif kind == _SETTINGS and not flags & _ACK:
            self._out += _frame(_SETTINGS, _ACK, 0, b"")
            for at in range(0, len(payload), 6):
                if payload[at : at + 2] == _MAX_CONCURRENT_STREAMS:
                    self._most = int.from_bytes(payload[at + 2 : at + 6])
        elif kind == _GOAWAY:
            # As it does where too many calls of one passed their deadline.
            self.is_ending = True


class _Connections:
    """Several connections, each replaced once the server ends it."""

    def __init__(self, address: str, fields: bytes, heard: Heard) -> None:
        self._make = partial(_Connection, address, fields, heard)
        self._poll = select.poll()
        self._open: dict[int, _Connection] = {}
        self._asking = [self._opened() for _ in range(_CONNECTIONS)]
        self._lost = 0

    @property
    def waiting(self) -> int:
        return sum(len(each.waiting) for each in self._open.values())

    def ask(self, number: int, message: bytes, due: float) -> None:
        place = number % _CONNECTIONS
        if self._asking[place].is_ending:
            self._asking[place] = self._opened()
        self._asking[place].ask(message, due)

    def exchange(self) -> None:
        """Send what is to be sent, and take what has come."""
        for each in self._asking:
            if not each.is_ending:
                each.send()
        for descriptor, _ in self._poll.poll(0):
            if not self._open[descriptor].receive():
                self._poll.unregister(descriptor)
                ended = self._open.pop(descriptor)
                ended.socket.close()
                self._lost += len(ended.waiting)

    def close(self) -> int:
        """Return how many calls have no answer."""
        for each in self._open.values():
            each.socket.close()
        return self._lost + self.waiting

    def _opened(self) -> _Connection:
        made = self._make()
        self._open[made.socket.fileno()] = made
        self._poll.register(made.socket, select.POLLIN)
        return made


def ask(address: str, messages: list[bytes], rate: Rate, deadline: float, method: str) -> Heard:
    """Ask until the time is over, and wait for the last answers."""
    heard = Heard()
    connections = _Connections(address, _fields(method, deadline), heard)
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
    heard.unanswered = connections.close()
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
