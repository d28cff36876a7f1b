"""A shim that makes 20,000 checks per second with a gate, through two outages.

First the directory is killed for minutes, then the server for half a minute. Both come back. One
thread asks, in steps of a millisecond, about users whose groups the directory resolved before. A
quick run shortens the phases and the lifetime of groups alike, so that groups expire there as well.
"""

import gc
import itertools
import statistics
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import queuegate
from bench.big_directory import BigDirectory, Size, big_directory, groups_of, user
from bench.command import CannotMeasure, Scale, main
from bench.processes import cpu_seconds
from bench.results import Part, Table, Target
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import RunningServer, running_server

_USERS: Final = 5_000
_GROUPS: Final = 500
_GROUP: Final = 7
_QUEUE: Final = "root.team"
_RATE: Final = 20_000
_STEPS: Final = 1_000
"""The number of steps per second."""
_TTL: Final = 60.0
"""The lifetime of groups in seconds, so that all expire while the directory is down."""
_QUICK: Final = 0.05
"""The fraction of all times, and of the users, in a quick run."""
_STALE: Final = 60.0
"""The seconds for which the gate decides while it cannot reach the server."""
_GOAL_MILLISECONDS: Final = 1.0


@dataclass(slots=True)
class _Phase:
    name: str
    seconds: float
    latencies: "array[float]" = field(default_factory=lambda: array("d"))
    wrong: int = 0
    failed: int = 0
    decided: int = 0
    """By the gate, without the server."""
    behind: float = 0.0
    """The maximum delay of a step, in seconds."""
    of_gate: float = 0.0
    of_server: float | None = None
    """Seconds of processor time of this process and of the server."""


class _Server:
    """The server, which can be killed and restarted at its address."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._listen = f"127.0.0.1:{free_port()}"
        self.start()

    def start(self) -> None:
        self._running = running_server("--config", str(self._config), listen=(self._listen,))
        self.server: RunningServer = self._running.__enter__()

    def kill(self) -> None:
        self.server.process.kill()
        self._running.__exit__(None, None, None)


def measure(scale: Scale, folder: Path) -> Part:
    """Ask continuously while the directory and then the server are killed and return."""
    factor = _QUICK if scale.is_quick else 1.0
    size = Size(int(_USERS * factor), _GROUPS)
    phases = [
        _Phase("both answer", 90 * factor),
        _Phase("no directory", 240 * factor),
        _Phase("both again", 120 * factor),
        _Phase("no server", 30 * factor),
        _Phase("both once more", 120 * factor),
    ]
    with big_directory(folder, size) as directory:
        server = _Server(_configuration(directory, folder, _TTL * factor))
        try:
            with queuegate.Gate(server.server.address, timeout=5, stale=_STALE) as gate:
                _run(gate, directory, server, phases)
        finally:
            server.kill()
    return _part(phases, size, _TTL * factor)


def _configuration(directory: BigDirectory, folder: Path, ttl: float) -> Path:
    policy = folder / "queues.yaml"
    policy.write_text(
        "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n"
        f'          - {{name: team, submitacl: " g{_GROUP}"}}\n'
    )
    file = folder / "queuegate.yaml"
    file.write_text(
        f"policy: {{path: {policy}}}\n"
        f"resolvers: {{corp: {directory.resolver()}}}\n"
        f"partitions: {{default: {{resolver: corp, cache: {{positive_ttl: {ttl:g}s}}}}}}\n"
    )
    return file


def _run(
    gate: queuegate.Gate, directory: BigDirectory, server: _Server, phases: list[_Phase]
) -> None:
    size = directory.size
    users = [user(number) for number in range(size.users)]
    expected = [_GROUP in groups_of(number, size) for number in range(size.users)]
    for each in users:
        gate.check(each, _QUEUE)
    end = time.monotonic() + 60
    while gate.state is not queuegate.GateState.LIVE:
        if time.monotonic() > end:
            raise CannotMeasure("the gate did not become live")
        time.sleep(0.05)
    gc.collect()
    gc.freeze()
    happens = (None, directory.slapd.kill, directory.slapd.start, server.kill, server.start)
    questions = itertools.cycle(zip(users, expected, strict=True))
    for phase, change in zip(phases, happens, strict=True):
        if change is not None:
            change()
        process = server.server.process
        is_running = process.poll() is None
        before, start = gate.decided, time.process_time()
        of_server = cpu_seconds(process.pid) if is_running else 0.0
        _ask(gate, questions, phase)
        phase.decided, phase.of_gate = gate.decided - before, time.process_time() - start
        if is_running:
            phase.of_server = cpu_seconds(process.pid) - of_server


def _ask(gate: queuegate.Gate, questions: Iterator[tuple[str, bool]], phase: _Phase) -> None:
    begin = time.perf_counter()
    for step in range(int(phase.seconds * _STEPS)):
        late = time.perf_counter() - begin - step / _STEPS
        if late < 0:
            time.sleep(-late)
        phase.behind = max(phase.behind, late)
        for name, expected in itertools.islice(questions, _RATE // _STEPS):
            start = time.perf_counter()
            try:
                decision = gate.check(name, _QUEUE)
            except queuegate.QueuegateError:
                phase.failed += 1
            else:
                phase.wrong += decision.allowed is not expected
            phase.latencies.append(time.perf_counter() - start)


def _part(phases: list[_Phase], size: Size, ttl: float) -> Part:
    table = Table(
        f"A gate asked {_RATE:,} times a second, without its directory and without its server",
        f"One Python thread asks a `queuegate.Gate` about {size.users:,} users of a directory, "
        f"whose groups live for {ttl:g} s; the gate may decide for {_STALE:.0f} s without its "
        "server (`stale`). Milliseconds of a call; by how much later than it should a step of "
        f"{_RATE // _STEPS} calls began at most. Processor time of the asking process, with its "
        "gate, and of the server, of one core.",
        ("phase", "seconds", "checks", "decided by the gate", "p50", "p99", "longest",
         "begun late", "processor, asking", "processor, server", "wrong", "failed"),
    )  # fmt: skip
    for phase in phases:
        cuts = statistics.quantiles(phase.latencies, n=100)
        table.add(
            phase.name, f"{phase.seconds:.0f}", f"{len(phase.latencies):,}",
            f"{phase.decided / len(phase.latencies):.2%}", f"{cuts[49] * 1000:.4f}",
            f"{cuts[98] * 1000:.4f}", f"{max(phase.latencies) * 1000:,.1f}",
            f"{phase.behind * 1000:,.0f}", f"{phase.of_gate / phase.seconds:.0%}",
            "" if phase.of_server is None else f"{phase.of_server / phase.seconds:.0%}",
            str(phase.wrong), str(phase.failed),
        )  # fmt: skip
    every = array("d")
    for phase in phases:
        every.extend(phase.latencies)
    p99 = statistics.quantiles(every, n=100)[98] * 1000
    failed, wrong = sum(one.failed for one in phases), sum(one.wrong for one in phases)
    return Part(
        [table],
        [
            Target("checks of a gate that failed in two outages", "0", str(failed), failed == 0),
            Target("wrong answers of a gate in two outages", "0", str(wrong), wrong == 0),
            Target(
                "a check of a gate in two outages, p99", "under 1 ms", f"{p99:.3f} ms",
                p99 < _GOAL_MILLISECONDS,
            ),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main(measure, __doc__)
