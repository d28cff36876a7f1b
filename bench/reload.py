"""Measures how long the event loop is blocked while a very large policy is reloaded."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import grpc
import uvloop

from bench import open_loop, policies, processes
from bench.command import CannotMeasure, Scale, main
from bench.open_calls import Heard
from bench.open_loop import Rate
from bench.questions import Questions, delimited
from bench.results import Part, Table, Target, spread
from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate_server.engine import Engine
from queuegate_server.identity.manager import ResolverManager
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.reloads import ReloadCause
from queuegate_server.settings.model import PolicySource, Settings

_GOAL: Final = 50.0
_MEBIBYTE_QUEUES: Final = 4_800
"""The number of queues in a generated policy of about 1 MiB, the capacity of a ConfigMap."""
_LONGEST_CALL: Final = {policies.LARGE: _GOAL, _MEBIBYTE_QUEUES: 20.0}
"""The target for the longest call, in milliseconds, by the number of queues."""
_LOAD_SECONDS: Final = 5.0
_TICK_SECONDS: Final = 0.001
_AFTERWARDS: Final = 3.0
_QUESTIONS: Final = 4_000
_CALLS_PER_SECOND: Final = 500
_DEADLINE: Final = 2.0
_MIN_SECONDS: Final = 4.0
_LOOK_SECONDS: Final = 0.2


def measure(scale: Scale, folder: Path) -> Part:
    """Load a policy repeatedly, first beside a task that only sleeps, then in a server that answers
    calls meanwhile.
    """
    part = uvloop.run(_measure(scale, folder))
    table = Table(
        "Single checks while a policy is loaded again",
        f"{_CALLS_PER_SECOND} calls/s over grpcio, open loop, until the file has been replaced, "
        f"read and served, and the old policy has been freed; {_QUESTIONS:,} different questions "
        "in turn. The server has one core, which also does the loading: the policy is parsed in "
        "a niced child process on the same core. Milliseconds.",
        ("queues", "text, MiB", "meanwhile", "calls", "p50", "p99", "p99.9", "longest"),
    )
    targets = part.targets
    for queues in (10_000,) if scale.is_quick else _LONGEST_CALL:
        targets += _under_load(scale, folder, queues, table)
    return Part([*part.tables, table], targets)


async def _measure(scale: Scale, folder: Path) -> Part:
    size = 10_000 if scale.is_quick else policies.LARGE
    text = policies.to_yaml(policies.generate(size)).encode()
    file = folder / "queues.yaml"
    file.write_bytes(text)
    settings = Settings(policy=PolicySource(path=file))
    engine = Engine(time.monotonic)
    sources = ResolverManager(settings, time.monotonic, time.time)
    reloader = Reloader(settings, sources, engine, time.time)
    late: list[float] = []
    seconds: list[float] = []
    longest: list[float] = []
    await reloader.reload(ReloadCause.START)
    ticking = asyncio.create_task(_tick(late))
    try:
        for number in range(scale.rounds):
            await asyncio.to_thread(file.write_bytes, text + f"# {number}\n".encode())
            late.clear()
            start = time.monotonic()
            state = await reloader.reload(ReloadCause.START)
            seconds.append(time.monotonic() - start)
            if not state.succeeded or engine.snapshot.policy.revision != number + 2:
                raise CannotMeasure(f"the policy was not loaded again: {state.diagnostics[:3]}")
            await asyncio.sleep(_AFTERWARDS)  # the old one is freed
            longest.append(max(late) * 1e3)
    finally:
        ticking.cancel()
        await sources.close()
    table = Table(
        "Loading a very large policy while serving",
        "`reload.Reloader` in this process, beside a task that repeatedly sleeps for 1 ms: by "
        f"how much its longest sleep overran, up to {_AFTERWARDS:.0f} s after the swap. A "
        "reloaded policy is parsed in a child process.",
        ("queues", "reload, s", "longest delay, ms"),
    )
    table.add(f"{size:,}", spread(seconds, ".2f"), spread(longest, ".1f"))
    middle = median(longest)
    what = (
        f"longest event loop delay while {size:,} queues are reloaded, "
        f"median of {len(longest)} runs"
    )
    return Part([table], [Target(what, f"< {_GOAL:.0f} ms", f"{middle:.1f} ms", middle < _GOAL)])


def _under_load(scale: Scale, folder: Path, queues: int, table: Table) -> list[Target]:
    """Replace a server's file repeatedly while calls come at a fixed rate."""
    specs = policies.generate(queues)
    text = policies.to_yaml(specs).encode()
    policy, data = folder / f"served-{queues}.yaml", folder / "questions"
    policy.write_bytes(text)
    asked = Questions(specs).mixed(_QUESTIONS)
    data.write_bytes(delimited(one.message().SerializeToString() for one in asked))
    command = processes.queuegate(policy)
    with processes.running(command, folder / f"server-{queues}", on_own_core=True) as server:
        seconds = max(_MIN_SECONDS, scale.seconds * 12)
        rate = Rate(_CALLS_PER_SECOND, seconds)
        open_loop.run(server.address, data, rate, _DEADLINE)  # warms the server up
        alone = open_loop.run(server.address, data, rate, _DEADLINE)
        beside: list[Heard] = []
        took: list[float] = []
        with ThreadPoolExecutor(1) as pool:
            for revision in range(2, scale.rounds + 2):
                asking = pool.submit(open_loop.run, server.address, data, rate, _DEADLINE)
                time.sleep(seconds / 20)
                policy.write_bytes(text + f"# {revision}\n".encode())
                took.append(_until(revision, server.address, asking))
                beside.append(asking.result())
    size = (queues, len(text) / 2**20)
    _tell(table, size, "nothing", [alone])
    what = f"the policy is loaded, in {spread(took, '.1f')} s, {scale.rounds} times"
    longest = _tell(table, size, what, beside)
    goal = _LONGEST_CALL.get(queues, _GOAL)
    return [
        Target(
            f"longest call at {_CALLS_PER_SECOND}/s while {queues:,} queues are reloaded, "
            f"median of {scale.rounds} runs",
            f"< {goal:.0f} ms",
            f"{longest:.1f} ms",
            longest < goal,
        ),
        Target(
            f"reload of {queues:,} queues at {_CALLS_PER_SECOND} calls/s, "
            f"median of {scale.rounds} runs",
            f"< {_LOAD_SECONDS:.0f} s",
            f"{median(took):.1f} s",
            median(took) < _LOAD_SECONDS,
        ),
    ]


