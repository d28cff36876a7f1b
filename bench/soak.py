"""Half an hour of mixed traffic, with reloads and outages of the directory: answers, latency,
memory and descriptors. Writes bench/SOAK.md and docs/pictures/soak.svg.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import machine, soak_plot
from bench.big_directory import BigDirectory, big_directory
from bench.plots import PICTURES
from bench.results import Table
from bench.soak_traffic import SIZE, TEAM
from tests.support.servers.queuegate_server import RunningServer, running_server

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER: Final = Path(__file__).parent
_INTERVALS: Final = 180
_RELOAD_SECONDS: Final = 10.0
_CYCLE_SECONDS: Final = 60.0
"""The directory is down once in each cycle, alternately killed and frozen."""
_AWAY_SECONDS: Final = 15.0
_MIB: Final = 2**20
_MAX_GROWTH: Final = 24 * _MIB
"""The maximum growth of the median from the first to the last third, including the effect of the
faults.
"""
_HOW: Final = f"""\
Written by `make soak`. Single checks, batches and explanations with known answers, by
users whose groups expire every 20 s, all of them recorded in an audit log that blocks and is
rotated; the operations port is asked for its metrics in each interval; the policy is replaced
every {_RELOAD_SECONDS:.0f} s; once a minute the directory is away for {_AWAY_SECONDS:.0f} s
(shaded). Traffic, server and directory share the machine."""


@dataclass(slots=True)
class Point:
    """An interval: the figures of the traffic, and the state of the server at its end."""

    minute: float
    told: dict[str, Any]
    memory: int
    descriptors: int

    def latency(self, part: float) -> float:
        """Return a quantile in milliseconds, or the whole interval if no call ended in it."""
        ordered = sorted(self.told["latencies"]) or [self.told["seconds"] * 1000]
        return float(ordered[min(len(ordered) - 1, int(len(ordered) * part))])


@dataclass(slots=True)
class Soak:
    """The figures of a run."""

    begin: float
    points: list[Point] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)
    reloads: int = 0
    records: int = 0

    def minute(self) -> float:
        """Return the minutes since the start."""
        return (time.monotonic() - self.begin) / 60

    def total(self, name: str) -> int:
        """Return the sum of a count over all intervals."""
        return sum(int(point.told[name]) for point in self.points)


def main() -> None:
    """Run, and write the report."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", default=_FOLDER, help="default: bench"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="queuegate-soak-") as name:
        soak = _run(Path(name), options.minutes)
    options.output.mkdir(parents=True, exist_ok=True)
    picture = PICTURES if options.output == _FOLDER else options.output
    (picture / "soak.svg").write_text(_drawing(soak))
    (options.output / "SOAK.md").write_text(_report(soak, options.minutes))
    print(f"written: {options.output / 'SOAK.md'}")
    if broken := _broken(soak):
        sys.exit(f"soak: {', '.join(broken)}")


def _broken(soak: Soak) -> list[str]:
    """Return the promises that were broken."""
    first, last = _thirds(soak, "memory")
    kept = {
        "there were wrong answers": not soak.total("wrong"),
        "memory grows": last - first <= _MAX_GROWTH,
        "decisions have no record": soak.records >= soak.total("decisions"),
    }
    return [promise for promise, is_kept in kept.items() if not is_kept]


