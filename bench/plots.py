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
from bench.peers.report import OTHER_PROCESSOR, fact

_BENCH: Final = Path(__file__).parent
PICTURES: Final = _BENCH.parent / "docs" / "pictures"
_ALL_ROUNDS: Final = "thin lines: all rounds; bare: the answer is a constant"
_NUMBER: Final = r"[\d,]+(?:\.\d+)?"
_SPREAD: Final = re.compile(rf"({_NUMBER})%?(?: \(({_NUMBER})%? to ({_NUMBER})%?\))?")
_NOT_A_NAME: Final = re.compile(r"\(R\)| Processor|,.*")
"""What a short name of a processor leaves out."""
_Table = Sequence[Mapping[str, str]]


def draw() -> Mapping[str, str]:
    """Return the pictures by name."""
    peers = (_BENCH / "PEERS.md").read_text()
    results = (_BENCH / "RESULTS.md").read_text()
    return {
        "throughput": throughput(peers),
        "processor-time": _processor_time(peers),
        "latency": _latency(_table(peers, "Latency against offered load")),
        "checks-per-core": _checks_per_core(results),
        "decision-cost": _decision_cost(_table(results, "A decision")),
        "outage": _outage(results),
    }


def main() -> None:
    """Write the pictures."""
    for name, picture in draw().items():
        (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")


def throughput(peers: str) -> str:
    """Return the chart of calls per second, on both processors if there are figures of two."""
    return charts.rows(
        "Single checks beside other servers",
        f"checks a second on one core, 50 at once; {_ALL_ROUNDS}",
        _by_server(peers, "calls/s at 50", most_first=True),
        key=_processors(peers),
    )


def _processor_time(peers: str) -> str:
    """Return the chart of processor time, on both processors if there are figures of two."""
    return charts.rows(
        "Processor time beside other servers",
        f"seconds for a million single checks; {_ALL_ROUNDS}",
        _by_server(peers, "CPU s/million", most_first=False),
        log=True,
        key=_processors(peers),
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


def _checks_per_core(results: str) -> str:
    names = {FIRST: "queuegate, asked before", SECOND: "queuegate, never asked before"}
    rows = []
    for transport in ("grpcio", "native"):
        singles = _table(results, f"Single checks (CheckQueueAccess) over {transport}")
        times = {row["load"]: row["CPU µs/call"] for row in singles if row["calls at once"] == "50"}
        rates = {colour: 1e6 / _number(times[name]) for colour, name in names.items()}
        values = {colour: Spread(rate, rate, rate) for colour, rate in rates.items()}
        rows.append(Row(f"single checks, {transport}", values))
    for transport in ("grpcio", "native"):
        batches = _table(results, f"Batches of 1,000 (BatchCheckQueueAccess) over {transport}")
        cells = {
            row["load"]: row["checks/s on one core"]
            for row in batches
            if row["generator"] == "`bench.raw`"
        }
        values = {colour: _spread(cells[name]) for colour, name in names.items()}
        rows.append(Row(f"batches of 1,000, {transport}", values))
    return charts.rows(
        "Checks on one core",
        "checks a second of the server's processor time; thin lines: all rounds",
        rows,
        log=True,
        key={FIRST: "asked before", SECOND: "never asked before"},
    )


def _processors(peers: str) -> Mapping[str, str] | None:
    """Return the processors and commits by colour if the document covers two."""
    section = peers.partition(f"\n## {OTHER_PROCESSOR}\n")[2]
    other = re.search(r" run: (.+), commit (\w+)\.$", section, re.MULTILINE)
    if other is None:
        return None
    runs = {FIRST: (fact(peers, "machine"), fact(peers, "commit")), SECOND: other.groups()}
    return {
        colour: f"{_NOT_A_NAME.sub('', machine)} ({commit[:7]})"
        for colour, (machine, commit) in runs.items()
    }


def _by_server(peers: str, column: str, *, most_first: bool) -> list[Row]:
    has_two = _processors(peers) is not None
    others = {}
    if has_two:
        others = {row["server"]: row[column] for row in _table(peers, OTHER_PROCESSOR)}
    rows = []
    for row in _table(peers, "All servers"):
        server = row["server"]
        values = {FIRST if has_two else _colour(server): _spread(row[column])}
        if server in others:
            values[SECOND] = _spread(others[server])
        rows.append(Row(server, values))
    return _sorted(rows, most_first=most_first)


def _sorted(rows: list[Row], *, most_first: bool) -> list[Row]:
    def median(row: Row) -> float:
        return next(iter(row.values.values())).median

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
