"""A directory that dies for a minute under load: answers, deadlines, latency, recovery.

A real server process answers unary checks over gRPC. Groups expire within the outage, so
that known users live on stale answers; new users appear all the time.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.big_directory import BigDirectory, Size, big_directory, groups_of, user
from bench.command import CannotMeasure, Scale, main
from bench.results import Part, Table, Target
from queuegate.aio import Client
from queuegate.exceptions import QueuegateError
from tests.ldap.slapd import GROUPS, PEOPLE, SERVICE
from tests.running import running_server

_KNOWN: Final = 10_000
_DEADLINE: Final = 1.0
_NEW_EVERY: Final = 100
_PHASES: Final = ("before", "outage", "after")


@dataclass(slots=True)
class _Phase:
    latencies: list[float] = field(default_factory=list)
    wrong: int = 0
    late: int = 0
    failed_known: int = 0
    failed_new: int = 0
    asked_new: int = 0


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
    rate = 500 if scale.is_quick else 2_000
    with big_directory(folder, size) as directory:
        config = _configuration(directory, folder, 3 if scale.is_quick else 20)
        with running_server("--config", str(config)) as server:
            run = asyncio.run(_load(directory, server.address, rate, seconds))
    return _told(run, rate, seconds)


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
  corp:
    type: ldap
    urls: ["{directory.slapd.url}"]
    ca_file: {directory.ca_file}
    bind_dn: {SERVICE}
    bind_password_file: {directory.password_file}
    user_base: {PEOPLE}
    group_base: {GROUPS}
    groups_from: member_of
partitions:
  default: {{resolver: corp, cache: {{positive_ttl: {ttl}s, failure_ttl: 1s}}}}
"""
    )
    return file


async def _load(
    directory: BigDirectory, address: str, rate: int, seconds: tuple[float, float, float]
) -> _Run:
    run = _Run(new=iter(range(_KNOWN, directory.size.users)))
    expected = [7 in groups_of(number, directory.size) for number in range(directory.size.users)]
    async with Client(address, timeout=_DEADLINE) as client:
        for start in range(0, _KNOWN, 200):
            numbers = range(start, start + 200)
            await asyncio.gather(
                *(client.check(user(number), "root.team", timeout=10) for number in numbers)
            )
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()
        for phase, length in zip(_PHASES, seconds, strict=True):
            run.phase = phase
            if phase == "outage":
                directory.slapd.kill()
            if phase == "after":
                await asyncio.to_thread(directory.slapd.start)
                run.back_at = time.monotonic()
            begun = loop.time()
            for tick in range(int(length * rate)):
                wait = begun + tick / rate - loop.time()
                if wait > 0:
                    await asyncio.sleep(wait)
                is_new = tick % _NEW_EVERY == 0
                number = next(run.new) if is_new else tick * 7919 % _KNOWN
                task = asyncio.create_task(
                    _check(client, run, number, expected[number], is_new=is_new)
                )
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            with contextlib.suppress(ValueError):
                await asyncio.wait(set(tasks))
    return run


async def _check(
    client: Client,
    run: _Run,
    number: int,
    expected: bool,
    *,
    is_new: bool,
) -> None:
    phase = run.phases[run.phase]
    phase.asked_new += is_new
    start = time.perf_counter()
    try:
        decision = await client.check(user(number), "root.team")
    except QueuegateError:
        if is_new:
            phase.failed_new += 1
        else:
            phase.failed_known += 1
    else:
        phase.wrong += bool(decision) is not expected
        if is_new and run.back_at and run.recovered_after is None:
            run.recovered_after = time.monotonic() - run.back_at
    seconds = time.perf_counter() - start
    phase.late += seconds > _DEADLINE * 1.05
    if not is_new:
        phase.latencies.append(seconds)


def _told(run: _Run, rate: int, seconds: tuple[float, float, float]) -> Part:
    table = Table(
        f"{_KNOWN:,} users at {rate:,} checks/s, the directory killed for {seconds[1]:.0f} s",
        "Unary checks over gRPC from one client process beside the server; every hundredth is by a "
        f"user that was never seen. Deadline {_DEADLINE:g} s. Milliseconds, of known users.",
        ("phase", "checks", "p50", "p99", "wrong", "late", "known failed", "new failed"),
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
            str(phase.wrong),
            str(phase.late),
            str(phase.failed_known),
            f"{phase.failed_new} of {phase.asked_new}",
        )
    phases = run.phases.values()
    wrong, late = sum(one.wrong for one in phases), sum(one.late for one in phases)
    before, outage = (
        statistics.quantiles(run.phases[name].latencies, n=100)[98] * 1000
        for name in ("before", "outage")
    )
    failed = sum(one.failed_known for one in phases)
    recovered = run.recovered_after
    targets = [
        Target("wrong answers in the outage run", "0", str(wrong), wrong == 0),
        Target("calls over their deadline", "0", str(late), late == 0),
        Target("known users without an answer", "0", str(failed), failed == 0),
        Target(
            "p99 of known users in the outage",
            f"as before ({before:.2f} ms), within noise",
            f"{outage:.2f} ms",
            outage < max(2 * before, before + 2),
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
