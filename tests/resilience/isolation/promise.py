"""The promise of isolation: what a flood may do to others, and to the server's memory."""

import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.resilience.isolation import neighbour
from tests.support.servers.queuegate_server import RunningServer

MAX_P99 = 0.1
"""Seconds."""
MAX_FAILED = 0.01
MAX_MEMORY = 512 << 20
RUNAWAY = 4 << 30
"""Bytes: a server that holds more is ended, for the sake of the machine."""


@dataclass
class Observation:
    """What happened beside a flood."""

    peak: int = 0
    """The most memory that the server held, in bytes."""
    outcomes: dict[str, int] = field(default_factory=dict)
    p99: float = 0.0

    def __str__(self) -> str:
        return f"p99 {self.p99 * 1000:.1f} ms, {self.outcomes}, {self.peak >> 20} MiB"


@contextmanager
def observed(server: RunningServer) -> Iterator[Observation]:
    """Have a neighbour ask during the block, and watch the server's memory."""
    found = Observation()
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(server, found, ended))
    with subprocess.Popen(
        [sys.executable, "-m", neighbour.__name__, server.address, str(server.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as asking:
        assert asking.stdout
        try:
            assert asking.stdout.readline() == "asking\n"
            watcher.start()
            yield found
            output, _ = asking.communicate(timeout=100)
        finally:
            ended.set()
            asking.kill()
    watcher.join()
    report: dict[str, Any] = json.loads(output)
    found.outcomes = report["outcomes"]
    found.p99 = statistics.quantiles(report["latencies"], n=100)[98]


@contextmanager
def isolated(server: RunningServer, record: Callable[[str, object], None]) -> Iterator[Observation]:
    """Expect that what happens in the block leaves others their service."""
    with observed(server) as found:
        yield found
    record("beside the flood", str(found))
    calls = sum(found.outcomes.values())
    assert found.outcomes.get("wrong", 0) == 0, found
    assert calls - found.outcomes.get("answered", 0) <= MAX_FAILED * calls, found
    assert found.p99 < MAX_P99, found
    assert found.peak < MAX_MEMORY, found


def _watch(server: RunningServer, found: Observation, ended: threading.Event) -> None:
    while not ended.wait(0.01):
        try:
            found.peak = max(found.peak, server.memory())
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return
        if found.peak > RUNAWAY:
            server.process.kill()
