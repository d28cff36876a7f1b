"""The promise of isolation: what a flood may do to others, and to the server's memory."""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from tests.resilience.invariants import Record
from tests.resilience.isolation import neighbour
from tests.support.memory_limit import limited_memory
from tests.support.servers.queuegate_server import RunningServer

MAX_P99 = 0.1
"""Seconds."""
MAX_FAILED = 0.01
MAX_MEMORY = 512 << 20
RUNAWAY = 4 << 30
"""Bytes: a server that holds more is ended, for the sake of the machine."""
ATTEMPTS = 5
"""A flood that takes the service takes it each time; a busy machine does not."""
MIN_CALLS = 100
MAX_OTHERS = 0.25
"""The share of the processors that programs other than these tests may take in an attempt whose
latency counts. Beside a busy program, memory and failures count only.
"""
SETTLING = 0.5


class Observation:
    """A server, and a neighbour who asks it."""

    def __init__(self, server: RunningServer, asking: "subprocess.Popen[str]") -> None:
        self.server = server
        self.peak = 0
        """The most memory that the server and its children have held since the last flood began, in
        bytes."""
        self.ended = threading.Event()
        self._asking = asking
        self._watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._watcher.join()

    def report(self) -> dict[str, Any]:
        """Return what the neighbour has seen since the last report."""
        assert self._asking.stdin
        assert self._asking.stdout
        self._asking.stdin.write("\n")
        self._asking.stdin.flush()
        report: dict[str, Any] = json.loads(self._asking.stdout.readline())
        return report

    def _watch(self) -> None:
        while not self.ended.wait(0.01):
            try:
                self.peak = max(self.peak, self.server.memory_of_all())
            except (FileNotFoundError, ProcessLookupError, IndexError):
                return
            if self.peak > RUNAWAY:
                self.server.process.kill()


@contextmanager
def observed(
    server: RunningServer,
    address: str = "",
    authority: Path | None = None,
    queues: Sequence[str] = (),
    max_memory: int = MAX_MEMORY,
) -> Iterator[Observation]:
    """Have a neighbour ask during the block, and watch the server's memory. Where the machine lets
    us, a cgroup bounds that, too, and includes the memory of child processes and of sockets.

    Args:
        server: The process.
        address: Where it answers, if not where it says.
        authority: Of a webhook's certificate; None for a server of the gRPC API.
        queues: The queues to ask about in turn, each of which admits alice. By default one that
            admits everybody, so that groups do not matter.
        max_memory: The limit of the cgroup, in bytes.
    """
    with subprocess.Popen(
        [
            *(sys.executable, "-m", neighbour.__name__, address or server.address),
            *(str(server.pid), str(authority or ""), *queues),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as asking:
        try:
            with limited_memory(server.pid, max_memory), Observation(server, asking) as found:
                while not found.report()["outcomes"]:
                    time.sleep(SETTLING)
                yield found
        finally:
            asking.kill()


def processor_time() -> tuple[int, int]:
    """Return how many ticks of the processors programs have taken that do not belong to these
    tests, and how many there were in all.
    """
    taken = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle, waiting = taken[3:5]
    ours = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == os.getpgrp():
                ours += sum(map(int, fields[11:15]))
    return sum(taken) - idle - waiting - ours, sum(taken)


def expect_isolation(
    found: Observation,
    record: Record,
    flood: Callable[[], None],
    max_memory: int = MAX_MEMORY,
) -> None:
    """Expect that a flood leaves others their service, and the server its memory, in bytes."""
    for attempt in range(1, ATTEMPTS + 1):
        found.report()
        found.peak = 0
        before = processor_time()
        flood()
        time.sleep(SETTLING)
        report = found.report()
        others, everything = (
            now - then for now, then in zip(processor_time(), before, strict=True)
        )
        is_busy = others > MAX_OTHERS * everything
        outcomes, latencies = report["outcomes"], report["latencies"]
        calls, answered = sum(outcomes.values()), outcomes.get("answered", 0)
        p99 = statistics.quantiles(latencies, n=100)[98] if len(latencies) > 1 else float("inf")
        seen = f"p99 {p99 * 1000:.1f} ms, {outcomes}, {found.peak >> 20} MiB"
        if is_busy:
            seen += f", {others / everything:.0%} of the processors taken by others"
        record("beside the flood", seen)
        assert found.peak < max_memory, seen
        assert outcomes.get("wrong", 0) == 0, seen
        assert calls >= MIN_CALLS, seen
        if (p99 < MAX_P99 or is_busy) and calls - answered <= MAX_FAILED * calls:
            return
        assert attempt < ATTEMPTS, seen
