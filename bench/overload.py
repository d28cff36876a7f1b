"""Three times as many calls as the server can answer: answers, latency and memory."""

from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from typing import Final, NamedTuple

from bench import bare, open_loop, policies, processes
from bench.command import CannotMeasure, Scale, main
from bench.open_calls import Heard
from bench.open_loop import Rate
from bench.processes import Running
from bench.questions import Questions, delimited
from bench.results import Part, Table, Target
from queuegate.v1 import access_pb2

_QUESTIONS: Final = 4_000
_NEW: Final = 150_000
"""Enough different questions that the response cache never has the next one."""
_BATCH: Final = 100
_LARGE: Final = 1_000
_DEADLINE: Final = 1.0
_AT_ONCE: Final = 50
_FEW: Final = 8
_CALLS: Final = 200
_FEWEST: Final = 100
"""The minimum number of answers for a percentile. There must be this many if there is no overload.
"""
_UNLOADED: Final = 0.2
_OVERLOAD: Final = 3.0
_GOAL: Final = 5.0
_MAX_MIB: Final = 64.0
_FIRST_SECOND: Final = 1.0
_CONSTANT: Final = access_pb2.CheckQueueAccessResponse(allowed=True).SerializeToString()
_SET: Final = 1 / 8
"""The rate limit of a caller as a fraction of the sustainable rate: the server reads and refuses
three times that rate with time to spare."""
_BURST_SECONDS: Final = 0.01

_NOTHING: Final = 0.001


class _Case(NamedTuple):
    """The calls to a server, and the concurrency at which its sustainable rate is measured."""

    name: str
    transport: str
    method: str
    data: Path
    at_once: int = _AT_ONCE


def measure(scale: Scale, folder: Path) -> Part:
    """Find the sustainable rate of each case, then ask at fractions and multiples of it."""
    folder.mkdir(exist_ok=True)
    specs = policies.generate(policies.MEDIUM)
    policy = folder / "queues.yaml"
    policy.write_text(policies.to_yaml(specs))
    cases = _cases(Questions(specs), folder)
    table = Table(
        f"Overload: {_OVERLOAD:g} times the sustainable rate",
        "Open loop: each call is sent when it is due, whatever happened to earlier calls, with a "
        f"deadline of {_DEADLINE:g} s; latency is measured from the time at which the call was "
        "due, and only for answers. Server and generator have a core each. *Sustainable* is the "
        f"rate that the server reaches with {_AT_ONCE} calls at once, or {_FEW} long ones; *a "
        f"fifth* of it shows the unloaded server; the overload lasts for {_FIRST_SECOND:g} s "
        "before it is measured. *Refused* calls failed with `RESOURCE_EXHAUSTED`; *dropped* "
        "calls failed otherwise, through gRPC or a lost connection. *Late* calls were sent, and "
        "cancelled when their deadline passed; *unsent* calls waited in the generator until "
        "then, because the server accepted no more. *CPU* is the server's processor time per "
        "call, however it ended. Latencies are in milliseconds.",
        (
            "calls",
            "load",
            "asked/s",
            "answered/s",
            "refused/s",
            "dropped",
            "late",
            "unsent",
            "p50",
            "p99",
            "CPU, µs",
            "memory, MiB",
        ),
    )
    part = Part([table])
    seconds = max(1.0, scale.seconds * 2)
    most = []
    for number, case in enumerate(cases):
        command = processes.queuegate(policy, case.transport)
        with processes.running(command, folder / str(number), on_own_core=True) as server:
            load = _Load(server, case, table)
            most.append(load.sustainable(seconds))
            part.targets += load.measure(seconds, most[-1])
    rate = most[0] * _SET
    for transport in ("grpcio", "native"):
        command = [*processes.queuegate(policy, transport), *_at_most(rate)]
        with processes.running(command, folder / f"set-{transport}", on_own_core=True) as server:
            case = cases[0]._replace(name=f"single, {transport}, limits.caller_rate {rate:,.0f}")
            part.targets += _Load(server, case, table).measure(seconds, rate)
    command = [*processes.queuegate(policy), *_at_most(_NOTHING)]
    with processes.running(command, folder / "refusing", on_own_core=True) as server:
        refusing = _Load(server, cases[0], table)
        refusing.ask("all refused, over their rate", Rate(0, max(1.0, scale.seconds), _AT_ONCE))
    answers = folder / "constant"
    answers.mkdir()
    for name in (bare.UNARY, bare.BATCH):
        (answers / name).write_bytes(_CONSTANT)
    with processes.running(processes.bare(answers), folder / "bare", on_own_core=True) as server:
        constant = cases[0]._replace(name="bare handler (constant answers), grpcio")
        load = _Load(server, constant, table)
        load.measure(seconds, load.sustainable(seconds))
    part.remarks.append(_WHY)
    return part


