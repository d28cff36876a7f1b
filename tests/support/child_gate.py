"""A gate in a process of its own, which a test can suspend or kill."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.servers.processes import freeze

_CHILD = """
import sys, queuegate
with queuegate.Gate(sys.argv[1], name="the child", timeout=60) as gate:
    for line in sys.stdin:
        before = gate.decided
        allowed = gate.check(*line.split()).allowed
        print(allowed, gate.decided > before, flush=True)
"""


class Child:
    """A gate in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, user: str, queue: str) -> list[str]:
        """Return whether it is allowed, and whether the gate decided."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{user} {queue}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().split()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def freeze(self) -> None:
        freeze(self._process.pid)


@contextmanager
def child_gate(address: str) -> Iterator[Child]:
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Child(process)
        assert process.stdin
        process.stdin.close()
