"""Checks in this process, from the engine to the bytes of a batch, without a network."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import uvloop

from bench import policies
from bench.command import CannotMeasure, Scale, main
from bench.questions import Question, Questions, batches
from bench.results import Part, Table, spread
from bench.timing import microseconds_each, microseconds_each_awaited
from queuegate.policy.decision import Access
from queuegate.v1 import access_pb2
from queuegate_server.decisions.log import DecisionLog
from queuegate_server.engine import Engine, Query
from queuegate_server.identity.manager import ResolverManager
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.admission_queue import AdmissionQueue
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.settings.model import PolicySource, Settings
from queuegate_server.throttling import ByteBudget

_BATCH: Final = 1_000
_BATCHES: Final = 20


def measure(scale: Scale, folder: Path) -> Part:
    """Serve a medium-sized policy in this process and ask it."""
    return uvloop.run(_measure(scale, folder))


async def _measure(scale: Scale, folder: Path) -> Part:
    specs = policies.generate(policies.MEDIUM)
    asked = Questions(specs).mixed(_BATCH * _BATCHES)
    file = folder / "queues.yaml"
    file.write_text(policies.to_yaml(specs))
    settings = Settings(policy=PolicySource(path=file))
    engine = Engine(time.monotonic)
    sources = ResolverManager(settings, time.monotonic, time.time)
    try:
        state = await Reloader(settings, sources, engine, time.time).reload()
        if not state.succeeded:
            raise CannotMeasure(f"the generated policy is not served: {state.diagnostics[:3]}")
        requests = [batch.SerializeToString() for batch in batches(asked, _BATCH)]
        await _check(new_servicer(engine), requests, asked)
        return Part([await _table(engine, requests, asked, scale)])
    finally:
        await sources.close()


async def _table(
    engine: Engine, requests: Sequence[bytes], asked: Sequence[Question], scale: Scale
) -> Table:
    table = Table(
        "Checks without the network",
        f"One thread, {policies.MEDIUM:,} queues, {_BATCHES} different batches of {_BATCH:,} "
        "different questions in turn; all users' groups are cached. The rows show the engine "
        "alone; `AccessServicer.BatchCheckQueueAccess` with an empty response cache, from "
        "request bytes to response bytes; and the same with a full cache. Processor time.",
        ("what", "µs for one check", "checks/s on one core"),
    )
    served = engine.snapshot.find("")
    queries = [Query(one.user, one.groups, served, one.queue, Access.SUBMIT) for one in asked]

    def check() -> int:
        for query in queries:
            engine.check(query)
        return len(queries)

    warm = new_servicer(engine)
    await _answer(warm, requests)
    works: list[tuple[str, Callable[[], Awaitable[int]]]] = [
        (
            "a batch, cache empty",
            lambda: _answer(new_servicer(engine), requests),
        ),
        ("a batch, cache full", lambda: _answer(warm, requests)),
    ]
    seconds = scale.seconds / 2
    rows: dict[str, list[float]] = {"`engine.check`": [], **{name: [] for name, _ in works}}
    for _ in range(scale.rounds):
        rows["`engine.check`"].append(microseconds_each(lambda: check, seconds))
        for name, work in works:
            rows[name].append(await microseconds_each_awaited(work, seconds))
    for name, found in rows.items():
        table.add(name, spread(found, ".2f"), f"{1e6 / statistics.median(found):,.0f}")
    return table


async def _answer(servicer: AccessServicer, requests: Sequence[bytes]) -> int:
    for request in requests:
        await servicer.BatchCheckQueueAccess(request, trusted=True)
    return len(requests) * _BATCH


def new_servicer(engine: Engine) -> AccessServicer:
    """Return a servicer with an empty response cache."""
    return AccessServicer(
        engine,
        CallLog(DecisionLog(), time.time),
        AdmissionQueue(time.monotonic, 60, {}, ByteBudget(1 << 20)),
        clock=time.monotonic,
    )


async def _check(
    access: AccessServicer, requests: Sequence[bytes], asked: Sequence[Question]
) -> None:
    """Compare all answers with the expected ones. This also caches the groups of all users."""
    answers = await asyncio.gather(
        *(access.BatchCheckQueueAccess(request, trusted=True) for request in requests)
    )
    results = [
        result
        for answer in answers
        for result in access_pb2.BatchCheckQueueAccessResponse.FromString(answer).results
    ]
    for question, result in zip(asked, results, strict=True):
        if not result.HasField("decision") or result.decision.allowed != question.allowed:
            raise CannotMeasure(f"{question} was answered by {result}")


if __name__ == "__main__":
    main(measure, __doc__)
