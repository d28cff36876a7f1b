"""The charts of the comparison."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Final

from bench.peers import svg
from bench.peers.generators import Seen
from bench.peers.measure import MIDDLE, Result

_OURS: Final = "queuegate"


def draw(results: Sequence[Result]) -> Mapping[str, str]:
    """Return the charts by name; charts without figures are left out."""
    measured = [result for result in results if result.repeated]
    if not measured:
        return {}
    colours = _colours(measured)

    def bars(title: str, unit: str, of: Callable[[Result], float], *, log: bool = False) -> str:
        found = [svg.Bar(one.name, colours[one.name], of(one)) for one in measured]
        found.sort(key=lambda bar: bar.value, reverse=True)
        return svg.bars(title, unit, [bar for bar in found if bar.value > 0], log=log)

    drawn = {
        "throughput": bars(
            f"Throughput, {MIDDLE} calls at once, ghz",
            "calls/s",
            lambda one: _middle(one.closed[MIDDLE], _rate),
            log=True,
        ),
        "throughput-h2load": bars(
            f"Throughput, {MIDDLE} calls at once, h2load",
            "calls/s",
            lambda one: _middle(one.repeated, _rate),
            log=True,
        ),
        "cpu": bars(
            "Processor time of the server for a million checks",
            "seconds",
            lambda one: _middle(one.closed[MIDDLE], lambda seen: seen.cpu_seconds_a_million),
            log=True,
        ),
        "memory": bars("Resident memory under load", "MiB", lambda one: one.mib_under_load),
        "start": bars(
            "From the start of the process to the first answer",
            "seconds",
            lambda one: statistics.median(one.start_seconds),
        ),
    }
    latencies: dict[str, tuple[str, Callable[[Seen], float]]] = {
        "p50": ("Median latency", lambda seen: seen.p50),
        "p99": ("99th percentile of latency", lambda seen: seen.p99),
        "p999": ("99.9th percentile of latency", lambda seen: seen.p999),
    }
    for name, (title, of) in latencies.items():
        courses = [
            svg.Line(one.name, colours[one.name], _course(one, of))
            for one in measured
            if one.opened
        ]
        if courses:
            drawn[name] = svg.lines(title, "calls/s offered", "ms", courses)
    return drawn


def _colours(results: Sequence[Result]) -> Mapping[str, str]:
    ours, others = cycle(svg.OURS), cycle(svg.OTHERS)
    return {
        result.name: next(ours if result.name.startswith(_OURS) else others) for result in results
    }


def _course(result: Result, of: Callable[[Seen], float]) -> list[tuple[float, float]]:
    course = []
    for opened in result.opened.values():
        offered = statistics.median(rate for rate, _ in opened)
        course.append((offered, _middle([seen for _, seen in opened], of)))
    return sorted(course)


def _middle(seen: Sequence[Seen], of: Callable[[Seen], float]) -> float:
    return statistics.median(of(one) for one in seen)


def _rate(seen: Seen) -> float:
    return seen.per_second
