"""Draws the figures of bench/RESULTS.md and bench/PEERS.md into docs/pictures.

It reads the tables of these documents and measures nothing, so the pictures match the tables.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench import charts
from bench.charts import FIRST, OTHER, OURS, SECOND, THIRD, YARDSTICK, Line, Row, Spread

_BENCH: Final = Path(__file__).parent
PICTURES: Final = _BENCH.parent / "docs" / "pictures"
_SPREAD_AND_GREY: Final = "thin lines: all rounds; grey: the answer is a constant"
_NUMBER: Final = r"[\d,]+(?:\.\d+)?"
_SPREAD: Final = re.compile(rf"({_NUMBER})%?(?: \(({_NUMBER})%? to ({_NUMBER})%?\))?")
_Table = Sequence[Mapping[str, str]]


def draw() -> Mapping[str, str]:
    """Return the pictures by name."""
    peers = (_BENCH / "PEERS.md").read_text()
    results = (_BENCH / "RESULTS.md").read_text()
    servers = _table(peers, "All servers")
    loads = _table(peers, "Latency against offered load")
    return {
        "throughput": _throughput(servers),
        "processor-time": _processor_time(servers),
        "latency": _latency(loads),
        "decision-cost": _decision_cost(_table(results, "A decision")),
        "outage": _outage(results),
    }


def main() -> None:
    """Write the pictures."""
    for name, picture in draw().items():
        (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")


def _throughput(servers: _Table) -> str:
    return charts.rows(
        "Single checks beside other servers",
        f"checks a second on one core, 50 at once; {_SPREAD_AND_GREY}",
        _by_server(servers, "calls/s at 50", most_first=True),
    )


def _processor_time(servers: _Table) -> str:
    return charts.rows(
        "Processor time beside other servers",
        f"seconds for a million single checks; {_SPREAD_AND_GREY}",
        _by_server(servers, "CPU s/million", most_first=False),
        log=True,
    )


def _latency(loads: _Table) -> str:
    half = [row for row in loads if row["part of the peak"] == "50% of ghz's"]
    rows = [
        Row(
            f"{row['server']}, {row['offered/s']}/s",
            {_colour(row["server"]): _spread(row["p99, ms"])},
        )
        for row in half
    ]
    return charts.rows(
        "Latency beside other servers, each at half of its own peak",
        "99th percentile in milliseconds; beside the names, the calls sent a second",
        _sorted(rows, most_first=False),
        log=True,
    )


def _decision_cost(decisions: _Table) -> str:
    columns = {
        FIRST: "10 queues",
        SECOND: "100,000 queues, 3 asked for",
        THIRD: "100,000 queues, all asked for",
    }
    return charts.rows(
        "Cost of a decision by the size of the policy",
        "microseconds of processor time; thin lines: all rounds",
        [
            Row(
                row["decided by"],
                {colour: _spread(row[f"{size}, µs"]) for colour, size in columns.items()},
            )
            for row in decisions
        ],
        key=columns,
    )


def _outage(results: str) -> str:
    heading = re.search(
        r"^## (.* users) at ([\d,]+) checks/s, the directory .*$", results, re.MULTILINE
    )
    assert heading
    rate = _number(heading[2])
    phases = _table(results, heading[0].removeprefix("## "))
    edges = [0.0]
    for phase in phases:
        edges.append(edges[-1] + round(_number(phase["checks"]) / rate))
    spans = list(itertools.pairwise(edges))

    def course(column: str) -> list[tuple[float, float]]:
        return [
            (at, _number(phase[column]))
            for phase, span in zip(phases, spans, strict=True)
            for at in span
        ]

    def beneath(column: str) -> list[tuple[float, str]]:
        return [
            ((begin + end) / 2, phase[column])
            for phase, (begin, end) in zip(phases, spans, strict=True)
        ]

    return charts.courses(
        f"{heading[1]}, {heading[2]} checks a second, and no directory for a minute",
        "seconds",
        "latency of known users in milliseconds, for each phase",
        [Line("99th percentile", SECOND, course("p99")), Line("median", FIRST, course("p50"))],
        ticks=edges,
        shaded=(*spans[1], "the directory is down"),
        below=[
            ("known users: failed checks", beneath("known failed")),
            ("new users: failed checks", beneath("new failed")),
        ],
    )


def _by_server(servers: _Table, column: str, *, most_first: bool) -> list[Row]:
    rows = [Row(row["server"], {_colour(row["server"]): _spread(row[column])}) for row in servers]
    return _sorted(rows, most_first=most_first)


def _sorted(rows: list[Row], *, most_first: bool) -> list[Row]:
    def median(row: Row) -> float:
        (spread,) = row.values.values()
        return spread.median

    return sorted(rows, key=median, reverse=most_first)


def _colour(server: str) -> str:
    if server.startswith("queuegate"):
        return OURS
    return YARDSTICK if server.startswith("bare ") else OTHER


def _table(document: str, title: str) -> _Table:
    """Return the rows of the first table below a heading, by column name."""
    section = document.partition(f"\n## {title}\n")[2]
    lines = list(_cells(section))
    head, _, *rows = lines
    return [dict(zip(head, row, strict=True)) for row in rows]


def _cells(section: str) -> Iterator[list[str]]:
    is_inside = False
    for line in section.splitlines():
        if line.startswith("|"):
            is_inside = True
            yield [cell.strip() for cell in line.strip("|").split("|")]
        elif is_inside:
            return


def _spread(cell: str) -> Spread:
    match = _SPREAD.fullmatch(cell)
    assert match, cell
    median, *ends = match.groups()
    low, high = (_number(end or median) for end in ends)
    return Spread(_number(median), low, high)


def _number(cell: str) -> float:
    return float(cell.replace(",", ""))


if __name__ == "__main__":
    main()
