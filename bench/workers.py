"""Measures the server's processor time with one, two and four workers, over both transports.

Load generator and workers may share cores, because only the processor time of the server's
processes counts: unlike a rate, it shows what a worker adds on a machine with free cores.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from bench import policies, processes
from bench.command import Scale, main
from bench.ghz import Ghz
from bench.load import Amount
from bench.processes import cpu_seconds
from bench.questions import Questions, batches, delimited
from bench.results import Part, Table, middle, ratios, spread

_TRANSPORTS: Final = ("grpcio", "native")
_WORKERS: Final = (1, 2, 4)
_CONNECTIONS: Final = 32
"""The kernel assigns each connection to a random worker. With many connections, all workers get
some."""
_QUESTIONS: Final = 1_000
_WARM_UP: Final = 20
"""How often each question is asked first, so that nearly all are in the cache of each worker."""
_BATCH: Final = 100


class _Work(NamedTuple):
    name: str
    method: str
    checks: int
    """The number of checks per call."""
    data: Path


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
        f"ghz, {_CONNECTIONS} connections, 64 calls at once, {_QUESTIONS:,} different questions in "
        "turn, all asked before. *CPU* is the processor time of the supervisor and all workers for "
        "a million checks. *Checks/s per core* is the rate that this time allows on a core that "
        "the server has to itself; it is computed, not measured. The ratio to one worker says what "
        "another core brings: with 0.9, two workers on two free cores make 1.8 times as many "
        "checks as one worker on one. Here, the workers share the cores with ghz and often wait "
        "for its calls, which adds processor time to each call.",
        (
            "work",
            "transport",
            "workers",
            "CPU s/million",
            "checks/s per core",
            "ratio to one worker",
        ),
    )
    spent: dict[tuple[str, str, int], list[float]] = {}
    for number in range(scale.rounds):
        for transport in _TRANSPORTS:
            for workers in _WORKERS:
                place = folder / f"{number}-{transport}-{workers}"
                command = [*processes.queuegate(policy, transport), "--set", f"workers={workers}"]
                for work, seconds in _run(command, works, place, scale):
                    spent.setdefault((work.name, transport, workers), []).append(seconds)
    for work, transport, workers in product(works, _TRANSPORTS, _WORKERS):
        rounds = spent[work.name, transport, workers]
        table.add(
            work.name,
            transport,
            str(workers),
            spread(rounds, ".2f"),
            middle([1e6 / seconds for seconds in rounds]),
            spread(ratios(spent[work.name, transport, 1], rounds), ".2f"),
        )
    return Part([table])


def _run(
    command: list[str], works: Iterable[_Work], folder: Path, scale: Scale
) -> Iterator[tuple[_Work, float]]:
    """Yield the processor time in seconds for a million checks of each work."""
    with processes.running(command, folder) as server:
        ghz = Ghz(folder)
        for work in works:
            messages = _QUESTIONS // work.checks
            calls = Amount(64, calls=_WARM_UP * messages, connections=_CONNECTIONS)
            ghz.run(server.address, work.method, work.data, calls)
            before = _tree_cpu_seconds(server.pid)
            amount = Amount(64, seconds=scale.seconds, connections=_CONNECTIONS)
            load = ghz.run(server.address, work.method, work.data, amount)
            spent = _tree_cpu_seconds(server.pid) - before
            yield work, spent / (load.calls * work.checks) * 1e6


def _tree_cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its children so far."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu_seconds(pid) + sum(cpu_seconds(int(child)) for child in children)


def _write(file: Path, messages: Iterable[bytes]) -> Path:
    file.write_bytes(delimited(messages))
    return file


if __name__ == "__main__":
    main(measure, __doc__)
