"""Measures one, two and four workers under ghz: the gain from more processes on this machine."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from bench import policies, processes
from bench.command import Scale, main
from bench.ghz import Ghz
from bench.load import Amount
from bench.processes import cpu_seconds
from bench.questions import Questions, batches, delimited
from bench.results import Part, Table, middle, ratios, spread

_WORKERS: Final = (1, 2, 4)
_CONNECTIONS: Final = 32
"""The kernel assigns each connection to a random worker. With many connections, all workers get
some."""
_QUESTIONS: Final = 4_000
_BATCH: Final = 100


class _Work(NamedTuple):
    name: str
    method: str
    checks: int
    """The number of checks per call."""
    data: Path


class _Measurement(NamedTuple):
    checks_per_second: float
    p99: float
    cpu_microseconds: float
    """The time of the supervisor and the workers for one check."""


def measure(scale: Scale, folder: Path) -> Part:
    """Ask servers with different numbers of workers the same questions, in turn."""
    folder.mkdir(exist_ok=True)
    specs = policies.generate(policies.MEDIUM)
    policy = folder / "queues.yaml"
    policy.write_text(policies.to_yaml(specs))
    asked = Questions(specs).mixed(_QUESTIONS)
    works = (
        _Work(
            "single checks",
            "CheckQueueAccess",
            1,
            _write(folder / "singles", (one.message().SerializeToString() for one in asked)),
        ),
        _Work(
            f"batches of {_BATCH}",
            "BatchCheckQueueAccess",
            _BATCH,
            _write(folder / "batches", (one.SerializeToString() for one in batches(asked, _BATCH))),
        ),
    )
    table = Table(
        "Workers",
        f"ghz, {_CONNECTIONS} connections over grpcio, 64 calls at once, {_QUESTIONS:,} different "
        "questions in turn, all asked before. Servers and ghz share this machine's cores, and "
        "ghz needs more of them than a server: with two cores, a second worker takes away from "
        "ghz what it adds. Processor time covers all of the server's processes.",
        ("work", "workers", "checks/s", "ratio to one worker", "p99, ms", "CPU µs/check"),
    )
    measurements: dict[tuple[str, int], list[_Measurement]] = {}
    for number in range(scale.rounds):
        for workers in _WORKERS:
            for work, measurement in _run(
                workers, works, policy, folder / f"{number}-{workers}", scale
            ):
                measurements.setdefault((work.name, workers), []).append(measurement)
    for (name, workers), rounds in measurements.items():
        rates = [measurement.checks_per_second for measurement in rounds]
        one = [measurement.checks_per_second for measurement in measurements[name, 1]]
        table.add(
            name,
            str(workers),
            spread(rates),
            spread(ratios(rates, one), ".2f"),
            middle([measurement.p99 for measurement in rounds], ".1f"),
            middle([measurement.cpu_microseconds for measurement in rounds], ".1f"),
        )
    return Part([table])


def _run(
    workers: int, works: Iterable[_Work], policy: Path, folder: Path, scale: Scale
) -> Iterable[tuple[_Work, _Measurement]]:
    command = [*processes.queuegate(policy), "--set", f"workers={workers}"]
    with processes.running(command, folder) as server:
        ghz = Ghz(folder)
        for work in works:
            amount = Amount(64, seconds=scale.seconds, connections=_CONNECTIONS)
            ghz.run(server.address, work.method, work.data, amount)
            before = _tree_cpu_seconds(server.pid)
            load = ghz.run(server.address, work.method, work.data, amount)
            spent = _tree_cpu_seconds(server.pid) - before
            checks = load.calls * work.checks
            yield work, _Measurement(load.per_second * work.checks, load.p99, spent / checks * 1e6)


def _tree_cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its children so far."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu_seconds(pid) + sum(cpu_seconds(int(child)) for child in children)


def _write(file: Path, messages: Iterable[bytes]) -> Path:
    file.write_bytes(delimited(messages))
    return file


if __name__ == "__main__":
    main(measure, __doc__)
