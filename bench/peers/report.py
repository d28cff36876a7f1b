"""Writes the comparison as one Markdown document."""

import re
import statistics
from collections.abc import Callable, Sequence
from itertools import product
from typing import Final

from bench.peers.generators import Measurement
from bench.peers.measure import HALF, HALF_OF_GHZ, MIDDLE, Result
from bench.results import Table, Target, ratios, spread

_NOTHING: Final = "-"
_NATIVE: Final = "queuegate, native"
_GRPCIO: Final = "queuegate, grpcio"
_GOALS: Final = (
    (_NATIVE, "Cerbos", 8.0, 5.0),
    (_NATIVE, "OPA, REST", 1.0, 1.0),
    (_NATIVE, "OpenFGA", 1.0, 1.0),
    (_NATIVE, "OpenFGA, caching", 1.0, 1.0),
    (_NATIVE, "Casbin server", 1.0, 1.0),
    (_NATIVE, "bare pygrpc-native", 0.8, 0.65),
    (_NATIVE, "bare grpc-go", 0.5, 0.5),
    (_GRPCIO, "Cerbos", 1.0, 1.0),
    (_GRPCIO, "OPA, REST", 1.0, 1.0),
    (_GRPCIO, "bare grpc.aio", 0.97, 0.92),
)
"""Our server, the other one, and the goals for their ratio: for known and for new questions."""
_MAX_P99: Final = 3.0
_MAX_NEW_COST: Final = 1.3
_PICTURES: Final = (
    "`make pictures` draws these figures: [Performance](../docs/explanation/performance.md)."
)
OTHER_PROCESSOR: Final = "On another processor"
"""The heading of the last figures from a processor of another model."""
_PARTS: Final = {HALF_OF_GHZ: "half of ghz's peak", HALF: "half of the peak"}

_HOW_TO_READ: Final = """\
- All servers hold the same policy: 200 queues on five levels, 2,000 users, 300 groups, entries
  for users and groups, wildcards. Half of the questions are denied, one in ten is about
  administration. Policy and questions are generated from a seed.
- Before any load, each server has answered the same sample of questions, every answer as a
  slow evaluator of the benchmark's own says. YuniKorn's ACLs are among them.
- Groups come with each question wherever a server can take them so. Casbin's cannot, and keeps
  them. *Groups looked up* is our server without groups in the question.
- One core is the server's, the other ones are the load generators'. All servers run at the same
  time; one after the other is put under load, in each round, every other round in reverse.
- No generator makes more than 16 calls at once on a connection, which is our server's limit.
- *calls/s*: ghz asks 4,000 questions in turn, with as many calls at once as the column says.
  *Core busy*: at 50. Well below 100%, ghz was the slower one, and the servers differ more than it
  shows: then compare *h2load* (50 at once; one denied question over and over, OPA: all in turn)
  and *CPU*, the server's processor time for a million checks.
- *Never asked before*: at 50, no question asked twice; for servers that remember decisions. The
  figures of the others beside it are those of ghz at 50: to them all questions are alike.
- OPA's REST API is asked by h2load in all columns, over HTTP/2, and not at fixed rates. Its gRPC
  interface, opa-envoy-plugin, is not measured: Go's proxy does not serve its module.
- Our server over HTTP is asked by h2load as well, with POSTs over HTTP/1.1, which it serves: one
  denied question over and over in all columns, because h2load has only one body.
- *loadgen*: a generator of the benchmark's own (`bench/peers/go/loadgen`), which needs less time
  than ghz and asks all 4,000 questions in turn; 50 at once. That is the peak in what follows, but
  where ghz's is named.
- Latency against offered load: loadgen sends at a fixed rate, whether or not answers have come,
  and counts from when a call was due. With grpc-go in the generator, as ghz has it, half of a p99
  of 3 to 4 ms passed before a call was sent, and the bare handlers had no less.
- Cerbos would take about a fifth less time with one policy a queue that repeats the rules of all
  queues above it; scoped policies are how it is meant to be used.
- *Start*: from starting the process to the first right answer, the policy read. OpenFGA's memory
  store is filled over the network in that time. *Memory*: resident, after the start and the
  largest after any load.
- A figure such as `5,800 (5,700 to 5,900)` is the median with the smallest and the largest. Ratios
  are taken within each round, and then their median."""


def markdown(
    results: Sequence[Result], facts: Sequence[tuple[str, str]], previous: str = ""
) -> str:
    """Return the document. Keeps the previous document's figures from another processor."""
    measured = [result for result in results if result.closed]
    goals = Table("", "", ("what", "goal", "reached", ""))
    for target in targets(results):
        goals.add(target.what, target.goal, target.reached, "yes" if target.is_met else "**no**")
    machine = Table("", "", ("what", "value"), [list(fact) for fact in facts])
    parts = [
        "# Beside other policy servers",
        "Written by `make bench-peers`. How to read it: at the end.",
        "## Targets",
        goals.markdown(),
        "## All servers",
        _summary(measured).markdown(),
        "## Latency against offered load",
        _latencies(measured).markdown(),
        _PICTURES,
        "## Versions and commands",
        _servers(results).markdown(),
        machine.markdown(),
        "## How to read it",
        _HOW_TO_READ,
    ]
    parts += _other_processor(previous, dict(facts)["machine"])
    return "\n\n".join(parts) + "\n"


def fact(document: str, name: str) -> str:
    """Return a fact about the machine or the run from a document, or an empty string."""
    match = re.search(rf"^\| {name} \| (.+) \|$", document, re.MULTILINE)
    return match[1] if match else ""


