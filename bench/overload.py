"""Three times as many calls as the server can answer: what it answers, how late, and what
it holds meanwhile.
"""

from pathlib import Path
from statistics import quantiles
from typing import Final

from bench import open_loop, policies, processes
from bench.command import CannotMeasure, Scale, main
from bench.open_loop import Heard, Rate
from bench.processes import Running
from bench.questions import Questions, delimited
from bench.results import Part, Table, Target

_QUESTIONS: Final = 4_000
_DEADLINE: Final = 1.0
_AT_ONCE: Final = 50
_UNLOADED: Final = 0.2
_OVERLOAD: Final = 3.0
_GOAL: Final = 5.0
_MOST_MIB: Final = 64.0
_DEFAULT: Final = 1_000
_BOUNDS: Final = (_DEFAULT, 100)


def measure(scale: Scale, folder: Path) -> Part:
    """Find the sustainable rate, then ask at parts and multiples of it."""
    folder.mkdir(exist_ok=True)
    specs = policies.generate(policies.MEDIUM)
    policy = folder / "queues.yaml"
    policy.write_text(policies.to_yaml(specs))
    data = folder / "questions"
    asked = Questions(specs).mixed(_QUESTIONS)
    data.write_bytes(delimited(one.message().SerializeToString() for one in asked))
    table = Table(
        f"Overload: {_OVERLOAD:g} times the sustainable rate",
        f"Single checks, open loop: each is sent when it is due, whatever became of those before, "
        f"with a deadline of {_DEADLINE:g} s; latency counts from the moment at which it was due. "
        f"*Sustainable* is what the server answers with {_AT_ONCE} calls at once. *Refused* are "
        "those that the server, or gRPC in it, gave up at once. Milliseconds.",
        (
            "max_concurrent_calls",
            "asked/s",
            "answered/s",
            "refused/s",
            "never ended",
            "p50",
            "p99",
            "memory, MiB",
        ),
    )
    part = Part([table])
    for most in _BOUNDS:
        command = [*processes.queuegate(policy), "--set", f"limits.max_concurrent_calls={most}"]
        with processes.running(command, folder / str(most), on_own_core=True) as server:
            targets = _measure(server, data, scale, table, most)
        if most == _DEFAULT:
            part.targets += targets
    return part


def _measure(server: Running, data: Path, scale: Scale, table: Table, most: int) -> list[Target]:
    seconds = max(1.0, scale.seconds * 2)

    def ask(rate: Rate) -> Heard:
        return open_loop.run(server.address, data, rate, _DEADLINE)

    def told(heard: Heard) -> float:
        """Add a row; return the p99."""
        if len(heard.latencies) < 100:
            raise CannotMeasure("the server answered hardly anything")
        cuts = quantiles(heard.latencies, n=100)
        table.add(
            f"{most:,}",
            f"{heard.asked / heard.seconds:,.0f}",
            f"{heard.answered_per_second:,.0f}",
            f"{heard.refused / heard.seconds:,.0f}",
            str(heard.unanswered),
            f"{cuts[49]:.2f}",
            f"{cuts[98]:.2f}",
            f"{server.resident_mib():.0f}",
        )
        return cuts[98]

    ask(Rate(0, seconds, _AT_ONCE))
    sustainable = ask(Rate(0, seconds, _AT_ONCE)).answered_per_second
    unloaded = told(ask(Rate(sustainable * _UNLOADED, seconds)))
    memory = server.resident_mib()
    overloaded = ask(Rate(sustainable * _OVERLOAD, seconds))
    late = told(overloaded)
    grown = server.resident_mib() - memory
    return [
        Target(
            f"p99 of what is answered at {_OVERLOAD:g} times the sustainable rate",
            f"≤ {_GOAL:g} times the unloaded one ({unloaded:.2f} ms)",
            f"{late / unloaded:.0f} times ({late:.0f} ms)",
            late <= _GOAL * unloaded,
        ),
        Target(
            "calls that neither end nor are refused under overload",
            "0",
            str(overloaded.unanswered),
            overloaded.unanswered == 0,
        ),
        Target(
            "memory that the overload adds",
            f"≤ {_MOST_MIB:.0f} MiB",
            f"{grown:.0f} MiB",
            grown <= _MOST_MIB,
        ),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
