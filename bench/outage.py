"""A directory that is down for a minute under load: answers, deadlines, latency, recovery.

A real server process answers unary checks over gRPC. The groups of all known users expire during
the outage, so the server uses stale groups for them. New users appear all the time.
"""

import asyncio
import gc
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc.aio
import uvloop

from bench.big_directory import BigDirectory, Size, big_directory, groups_of, user
from bench.command import CannotMeasure, Scale, main
from bench.processes import cpu_seconds
from bench.results import Part, Table, Target
from queuegate.v1 import access_pb2, user_group_information_pb2
from tests.support.servers.queuegate_server import RunningServer, running_server

_KNOWN: Final = 10_000
_DEADLINE: Final = 1.0
_NEW_EVERY: Final = 100
_TTL: Final = 40
"""The lifetime of groups in seconds, just short of the outage. Each known user is looked up again
within it, which takes server and directory time that is not the subject here."""
_QUICK_TTL: Final = 3
_METHOD: Final = "/queuegate.v1.AccessService/CheckQueueAccess"
_PHASES: Final = ("before", "outage", "after")

_Ask = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]


@dataclass(slots=True)
class _Phase:
    latencies: list[float] = field(default_factory=list)
    wrong: int = 0
    late: int = 0
    failed_known: int = 0
    failed_new: int = 0
    asked_new: int = 0
    behind: list[float] = field(default_factory=list)
    """The delay of calls in seconds: the generator's own contribution."""
    server: float = 0.0
    generator: float = 0.0
    """The used fraction of a core."""


@dataclass(slots=True)
class _Run:
    phases: dict[str, _Phase] = field(default_factory=lambda: {name: _Phase() for name in _PHASES})
    phase: str = "before"
    back_at: float = 0.0
    recovered_after: float | None = None
    new: Iterator[int] = field(default_factory=lambda: iter(()))


def measure(scale: Scale, folder: Path) -> Part:
    """Run the server against a directory that is killed in the middle."""
    size = Size(20_000, 500)
    seconds = (4.0, 6.0, 6.0) if scale.is_quick else (30.0, 60.0, 30.0)
    rate = 500 if scale.is_quick else 1_000
    ttl = _QUICK_TTL if scale.is_quick else _TTL
    with big_directory(folder, size) as directory:
        config = _configuration(directory, folder, ttl)
        with running_server("--config", str(config)) as server:
            run = uvloop.run(_load(directory, server, rate, seconds))
    return _told(run, rate, seconds, ttl)


def _configuration(directory: BigDirectory, folder: Path, ttl: int) -> Path:
    policy = folder / "queues.yaml"
    policy.write_text(
        "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n"
        '          - {name: team, submitacl: " g7"}\n'
    )
    file = folder / "queuegate.yaml"
    file.write_text(
        f"""\
policy: {{path: {policy}}}
resolvers:
  corp: {directory.resolver()}
partitions:
  default: {{resolver: corp, cache: {{positive_ttl: {ttl}s, failure_ttl: 1s}}}}
"""
    )
    return file


async def _load(
    directory: BigDirectory,
    server: RunningServer,
    rate: int,
    seconds: tuple[float, float, float],
) -> _Run:
    run = _Run(new=iter(range(_KNOWN, directory.size.users)))
    users = directory.size.users
    expected = [7 in groups_of(number, directory.size) for number in range(users)]
    questions = [_question(number) for number in range(users)]
    async with grpc.aio.insecure_channel(server.address) as channel:
        call: _Ask = channel.unary_unary(_METHOD)
        for start in range(0, _KNOWN, 200):
            known = questions[start : start + 200]
            await asyncio.gather(*(call(question, timeout=10) for question in known))
        # Keep the collector from visiting long-lived objects while calls are timed.
        gc.collect()
        gc.freeze()
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()
        for phase, length in zip(_PHASES, seconds, strict=True):
            run.phase = phase
            outcomes = run.phases[phase]
            if phase == "outage":
                await asyncio.to_thread(directory.slapd.kill)
            if phase == "after":
                await asyncio.to_thread(directory.slapd.start)
                run.back_at = time.monotonic()
            begun = loop.time()
            used = cpu_seconds(server.pid), time.process_time()
            for tick in range(int(length * rate)):
                wait = begun + tick / rate - loop.time()
                if wait > 0:
                    await asyncio.sleep(wait)
                outcomes.behind.append(loop.time() - begun - tick / rate)
                is_new = tick % _NEW_EVERY == 0
                number = next(run.new) if is_new else tick * 7919 % _KNOWN
                asked = _check(call, run, questions[number], expected[number], is_new=is_new)
                task = loop.create_task(asked)
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            passed = loop.time() - begun
            outcomes.server = (cpu_seconds(server.pid) - used[0]) / passed
            outcomes.generator = (time.process_time() - used[1]) / passed
        while tasks:
            await asyncio.wait(tasks)
    return run