def _other_processor(previous: str, machine: str) -> list[str]:
    """Return the section about a processor other than this machine's, if there is one."""
    heading = f"## {OTHER_PROCESSOR}"
    kept = previous.partition(f"\n{heading}\n")[2].strip()
    other = fact(previous, "machine")
    if other and _model(other) != _model(machine):
        servers = previous.partition("\n## All servers\n")[2].strip().partition("\n\n")[0]
        run = f"{_model(other)}, commit {fact(previous, 'commit')}"
        kept = f"These figures are from an earlier run: {run}.\n\n{servers}"
    return [heading, kept] if kept else []


def _model(machine: str) -> str:
    return machine.partition(",")[0]


def targets(results: Sequence[Result]) -> list[Target]:
    """Return the goals of the project that these results can decide."""
    by_name = {result.name: result for result in results if result.repeated}
    goals = []
    for ours, other, goal, goal_new in _GOALS:
        if ours in by_name and other in by_name:
            mine, others = by_name[ours], by_name[other]
            by_ghz = _ratio(mine.closed[MIDDLE], others.closed[MIDDLE])
            by_h2load = _ratio(mine.repeated, others.repeated)
            what = f"calls/s: {ours} to {other}"
            told = f"{by_ghz:.2f} (ghz), {by_h2load:.2f} (h2load)"
            goals.append(Target(what, f"≥ {goal:g}", told, min(by_ghz, by_h2load) >= goal))
            if mine.new:
                new = _ratio(mine.new, others.new or others.closed[MIDDLE])
                what += ", never asked before"
                reached = f"{new:.2f} (ghz)"
                goals.append(Target(what, f"≥ {goal_new:g}", reached, new >= goal_new))
    if _NATIVE in by_name and by_name[_NATIVE].new:
        native = by_name[_NATIVE]
        cost = _ratio(native.closed[MIDDLE], native.new)
        what = f"calls/s asked before to never asked before: {_NATIVE}"
        goals.append(
            Target(what, f"≤ {_MAX_NEW_COST:g}", f"{cost:.2f} (ghz)", cost <= _MAX_NEW_COST)
        )
    for name, (part, told) in product((_NATIVE, _GRPCIO), _PARTS.items()):
        if name in by_name and (opened := by_name[name].opened.get(part)):
            p99 = statistics.median(sample.p99 for _, sample in opened)
            goals.append(
                Target(
                    f"p99 at {told}: {name}",
                    f"< {_MAX_P99:g} ms",
                    f"{p99:.2f} ms",
                    p99 < _MAX_P99,
                )
            )
    return goals


def _ratio(ours: Sequence[Measurement], others: Sequence[Measurement]) -> float:
    # A server that failed later has fewer rounds.
    count = min(len(ours), len(others))
    return statistics.median(
        ratios(
            [sample.per_second for sample in ours[:count]],
            [sample.per_second for sample in others[:count]],
        )
    )


def _summary(measured: Sequence[Result]) -> Table:
    at_once = sorted({number for result in measured for number in result.closed})
    table = Table(
        "",
        "",
        (
            "server",
            *(f"calls/s at {number}" for number in at_once),
            "core busy",
            "CPU s/million",
            "h2load, calls/s",
            "h2load, CPU s/million",
            "loadgen, calls/s",
            "never asked before, calls/s",
            "never asked before, CPU s/million",
            "start, s",
            "memory, MiB",
            "under load, MiB",
        ),
    )
    for result in measured:
        middle = result.closed.get(MIDDLE, [])
        table.add(
            result.name,
            *(_figure(result.closed.get(number, []), _rate) for number in at_once),
            _figure(middle, lambda sample: sample.busy, ".0%"),
            _figure(middle, _cpu, ",.1f"),
            _figure(result.repeated, _rate),
            _figure(result.repeated, _cpu, ",.1f"),
            _figure(result.most, _rate),
            _figure(result.new, _rate),
            _figure(result.new, _cpu, ",.1f"),
            f"{statistics.median(result.start_seconds):.2f}",
            f"{result.mib_at_start:.0f}",
            f"{result.mib_under_load:.0f}",
        )
    return table


def _latencies(measured: Sequence[Result]) -> Table:
    columns = ("server", "part of the peak", "offered/s", "achieved/s", "failed")
    table = Table("", "", (*columns, "p50, ms", "p99, ms", "p99.9, ms"))
    for result in measured:
        for part, opened in result.opened.items():
            samples = [one for _, one in opened]
            table.add(
                result.name,
                part,
                f"{opened[0][0]:,.0f}",
                _figure(samples, _rate),
                f"{sum(one.failed for one in samples):,}",
                _figure(samples, lambda one: one.p50, ".2f"),
                _figure(samples, lambda one: one.p99, ".2f"),
                _figure(samples, lambda one: one.p999, ".2f"),
            )
    return table


def _servers(results: Sequence[Result]) -> Table:
    table = Table("", "", ("server", "version", "policy and groups", "fault"))
    for result in results:
        fault = "; ".join(filter(None, (result.error, result.overload))).replace("|", "\\|")
        table.add(result.name, result.version or _NOTHING, result.how, fault or "none")
    return table


def _figure(
    samples: Sequence[Measurement], of: Callable[[Measurement], float], form: str = ",.0f"
) -> str:
    return spread([of(one) for one in samples], form) if samples else _NOTHING


def _rate(sample: Measurement) -> float:
    return sample.per_second


def _cpu(sample: Measurement) -> float:
    return sample.cpu_seconds_a_million
