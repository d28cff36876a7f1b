"""Batches of 1,000 checks to a running server, compared with the bare handler."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.command import Scale, main
from bench.load import Amount, Generator
from bench.pair import BARE, BATCH, KNOWN, LOADS, NEW, Measurement, Pair, alternate, pair
from bench.questions import batches
from bench.raw import Raw
from bench.results import Part, Table, Target, middle, ratios, spread

_METHOD: Final = "BatchCheckQueueAccess"
_BATCHES: Final = 32
_CONCURRENCY: Final = 4
_NEW_BATCHES: Final = 100
_GOALS: Final = {"grpcio": 1_000_000, "native": 1_500_000}
_NOTE: Final = (
    f"One connection, {_CONCURRENCY} calls at once. *Asked before*: {_BATCHES} different batches "
    f"of {BATCH:,} different questions in turn, all answered by the response cache. *Never asked "
    "before*: no question is asked twice. ghz takes longer to read such an answer than our "
    "server takes to produce it; `bench.raw` does not decode answers, so the server is the "
    "bottleneck. The server's processor time per check, including all threads and the kernel, "
    "shows what a core can do. The goals apply to questions asked before: a scheduler that "
    "restarts has asked all its questions before."
)


def measure(scale: Scale, folder: Path) -> Part:
    """Ask both servers over each transport. Over grpcio, first with ghz and then with a generator
    that does not parse answers.
    """
    raw: tuple[str, Generator | None] = ("`bench.raw`", Raw())
    part = Part([], [], [])
    for transport, generators in (("grpcio", (("ghz", None), raw)), ("native", (raw,))):
        table = Table(
            f"Batches of 1,000 (BatchCheckQueueAccess) over {transport}",
            _NOTE,
            (
                "load",
                "generator",
                "batches/s",
                "p50, ms",
                "p99, ms",
                "core busy",
                "CPU µs/batch",
                "CPU ratio",
                "checks/s on one core",
            ),
        )
        with pair(folder / transport, transport=transport) as servers:
            for name, generator in generators:
                samples = _measure(servers, scale, generator)
                _add(table, name, samples)
            resident = servers.ours.resident_mib()
        table.note += f" Resident memory of our server after all this: {resident:.0f} MiB."
        part.tables.append(table)
        part.targets.append(_target(samples, transport))
    return part


def _measure(
    servers: Pair, scale: Scale, generator: Generator | None
) -> Mapping[str, list[Measurement]]:
    known_batches, new_batches = (
        (_BATCHES // 4, _NEW_BATCHES // 5) if scale.is_quick else (_BATCHES, _NEW_BATCHES)
    )
    asked = servers.questions.mixed(known_batches * BATCH)
    known = servers.write("known", (batch.SerializeToString() for batch in batches(asked, BATCH)))
    for_some_time = Amount(_CONCURRENCY, scale.seconds)

    def measure_load(load: str) -> Measurement:
        if load == KNOWN:
            servers.make_known(asked)
        if load != NEW:
            return servers.measure(load, _METHOD, known, for_some_time, generator)
        new = servers.questions.mixed(new_batches * BATCH)
        data = servers.write("new", (batch.SerializeToString() for batch in batches(new, BATCH)))
        amount = Amount(_CONCURRENCY, calls=new_batches)
        return servers.measure(load, _METHOD, data, amount, generator)

    for load in (BARE, KNOWN):
        measure_load(load)
    return alternate(scale.rounds, measure_load)


def _add(table: Table, generator: str, samples: Mapping[str, list[Measurement]]) -> None:
    yardstick = [one.cpu_microseconds for one in samples[BARE]]
    for load in LOADS:
        rounds = samples[load]
        cpu = [one.cpu_microseconds for one in rounds]
        table.add(
            load,
            generator,
            spread([one.load.per_second for one in rounds]),
            middle([one.load.p50 for one in rounds], ".2f"),
            middle([one.load.p99 for one in rounds], ".2f"),
            middle([one.busy for one in rounds], ".0%"),
            spread(cpu),
            spread(ratios(cpu, yardstick), ".2f"),
            spread(_checks_per_core(rounds)) if load != BARE else "",
        )


def _checks_per_core(samples: Sequence[Measurement]) -> list[float]:
    return [BATCH * one.load.calls / one.cpu_seconds for one in samples]


def _target(samples: Mapping[str, list[Measurement]], transport: str) -> Target:
    reached = statistics.median(_checks_per_core(samples[KNOWN]))
    goal = _GOALS[transport]
    return Target(
        f"checks/s on one core in batches of {BATCH:,} over {transport}: {KNOWN}",
        f"≥ {goal:,}",
        f"{reached:,.0f}",
        reached >= goal,
    )


if __name__ == "__main__":
    main(measure, __doc__)