def _tell(table: Table, size: tuple[int, float], what: str, heard: Sequence[Heard]) -> float:
    """Add a row and return the median of the longest latencies."""
    lost = sum(one.refused + one.unanswered for one in heard)
    if lost:
        raise CannotMeasure(f"{lost} calls were refused or not answered")
    cuts = [quantiles(one.latencies, n=1000) for one in heard]
    longest = [max(one.latencies) for one in heard]
    figures = (spread([cut[at] for cut in cuts], ".2f") for at in (499, 989, 998))
    asked = sum(one.asked for one in heard)
    queues, mebibytes = size
    table.add(
        f"{queues:,}",
        f"{mebibytes:.1f}",
        what,
        f"{asked:,}",
        *figures,
        spread(longest, ".2f"),
    )
    return median(longest)


def _until(revision: int, address: str, asking: Future[Heard]) -> float:
    """Wait until that policy is served. Return the seconds it took, which must fall within the
    calls.
    """
    start = time.monotonic()
    with grpc.insecure_channel(address) as channel:
        stub = access_pb2_grpc.AccessServiceStub(channel)
        request = access_pb2.CheckQueueAccessRequest(
            queue="root", access=access_pb2.ACCESS_TYPE_SUBMIT
        )
        request.user.user = "somebody"
        while stub.CheckQueueAccess(request, timeout=_DEADLINE).policy_revision < revision:
            if asking.done():
                raise CannotMeasure("the policy was not loaded again while calls were made")
            time.sleep(_LOOK_SECONDS)
    return time.monotonic() - start


async def _tick(late: list[float]) -> None:
    last = time.monotonic()
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        now = time.monotonic()
        late.append(now - last - _TICK_SECONDS)
        last = now


if __name__ == "__main__":
    main(measure, __doc__)
