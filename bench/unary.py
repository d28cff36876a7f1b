"""Single checks to a running server under ghz, compared with the bare handler."""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bench.command import Scale, main
from bench.load import STREAMS, Amount
from bench.pair import BARE, BARE_SET_AS_OURS, KNOWN, LOADS, NEW, Measurement, Pair, alternate, pair
from bench.results import Part, Table, Target, middle, ratios, spread
from queuegate_server.transports.registry import GRPC_ENVIRONMENT

_METHOD: Final = "CheckQueueAccess"
_QUESTIONS: Final = 4_000
_GOALS: Final = {"grpcio": {KNOWN: 0.97, NEW: 0.92}, "native": {KNOWN: 0.8, NEW: 0.65}}
_GOAL_SET_AS_OURS: Final = 0.9


def measure(scale: Scale, folder: Path) -> Part:
    """Ask both servers at several concurrencies."""
    return measure_over("grpcio", scale, folder)


def measure_over(transport: str, scale: Scale, folder: Path) -> Part:
    """Ask both servers over a transport at several concurrencies."""
    concurrencies = (1, 50) if scale.is_quick else (1, 8, 50, 200)
    is_set = transport == "grpcio"
    loads = (BARE, BARE_SET_AS_OURS, KNOWN, NEW) if is_set else LOADS
    with pair(folder / "unary", transport=transport, set_as_ours=is_set) as servers:
        samples = _measure(servers, scale, concurrencies, loads)
        table = _table(samples)
        table.title += f" over {transport}"
        if is_set:
            settings = " ".join(f"`{key}={value}`" for key, value in GRPC_ENVIRONMENT.items())
            table.note += (
                f" The bare handler runs on gRPC with its defaults, our server with {settings} "
                "(`transports/registry.py`), and with one queue for the calls of most methods "
                "(`transports/grpcio.py`). The second bare handler has the same settings, and so "
                "shows the cost of everything else."
            )
        table.note += (
            f" Resident memory of our server after all this: {servers.ours.resident_mib():.0f} MiB."
        )
    goals = _GOALS[transport]
    targets = [_target(samples, load, transport, BARE, goal) for load, goal in goals.items()]
    if is_set:
        targets.append(_target(samples, KNOWN, transport, BARE_SET_AS_OURS, _GOAL_SET_AS_OURS))
    return Part([table], targets)


def _measure(
    servers: Pair, scale: Scale, concurrencies: Sequence[int], loads: Sequence[str]
) -> dict[int, Mapping[str, list[Measurement]]]:
    asked = servers.questions.mixed(_QUESTIONS)
    servers.make_known(asked)
    known = servers.write("known", (one.message().SerializeToString() for one in asked))
    warmed = {
        load: servers.measure(load, _METHOD, known, Amount(50, scale.seconds))
        for load in (BARE, KNOWN)
    }
    rates = dict.fromkeys(concurrencies, warmed[KNOWN].load.per_second)

    def measure_at(concurrency: int, load: str) -> Measurement:
        if load == KNOWN:
            servers.make_known(asked)
        if load != NEW:
            sample = servers.measure(load, _METHOD, known, Amount(concurrency, scale.seconds))
            rates[concurrency] = sample.load.per_second
            return sample
        # Enough for `scale.seconds`, each asked only once.
        count = max(concurrency, int(rates[concurrency] * scale.seconds))
        new = servers.questions.mixed(count)
        data = servers.write("new", (one.message().SerializeToString() for one in new))
        return servers.measure(load, _METHOD, data, Amount(concurrency, calls=count))

    return {
        concurrency: alternate(scale.rounds, partial(measure_at, concurrency), loads)
        for concurrency in concurrencies
    }


def _table(samples: Mapping[int, Mapping[str, list[Measurement]]]) -> Table:
    table = Table(
        "Single checks (CheckQueueAccess)",
        f"ghz, with at most {STREAMS} calls at once on a connection. *Asked before*: "
        f"{_QUESTIONS:,} different questions in turn, all asked just before each measurement, so "
        "the response cache answers all of them. *Never asked before*: no question is asked twice, "
        "so it answers none.",
        (
            "load",
            "calls at once",
            "calls/s",
            "ratio to bare",
            "p50, ms",
            "p95, ms",
            "p99, ms",
            "CPU µs/call",
            "CPU ratio",
            "core busy",
        ),
    )
    for concurrency, seen_by_load in samples.items():
        yardstick = seen_by_load[BARE]
        for load, seen in seen_by_load.items():
            table.add(
                load,
                str(concurrency),
                spread([one.load.per_second for one in seen]),
                spread(_rate_ratios(seen, yardstick), ".2f"),
                middle([one.load.p50 for one in seen], ".2f"),
                middle([one.load.p95 for one in seen], ".2f"),
                middle([one.load.p99 for one in seen], ".2f"),
                middle([one.cpu_microseconds for one in seen]),
                middle(
                    ratios(
                        [one.cpu_microseconds for one in seen],
                        [one.cpu_microseconds for one in yardstick],
                    ),
                    ".2f",
                ),
                middle([one.busy for one in seen], ".0%"),
            )
    return table


def _rate_ratios(samples: Sequence[Measurement], yardstick: Sequence[Measurement]) -> list[float]:
    return ratios(
        [one.load.per_second for one in samples], [one.load.per_second for one in yardstick]
    )


def _target(
    samples: Mapping[int, Mapping[str, list[Measurement]]],
    load: str,
    transport: str,
    yardstick: str,
    goal: float,
) -> Target:
    lowest, at = min(
        (statistics.median(_rate_ratios(seen[load], seen[yardstick])), concurrency)
        for concurrency, seen in samples.items()
    )
    return Target(
        f"unary calls/s over {transport}, lowest ratio to the {yardstick}: {load}",
        f"≥ {goal}",
        f"{lowest:.2f} (at {at})",
        lowest >= goal,
    )


if __name__ == "__main__":
    main(measure, __doc__)