def _question(number: int) -> bytes:
    information = user_group_information_pb2.UserGroupInformation(user=user(number))
    return access_pb2.CheckQueueAccessRequest(
        user=information, queue="root.team", access=access_pb2.ACCESS_TYPE_SUBMIT
    ).SerializeToString()


async def _check(call: _Ask, run: _Run, question: bytes, expected: bool, *, is_new: bool) -> None:
    phase = run.phases[run.phase]
    phase.asked_new += is_new
    start = time.perf_counter()
    try:
        answer = await call(question, timeout=_DEADLINE)
    except grpc.aio.AioRpcError:
        if is_new:
            phase.failed_new += 1
        else:
            phase.failed_known += 1
    else:
        decision = access_pb2.CheckQueueAccessResponse.FromString(answer)
        phase.wrong += decision.allowed is not expected
        if is_new and run.back_at and run.recovered_after is None:
            run.recovered_after = time.monotonic() - run.back_at
    seconds = time.perf_counter() - start
    phase.late += seconds > _DEADLINE * 1.05
    if not is_new:
        phase.latencies.append(seconds)


def _told(run: _Run, rate: int, seconds: tuple[float, float, float], ttl: int) -> Part:
    table = Table(
        f"{_KNOWN:,} users at {rate:,} checks/s, the directory killed for {seconds[1]:.0f} s",
        "Unary checks over gRPC, sent at fixed times by one process on the server's machine; "
        "every hundredth is about a user that the server has not seen before. Groups live for "
        f"{ttl} s (by default 300), so all of them expire during the outage; afterwards, users "
        "are looked up again one after another, and meanwhile their known groups are used. "
        f"Deadline {_DEADLINE:g} s. Milliseconds from request to answer, for known users; how "
        "late the generator sent requests (p99); and the share of a core that server and "
        "generator used.",
        (
            "phase",
            "checks",
            "p50",
            "p99",
            "sent late, p99",
            "server",
            "generator",
            "wrong",
            "late",
            "known failed",
            "new failed",
        ),
    )
    for name, phase in run.phases.items():
        if len(phase.latencies) < 100:
            raise CannotMeasure(f"too few checks {name}")
        cuts = statistics.quantiles(phase.latencies, n=100)
        table.add(
            name,
            f"{len(phase.latencies) + phase.asked_new:,}",
            f"{cuts[49] * 1000:.2f}",
            f"{cuts[98] * 1000:.2f}",
            f"{statistics.quantiles(phase.behind, n=100)[98] * 1000:.2f}",
            f"{phase.server:.0%}",
            f"{phase.generator:.0%}",
            str(phase.wrong),
            str(phase.late),
            str(phase.failed_known),
            f"{phase.failed_new} of {phase.asked_new}",
        )
    phases = run.phases.values()
    wrong, late = sum(one.wrong for one in phases), sum(one.late for one in phases)
    before, outage, after = (
        statistics.quantiles(run.phases[name].latencies, n=100)[98] * 1000 for name in _PHASES
    )
    failed = sum(one.failed_known for one in phases)
    recovered = run.recovered_after
    targets = [
        Target("wrong answers in the outage run", "0", str(wrong), wrong == 0),
        Target("calls over their deadline", "0", str(late), late == 0),
        Target("known users without an answer", "0", str(failed), failed == 0),
        *(
            Target(
                f"p99 of known users {when}",
                f"as before ({before:.2f} ms), within noise",
                f"{reached:.2f} ms",
                reached < max(2 * before, before + 2),
            )
            for when, reached in (("during the outage", outage), ("after the outage", after))
        ),
        Target(
            "groups of new users after the directory's return",
            "within 5 s",
            "never" if recovered is None else f"{recovered:.2f} s",
            recovered is not None and recovered < 5,
        ),
    ]
    return Part([table], targets)


if __name__ == "__main__":
    main(measure, __doc__)
