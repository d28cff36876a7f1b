"""A load generator that asks at a fixed rate, however long the answers take.

Generator and server share a machine, and a late generator would blame the server, so it runs in a
separate process. Latencies are measured from the time at which a call was due.
"""

import argparse
import json
import select
import subprocess
import sys
import time
from dataclasses import asdict
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final, NamedTuple

from bench.command import CannotMeasure
from bench.open_calls import Connection, Heard, fields
from bench.questions import undelimited

_CONNECTIONS: Final = 8
_LAST_ANSWERS: Final = 2.0
"""The seconds after the last deadline in which the server may still respond."""


class Rate(NamedTuple):
    """Calls per second for some time. With a rate of 0, `at_once` concurrent calls instead."""

    per_second: float
    seconds: float
    at_once: int = 0


def run(
    address: str, data: Path, rate: Rate, deadline: float, method: str = "CheckQueueAccess"
) -> Heard:
    """Ask a server from a separate process. Raises CannotMeasure."""
    command = [sys.executable, "-m", "bench.open_loop", address, str(data)]
    command += [f"--rate={rate.per_second}", f"--seconds={rate.seconds}"]
    command += [f"--at-once={rate.at_once}", f"--deadline={deadline}", f"--method={method}"]
    root = Path(__file__).parents[1]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    if told.returncode:
        raise CannotMeasure(f"the open loop failed: {told.stderr[-1000:]}")
    return Heard(**json.loads(told.stdout))


class _Connections:
    """Several connections, each replaced when the server ends it."""

    def __init__(self, address: str, fields: bytes, deadline: float, heard: Heard) -> None:
        self._make = partial(Connection, address, fields, deadline, heard)
        self._heard = heard
        self._poll = select.poll()
        self._open: dict[int, Connection] = {}
        self._asking = [self._opened() for _ in range(_CONNECTIONS)]

    @property
    def waiting(self) -> int:
        """The number of calls that have not ended."""
        sent = sum(each.sent for each in self._open.values())
        return sent + sum(len(each.held) for each in self._asking)

    def ask(self, number: int, message: bytes, due: float) -> None:
        self._asking[number % _CONNECTIONS].ask(message, due)

    def exchange(self) -> None:
        """Send pending data, and process received data."""
        now = time.perf_counter()
        for place, each in enumerate(self._asking):
            if each.is_ending:
                self._asking[place] = self._opened()
                self._asking[place].held, each.held = each.held, self._asking[place].held
        for each in self._open.values():
            each.send(now)
        for descriptor, _ in self._poll.poll(0):
            if not self._open[descriptor].receive():
                self._poll.unregister(descriptor)
                ended = self._open.pop(descriptor)
                ended.socket.close()
                self._heard.dropped += ended.sent

    def close(self) -> None:
        for each in self._open.values():
            each.socket.close()
        self._heard.dropped += self.waiting

    def _opened(self) -> Connection:
        connection = self._make()
        self._open[connection.socket.fileno()] = connection
        self._poll.register(connection.socket, select.POLLIN)
        return connection


def ask(address: str, messages: list[bytes], rate: Rate, deadline: float, method: str) -> Heard:
    """Ask until the time is up, and wait for the last answers."""
    heard = Heard()
    connections = _Connections(address, fields(method), deadline, heard)
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
    options = parser.parse_args()
    rate = Rate(options.rate, options.seconds, options.at_once)
    messages = undelimited(options.data.read_bytes())
    print(
        json.dumps(asdict(ask(options.address, messages, rate, options.deadline, options.method)))
    )


if __name__ == "__main__":
    _main()