def _cases(questions: Questions, folder: Path) -> list[_Case]:
    """Write the request messages to a folder."""
    known = [one.message() for one in questions.mixed(_QUESTIONS)]
    new = [one.message() for one in questions.mixed(_NEW)]
    lists = [access_pb2.ListQueuesRequest(user=one.user, access=one.access) for one in known]
    single, batch, large, listed = (folder / name for name in ("single", "batch", "large", "list"))
    single.write_bytes(delimited(one.SerializeToString() for one in known))
    batch.write_bytes(delimited(map(_batch, _pieces(known, _BATCH))))
    large.write_bytes(delimited(map(_batch, _pieces(new, _LARGE))))
    listed.write_bytes(delimited(one.SerializeToString() for one in lists))
    batches = f"batches of {_BATCH}, asked before"
    never = f"batches of {_LARGE:,}, never asked before"
    of_list = "lists of the user's queues"
    method = "BatchCheckQueueAccess"
    return [
        _Case("single, asked before, grpcio", "grpcio", "CheckQueueAccess", single),
        _Case(f"{batches}, grpcio", "grpcio", method, batch),
        _Case(f"{batches}, native", "native", method, batch),
        _Case(f"{never}, grpcio", "grpcio", method, large, _FEW),
        _Case(f"{never}, native", "native", method, large, _FEW),
        _Case(f"{of_list}, grpcio", "grpcio", "ListQueues", listed, _FEW),
        _Case(f"{of_list}, native", "native", "ListQueues", listed, _FEW),
    ]


_WHY: Final = (
    "Where answering a call takes much more work than reading and refusing it, the server "
    "sheds load: long calls (batches, columns, lists of queues) are processed one after "
    "another, first come, first served, and a call whose turn comes too late is refused "
    "(100 ms, an eighth of it once an overload lasts). The same applies to single "
    "questions about users whose groups must be looked up: with a directory that takes 200 ms, "
    "64 lookups at once, and three times as many new users as it can answer, p99 was 0.93 s "
    "over grpcio and 0.91 s over native (2.2 s before the queue was kept short), compared with "
    "0.20 s without load, and nothing was dropped.\n\n"
    "Where the answer is known, the goal cannot be met on one core: ending a call with a "
    "status costs grpc.aio at least as much as answering it (*all refused*), so at three times "
    "the rate it can do neither. Nor can a *bare handler* that returns a constant: our own "
    "work is not the cause. Calls that grpc.aio cannot accept wait in gRPC's core, which "
    "reports no waiting times. When 1,000 calls are waiting, the core begins to drop some; "
    "when 3,000 are, it drops all of them, as CANCELLED, at about 30 µs each. Two options were "
    "tried, with three times the load on 8 connections, and with 1,000 calls at once on one "
    "connection, as a scheduler sends when it starts. `grpc.server.max_pending_requests` at "
    "300 (hard limit 600) has a p99 of 133 ms, and drops 400 of the 1,000; at 100 (200) it "
    "drops 630. `grpc.max_concurrent_streams` at 100 or 250 limits the calls that wait in the "
    "server (p99 193 ms from when a call was sent; before that it waits at the client), but "
    "gRPC counts a call for longer than the client does, and refuses 125 to 350 of the 1,000; "
    "at 250, the server answered nothing at all in one of two runs. While a directory hangs, "
    "such a limit also holds up calls that do not need the directory. So neither option is "
    "set.\n\n"
    "Over native, the server reads 100 known questions in half the time that it takes to answer "
    "them. Late calls waited in the sockets and in the Rust part, which holds up to 1,024 calls "
    "per connection: Python does not see them there, and their messages use memory. The "
    "generator could not send some of the calls, and the Rust part closes whole connections "
    "(`too_many_resets`) when many of their calls are cancelled at the deadline. With a limit of "
    "128 calls per connection, calls waited about a third as long after they were sent, and the "
    "rest of the time at the client; no more of them were answered."
)


