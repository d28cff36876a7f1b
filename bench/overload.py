"""Three times as many calls as the server can answer: what it answers, how late, and what
it holds meanwhile.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from typing import Final, NamedTuple

from bench import open_loop, policies, processes
from bench.command import CannotMeasure, Scale, main
from bench.open_calls import Heard
from bench.open_loop import Rate
from bench.processes import Running
from bench.questions import Questions, delimited
from bench.results import Part, Table, Target
from queuegate.v1 import access_pb2

_QUESTIONS: Final = 4_000
_BATCH: Final = 100
_DEADLINE: Final = 1.0
_AT_ONCE: Final = 50
_UNLOADED: Final = 0.2
_OVERLOAD: Final = 3.0
_GOAL: Final = 5.0
_MOST_MIB: Final = 64.0
_FIRST_SECOND: Final = 1.0
_NOTHING: Final = ("--set", "limits.caller_rate=0.001", "--set", "limits.caller_burst=1")


class _Case(NamedTuple):
    """What is asked of which server."""

    name: str
    transport: str
    method: str
    data: Path
    settings: tuple[str, ...] = ()


def measure(scale: Scale, folder: Path) -> Part:
    """Find the sustainable rate of each case, then ask at parts and multiples of it."""
    folder.mkdir(exist_ok=True)
    specs = policies.generate(policies.MEDIUM)
    policy = folder / "queues.yaml"
    policy.write_text(policies.to_yaml(specs))
    questions = [one.message() for one in Questions(specs).mixed(_QUESTIONS)]
    single, batch = folder / "single", folder / "batch"
    single.write_bytes(delimited(one.SerializeToString() for one in questions))
    batch.write_bytes(delimited(map(_batch, _pieces(questions))))
    table = Table(
        f"Overload: {_OVERLOAD:g} times the sustainable rate",
        f"Open loop: each call is sent when it is due, whatever became of those before, with a "
        f"deadline of {_DEADLINE:g} s; latency counts from the moment at which it was due, and is "
        "that of answers only. Server and generator have a core each. *Sustainable* is what the "
        f"server answers with {_AT_ONCE} calls at once; *a fifth* of it is the unloaded server; "
        f"the overload lasts for {_FIRST_SECOND:g} s before it is measured. *Refused* are calls "
        "that ended without an answer: those that the server refused, that gRPC dropped, and "
        "whose deadline passed. *CPU* is the server's processor time for a call, however it "
        f"ended. A batch has {_BATCH} checks. Latencies in milliseconds.",
        (
            "calls",
            "load",
            "asked/s",
            "answered/s",
            "refused/s",
            "never ended",
            "p50",
            "p99",
            "CPU, µs",
            "memory, MiB",
        ),
    )
    part = Part([table])
    batches = ("BatchCheckQueueAccess", batch)
    cases = (
        _Case("single, grpcio", "grpcio", "CheckQueueAccess", single),
        _Case("batches, grpcio", "grpcio", *batches),
        _Case("batches, native", "native", *batches),
        _Case(
            "batches, native, max_wait 2 ms", "native", *batches, ("--set", "limits.max_wait=2ms")
        ),
    )
    for number, case in enumerate(cases):
        command = [*processes.queuegate(policy, case.transport), *case.settings]
        with processes.running(command, folder / str(number), on_own_core=True) as server:
            part.targets += _Load(server, case, table).measure(max(1.0, scale.seconds * 2))
    command = [*processes.queuegate(policy), *_NOTHING]
    with processes.running(command, folder / "refusing", on_own_core=True) as server:
        refusing = _Load(server, cases[0], table)
        refusing.ask("all refused, over their rate", Rate(0, max(1.0, scale.seconds), _AT_ONCE))
    part.remarks.append(_WHY)
    return part


_WHY: Final = (
    "Why single calls over grpcio are late: to end a call with a status costs grpc.aio at least "
    "as much as to answer it (*all refused*), so at three times the rate it can do neither, and "
    "what cannot be taken waits in gRPC's core, which tells nobody how long. From 1,000 waiting "
    "calls on the core drops some, and from 3,000 on all, as CANCELLED, for about 30 µs each; "
    "whoever gets through has waited behind the others. With `grpc.server.max_pending_requests` "
    "at 20 a bare server had a p99 of 17 ms under three times the load, and dropped parts of "
    "single bursts, too, which is why it is left alone. The native transport sees how long "
    "calls have waited. Under overload it refuses what has waited for `limits.max_wait` before "
    "any work is done for it. Its single calls are not in the table: the generator cannot ask "
    "three times as many as are answered."
)


class _Load:
    """Asks one server at several rates."""

    def __init__(self, server: Running, case: _Case, table: Table) -> None:
        """Take where the rows go."""
        self._server = server
        self._case = case
        self._table = table

    def measure(self, seconds: float) -> list[Target]:
        """Ask at all rates; return what was to be reached."""
        self._run(Rate(0, seconds, _AT_ONCE))
        most = self.ask("sustainable", Rate(0, seconds, _AT_ONCE))[0].answered_per_second
        _, unloaded = self.ask("a fifth", Rate(most * _UNLOADED, seconds))
        memory = self._server.resident_mib()
        self._run(Rate(most * _OVERLOAD, _FIRST_SECOND))
        overloaded, late = self.ask("three times", Rate(most * _OVERLOAD, seconds))
        grown = self._server.resident_mib() - memory
        name = self._case.name
        return [
            Target(
                f"{name}: p99 of what is answered at {_OVERLOAD:g} times the sustainable rate",
                f"≤ {_GOAL:g} times the unloaded one ({unloaded:.2f} ms)",
                f"{late / unloaded:.0f} times ({late:.1f} ms)",
                late <= _GOAL * unloaded,
            ),
            Target(
                f"{name}: calls that neither end nor are refused under overload",
                "0",
                str(overloaded.unanswered),
                overloaded.unanswered == 0,
            ),
            Target(
                f"{name}: memory that the overload adds",
                f"≤ {_MOST_MIB:.0f} MiB",
                f"{grown:.0f} MiB",
                grown <= _MOST_MIB,
            ),
        ]

    def ask(self, load: str, rate: Rate) -> tuple[Heard, float]:
        """Ask, add a row; return what was heard, and the p99."""
        begin = self._server.cpu_seconds()
        heard = self._run(rate)
        spent = self._server.cpu_seconds() - begin
        p50 = p99 = 0.0
        if len(heard.latencies) >= 100:
            cuts = quantiles(heard.latencies, n=100)
            p50, p99 = cuts[49], cuts[98]
        elif not heard.refused:
            raise CannotMeasure("the server answered hardly anything")
        self._table.add(
            self._case.name,
            load,
            f"{heard.asked / heard.seconds:,.0f}",
            f"{heard.answered_per_second:,.0f}",
            f"{heard.refused / heard.seconds:,.0f}",
            str(heard.unanswered),
            f"{p50:.2f}",
            f"{p99:.2f}",
            f"{spent / heard.asked * 1e6:.0f}",
            f"{self._server.resident_mib():.0f}",
        )
        return heard, p99

    def _run(self, rate: Rate) -> Heard:
        case = self._case
        return open_loop.run(self._server.address, case.data, rate, _DEADLINE, case.method)


def _pieces(
    questions: Sequence[access_pb2.CheckQueueAccessRequest],
) -> list[Sequence[access_pb2.CheckQueueAccessRequest]]:
    return [questions[at : at + _BATCH] for at in range(0, len(questions), _BATCH)]


def _batch(checks: Sequence[access_pb2.CheckQueueAccessRequest]) -> bytes:
    return access_pb2.BatchCheckQueueAccessRequest(checks=checks).SerializeToString()


if __name__ == "__main__":
    main(measure, __doc__)