def _thirds(soak: Soak, measure: str) -> tuple[float, float]:
    """Return the medians of the first and the last third."""
    values = [float(getattr(point, measure)) for point in soak.points]
    third = max(1, len(values) // 3)
    return statistics.median(values[:third]), statistics.median(values[-third:])


def _run(folder: Path, minutes: float) -> Soak:
    with big_directory(folder, SIZE) as directory:
        config = _configuration(directory, folder)
        with running_server("--config", str(config)) as server:
            interval = max(1.0, minutes * 60 / _INTERVALS)
            with _traffic(server, interval) as traffic:
                soak = Soak(time.monotonic())
                measuring = threading.Thread(target=_measure, args=(soak, traffic, server))
                measuring.start()
                _disturb(soak, directory, folder / "queues.yaml", minutes, measuring)
                assert traffic.stdin
                traffic.stdin.close()
                measuring.join(30)
                if traffic.wait(30) or server.process.poll() is not None:
                    sys.exit("soak: the traffic or the server has ended before its time")
    return soak


def _measure(soak: Soak, traffic: "subprocess.Popen[str]", server: RunningServer) -> None:
    assert traffic.stdout
    told = server.wait_for_log("operations port is open")["address"]
    for line in traffic.stdout:
        with (
            suppress(OSError),  # the figures of the traffic show it
            urllib.request.urlopen(f"http://{told}/metrics", timeout=5) as metrics,
        ):
            soak.records = _records(metrics.read().decode())
        descriptors = len(os.listdir(f"/proc/{server.pid}/fd"))  # noqa: PTH208 - a number
        soak.points.append(Point(soak.minute(), json.loads(line), server.memory(), descriptors))


def _records(metrics: str) -> int:
    """Return the number of records written."""
    name = 'queuegate_audit_records_total{result="written"} '
    (count,) = (line for line in metrics.splitlines() if line.startswith(name))
    return int(float(count.removeprefix(name)))


def _disturb(
    soak: Soak,
    directory: BigDirectory,
    policy: Path,
    minutes: float,
    measuring: threading.Thread,
) -> None:
    """Swap the policy and take the directory down, until the time is up or the measuring stops."""
    end = soak.begin + minutes * 60
    cycle = 0
    while (begin := time.monotonic()) < end and measuring.is_alive():
        _reload_until(soak, policy, min(end, begin + _CYCLE_SECONDS - 2 * _AWAY_SECONDS))
        left = soak.minute()
        freezes = cycle % 2 == 0
        directory.slapd.freeze() if freezes else directory.slapd.kill()
        _reload_until(soak, policy, min(end, time.monotonic() + _AWAY_SECONDS))
        directory.slapd.thaw() if freezes else directory.slapd.start()
        soak.outages.append((left, soak.minute()))
        _reload_until(soak, policy, min(end, begin + _CYCLE_SECONDS))
        cycle += 1


def _reload_until(soak: Soak, policy: Path, end: float) -> None:
    while (left := end - time.monotonic()) > 0:
        soak.reloads += 1
        new = policy.with_name("new")
        new.write_text(_policy(soak.reloads))
        new.replace(policy)
        time.sleep(min(left, _RELOAD_SECONDS))


@contextmanager
def _traffic(server: RunningServer, interval: float) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-m", "bench.soak_traffic", server.address, str(interval)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_FOLDER.parent
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _policy(number: int) -> str:
    """Return a policy of 500 queues, one of which differs each time."""
    queues = "".join(f"          - {{name: q{each}, submitacl: u{each}}}\n" for each in range(500))
    return (
        "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n"
        f'          - {{name: team, submitacl: " g{TEAM}"}}\n'
        f"          - {{name: changing, submitacl: u{number}}}\n{queues}"
    )


def _configuration(directory: BigDirectory, folder: Path) -> Path:
    policy = folder / "queues.yaml"
    policy.write_text(_policy(0))
    file = folder / "queuegate.yaml"
    file.write_text(
        f"""\
policy: {{path: {policy}}}
resolvers:
  corp: {directory.resolver()}
partitions:
  default: {{resolver: corp, cache: {{positive_ttl: 20s, failure_ttl: 1s}}}}
audit: {{path: {folder / "audit.log"}, records: all, max_size: 8MiB, keep: 2}}
ops: {{listen: "127.0.0.1:0"}}
"""
    )
    return file


def _drawing(soak: Soak) -> str:
    points = soak.points
    rates = [point.told["decisions"] / point.told["seconds"] for point in points]
    panels = [
        soak_plot.Panel("Decisions per second", {"decisions": rates}),
        soak_plot.Panel(
            "Latency of calls, ms",
            {
                "p50": [point.latency(0.5) for point in points],
                "p99": [point.latency(0.99) for point in points],
                "p99.9": [point.latency(0.999) for point in points],
            },
            log=True,
        ),
        soak_plot.Panel("Memory, MiB", {"resident": [point.memory / _MIB for point in points]}),
        soak_plot.Panel("Descriptors", {"open": [float(point.descriptors) for point in points]}),
    ]
    return soak_plot.draw([point.minute for point in points], panels, soak.outages)


def _report(soak: Soak, minutes: float) -> str:
    facts = Table("", "", ("what", "value"), [list(fact) for fact in machine.described()])
    table = Table("", "", ("what", "value"))
    points = soak.points
    table.add("duration", f"{minutes:g} minutes")
    table.add("reloads of the policy", str(soak.reloads))
    table.add("outages of the directory, killed and frozen in turn", str(len(soak.outages)))
    table.add("decisions", f"{soak.total('decisions'):,}")
    table.add("wrong decisions", str(soak.total("wrong")))
    table.add("questions without an answer", str(soak.total("failed")))
    table.add("records of the audit log", f"{soak.records:,}")
    table.add("calls past their deadline of 1 s plus 50 ms", str(soak.total("late")))
    seconds = sum(point.told["seconds"] for point in points)
    table.add("decisions per second", f"{soak.total('decisions') / seconds:,.0f}")
    for name, part in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        middle = statistics.median(point.latency(part) for point in points)
        worst = max(point.latency(part) for point in points)
        table.add(f"{name} of an interval, ms: median, worst", f"{middle:.2f}, {worst:.2f}")
    for name, measure in (("memory, MiB", "memory"), ("descriptors", "descriptors")):
        unit = _MIB if measure == "memory" else 1
        first, last = (median / unit for median in _thirds(soak, measure))
        table.add(f"{name}: median of the first and the last third", f"{first:.0f}, {last:.0f}")
    parts = [
        "# Soak",
        _HOW,
        table.markdown(),
        "![Throughput, latency, memory and descriptors over time](../docs/pictures/soak.svg)",
        facts.markdown(),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