class _Load:
    """Asks one server at several rates."""

    def __init__(self, server: Running, case: _Case, table: Table) -> None:
        """Measure a server with these calls, and add the rows to a table."""
        self._server = server
        self._case = case
        self._table = table

    def sustainable(self, seconds: float) -> float:
        """Return the number of calls that the server answers per second."""
        at_once = Rate(0, seconds, self._case.at_once)
        self._run(at_once)
        most = self.ask("sustainable", at_once)[0].answered_per_second
        if not most:
            raise CannotMeasure("the server answered nothing")
        return most

    def measure(self, seconds: float, most: float) -> list[Target]:
        """Ask at a fraction and at a multiple of the rate `most`, and return the targets."""
        rate = most * _UNLOADED
        heard, unloaded = self.ask("a fifth", Rate(rate, max(seconds, _CALLS / rate)))
        if len(heard.latencies) < _FEWEST:
            raise CannotMeasure("the server answered hardly anything")
        memory = self._server.resident_mib()
        self._run(Rate(most * _OVERLOAD, _FIRST_SECOND))
        overloaded, late = self.ask("three times", Rate(most * _OVERLOAD, seconds))
        grown = self._server.resident_mib() - memory
        name = self._case.name
        return [
            Target(
                f"{name}: p99 of answered calls at {_OVERLOAD:g} times the sustainable rate",
                f"≤ {_GOAL:g} times the p99 without load ({unloaded:.2f} ms)",
                f"{late / unloaded:.0f} times ({late:.1f} ms)",
                late <= _GOAL * unloaded,
            ),
            Target(
                f"{name}: calls neither answered nor refused under overload",
                "0",
                str(overloaded.dropped + overloaded.late),
                overloaded.dropped + overloaded.late == 0,
            ),
            Target(
                f"{name}: memory added by the overload",
                f"≤ {_MAX_MIB:.0f} MiB",
                f"{grown:.0f} MiB",
                grown <= _MAX_MIB,
            ),
        ]

    def ask(self, load: str, rate: Rate) -> tuple[Heard, float]:
        """Ask and add a row. Return the outcomes and the p99, or the deadline if there are too few
        answers for one.
        """
        begin = self._server.cpu_seconds()
        heard = self._run(rate)
        spent = self._server.cpu_seconds() - begin
        p99 = _DEADLINE * 1e3
        shown = ("-", "-")
        if len(heard.latencies) >= _FEWEST:
            cuts = quantiles(heard.latencies, n=100)
            p99 = cuts[98]
            shown = (f"{cuts[49]:.2f}", f"{p99:.2f}")
        self._table.add(
            self._case.name,
            load,
            f"{heard.asked / heard.seconds:,.0f}",
            f"{heard.answered_per_second:,.0f}",
            f"{heard.refused / heard.seconds:,.0f}",
            str(heard.dropped),
            str(heard.late),
            str(heard.unsent),
            *shown,
            f"{spent / heard.asked * 1e6:.0f}",
            f"{self._server.resident_mib():.0f}",
        )
        return heard, p99

    def _run(self, rate: Rate) -> Heard:
        case = self._case
        return open_loop.run(self._server.address, case.data, rate, _DEADLINE, case.method)


def _at_most(per_second: float) -> tuple[str, ...]:
    """Return the arguments that limit the rate of a caller."""
    burst = max(1, round(per_second * _BURST_SECONDS))
    settings = (f"limits.caller_rate={per_second:g}", f"limits.caller_burst={burst}")
    return tuple(word for setting in settings for word in ("--set", setting))


def _pieces(
    questions: Sequence[access_pb2.CheckQueueAccessRequest], size: int
) -> list[Sequence[access_pb2.CheckQueueAccessRequest]]:
    return [questions[at : at + size] for at in range(0, len(questions), size)]


def _batch(checks: Sequence[access_pb2.CheckQueueAccessRequest]) -> bytes:
    return access_pb2.BatchCheckQueueAccessRequest(checks=checks).SerializeToString()


if __name__ == "__main__":
    main(measure, __doc__)
