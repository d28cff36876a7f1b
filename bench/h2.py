"""The running server under h2load, if installed, compared with the bare handler.

h2load repeats one request, so the response cache answers all but the first. In return it needs
little time itself, and shows the maximum throughput of a connection.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.command import CannotMeasure, Scale, main
from bench.ghz import SERVICE
from bench.load import connections_for
from bench.pair import BARE, BATCH, KNOWN, Pair, pair
from bench.questions import batches
from bench.results import Part, Table, middle, ratios, spread

ABSENT: Final = "h2load is not installed (Debian: apt-get install nghttp2-client)."

_UNARY: Final = "CheckQueueAccess"
_BATCH: Final = "BatchCheckQueueAccess"
_LOADS: Final = ((_UNARY, 1, 1), (_UNARY, 1, 50), (_UNARY, 1, 200), (_BATCH, BATCH, 4))
_DONE: Final = re.compile(
    r"finished in .*?, ([0-9.]+) req/s.*"
    r"requests: .* (\d+) done, (\d+) succeeded.*traffic: .*\((\d+)\) data",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement."""

    per_second: float
    cpu_microseconds: float
    busy: float


def measure(scale: Scale, folder: Path) -> Part:
    """Repeat one question and one batch to both servers."""
    if shutil.which("h2load") is None:
        return Part(remarks=[ABSENT])
    table = Table(
        "One request repeated, under h2load",
        "One thread of h2load repeats the same request, a single check or a batch of 1 000 "
        "different questions, with up to 16 concurrent calls per connection. All answers come "
        "from the response cache.",
        (
            "load",
            "checks in a request",
            "calls at once",
            "calls/s",
            "ratio to bare",
            "core busy",
            "CPU µs/call",
            "CPU ratio",
            "checks/s on one core",
        ),
    )
    with pair(folder / "h2load") as servers:
        (batch,) = batches(servers.questions.mixed(BATCH), BATCH)
        bodies = {_UNARY: batch.checks[0].SerializeToString(), _BATCH: batch.SerializeToString()}
        for method, size, at_once in _LOADS:
            body = folder / "body"
            body.write_bytes(b"\0" + len(bodies[method]).to_bytes(4, "big") + bodies[method])
            _compare(table, servers, scale, (method, size, at_once), body)
    return Part([table])


def _compare(
    table: Table, servers: Pair, scale: Scale, load: tuple[str, int, int], body: Path
) -> None:
    method, size, at_once = load
    samples: dict[str, list[Measurement]] = {BARE: [], KNOWN: []}
    for number in range(scale.rounds + 1):
        for name in samples if number % 2 == 0 else reversed(samples):
            sample = _run(servers, name, method, body, at_once, scale.seconds / 2)
            # The first round warms up.
            samples[name] += [sample] if number else []
    yardstick = samples[BARE]
    for name, rounds in samples.items():
        cpu = [sample.cpu_microseconds for sample in rounds]
        rates = [sample.per_second for sample in rounds]
        table.add(
            name,
            f"{size:,}",
            str(at_once),
            spread(rates),
            spread(ratios(rates, [sample.per_second for sample in yardstick]), ".2f"),
            middle([sample.busy for sample in rounds], ".0%"),
            middle(cpu),
            middle(ratios(cpu, [sample.cpu_microseconds for sample in yardstick]), ".2f"),
            middle([size / each * 1e6 for each in cpu]) if name != BARE else "",
        )


def _run(
    servers: Pair, load: str, method: str, body: Path, at_once: int, seconds: float
) -> Measurement:
    server = servers.server(load)
    before = server.cpu_seconds()
    calls, per_second = _h2load(
        [
            f"--duration={seconds * 1000:.0f}ms",
            *connections(at_once),
            f"--data={body}",
            f"http://{server.address}/{SERVICE}/{method}",
        ]
    )
    cpu = server.cpu_seconds() - before
    return Measurement(per_second, cpu / calls * 1e6, cpu * per_second / calls)


def _h2load(arguments: Sequence[str]) -> tuple[int, float]:
    """Return the number of calls, and the number per second."""
    headers = ["--header=content-type: application/grpc", "--header=te: trailers"]
    told = subprocess.run(
        ["h2load", "--threads=1", *headers, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return done(told.stdout or told.stderr)


def connections(at_once: int) -> list[str]:
    """Return h2load's options for a number of concurrent calls.

    h2load ignores a server's limit on concurrent streams, and the server refuses calls beyond it.
    """
    clients = connections_for(at_once)
    return [f"--clients={clients}", f"--max-concurrent-streams={at_once // clients}"]


def done(told: str) -> tuple[int, float]:
    """Return the number of calls, and the number per second, from the output of h2load.

    Raises CannotMeasure if any of them failed.
    """
    match = _DONE.search(told)
    if match is None:
        raise CannotMeasure(f"h2load failed: {told[-500:]}")
    per_second, calls, succeeded, answered_bytes = map(float, match.groups())
    # A call that ends with an error has no data, but still HTTP status 200.
    if not calls or calls != succeeded or answered_bytes / calls < len(b"\0size"):
        raise CannotMeasure(f"calls failed under h2load: {told[-500:]}")
    return int(calls), per_second


if __name__ == "__main__":
    main(measure, __doc__)
