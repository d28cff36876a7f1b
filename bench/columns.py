"""Checks as columns: in this process, from the bytes of a request to the bytes of its answer, and
to a running server.
"""

import random
import statistics
import time
from pathlib import Path
from typing import Final, NamedTuple

import grpc
import uvloop

from bench import policies, processes
from bench.command import CannotMeasure, Scale, main
from bench.load import Amount
from bench.processes import Running
from bench.questions import delimited
from bench.raw import Raw
from bench.results import Part, Table, Target, middle, spread
from bench.timing import microseconds_each_awaited
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.decisions.log import DecisionLog
from queuegate_server.engine import Engine
from queuegate_server.identity.manager import ResolverManager
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.reloads import ReloadCause
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.settings.model import PolicySource, Settings
from queuegate_server.throttling.byte_budget import ByteBudget

_SHAPES: Final = ((1_000, 20, 20), (10_000, 100, 100), (100_000, 200, 200))
_GOAL: Final = 2_000_000
_METHOD: Final = "CheckQueueAccessColumns"
_AT_ONCE: Final = 4
_GROUPS: Final = 5


def measure(scale: Scale, folder: Path) -> Part:
    """Serve a medium-sized policy, first in this process and then from a server."""
    specs = policies.generate(policies.MEDIUM)
    file = folder / "queues.yaml"
    file.write_text(policies.to_yaml(specs))
    paths = [spec.path for spec in specs]
    answers: dict[int, bytes] = {}
    part = uvloop.run(_measure(scale, file, paths, answers))
    table = Table(
        "Checks as columns (CheckQueueAccessColumns)",
        f"The same questions, asked before, over one connection with {_AT_ONCE} calls at once by "
        "`bench.raw`, which does not decode answers; the answers are bits. The server's "
        "processor time includes all threads and the kernel.",
        ("transport", "questions", "calls/s", "core busy", "CPU µs/call", "checks/s on one core"),
    )
    served = []
    for transport in ("grpcio", "native"):
        command = processes.queuegate(file, transport)
        with processes.running(command, folder / transport, on_own_core=True) as server:
            serving = _Serving(server, folder / f"{transport}-data", transport)
            served.append(_ask(scale, serving, paths, answers, table))
    return Part([*part.tables, table], [*part.targets, *served])


class _Serving(NamedTuple):
    """A server and its transport."""

    server: Running
    folder: Path
    transport: str


def _ask(
    scale: Scale, serving: _Serving, paths: list[str], answers: dict[int, bytes], table: Table
) -> Target:
    """Ask a server and add rows. Return the targets for the largest request."""
    server, folder, transport = serving
    folder.mkdir()
    reached = 0.0
    with grpc.insecure_channel(server.address) as channel:
        ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/queuegate.v1.AccessService/{_METHOD}"
        )
        for count, users, queues in _SHAPES:
            data = folder / str(count)
            request = _request(count, users, paths[-queues:], with_decisions=False)
            data.write_bytes(delimited([request]))
            if ask(request, timeout=60) != answers[count]:
                raise CannotMeasure(f"{count} columns have other answers over {transport}")
            rates, busy, micro = [], [], []
            for _ in range(scale.rounds):
                begin = server.cpu_seconds()
                load = Raw().run(server.address, _METHOD, data, Amount(_AT_ONCE, scale.seconds))
                spent = server.cpu_seconds() - begin
                rates.append(load.per_second)
                busy.append(spent / load.seconds)
                micro.append(spent / load.calls * 1e6)
            reached = count * 1e6 / statistics.median(micro)
            row = (spread(rates), middle(busy, ".0%"), spread(micro), f"{reached:,.0f}")
            table.add(transport, f"{count:,}", *row)
    what = f"checks/s on one core as columns of {count:,} over {transport}: asked before"
    return Target(what, f"≥ {_GOAL:,}", f"{reached:,.0f}", reached >= _GOAL)


async def _measure(scale: Scale, file: Path, paths: list[str], answers: dict[int, bytes]) -> Part:
    settings = Settings(policy=PolicySource(path=file))
    engine = Engine(time.monotonic)
    sources = ResolverManager(settings, time.monotonic, time.time)
    table = Table(
        "Checks as columns, without the network",
        f"`AccessServicer.CheckQueueAccessColumns`, {policies.MEDIUM:,} queues, users of "
        f"{_GROUPS} groups, random pairs, so some repeat; all pairs have been asked before, "
        "except in the rows *new*, where none has. Processor time. The response cache is keyed "
        "by the bytes of the CheckQueueAccessRequest that a pair stands for; building these "
        "bytes and looking them up take most of the time.",
        ("questions", "users", "queues", "what", "µs for one check", "checks/s on one core"),
    )
    slowest = 0.0
    try:
        state = await Reloader(settings, sources, engine, time.time).reload(ReloadCause.START)
        if not state.succeeded:
            raise CannotMeasure(f"the generated policy is not served: {state.diagnostics[:3]}")
        for count, users, queues in _SHAPES:
            for what in ("bits", "decisions", "new"):
                data = _request(count, users, paths[-queues:], with_decisions=what == "decisions")
                known = _new_servicer(engine)
                answer = await known.CheckQueueAccessColumns(data, trusted=True)
                if what == "bits":
                    answers[count] = answer

                async def ask(
                    data: bytes = data,
                    known: AccessServicer = known,
                    what: str = what,
                    count: int = count,
                ) -> int:
                    servicer = _new_servicer(engine) if what == "new" else known
                    await servicer.CheckQueueAccessColumns(data, trusted=True)
                    return count

                results = [
                    await microseconds_each_awaited(ask, scale.seconds / 4)
                    for _ in range(scale.rounds)
                ]
                middle = statistics.median(results)
                if what == "bits":
                    slowest = max(slowest, middle)
                shape = (f"{count:,}", str(users), str(queues), what)
                table.add(*shape, spread(results, ".3f"), f"{1e6 / middle:,.0f}")
    finally:
        await sources.close()
    reached = 1e6 / slowest
    what = "checks/s on one core as columns, in process, asked before, slowest shape"
    return Part([table], [Target(what, f"≥ {_GOAL:,}", f"{reached:,.0f}", reached >= _GOAL)])


def _new_servicer(engine: Engine) -> AccessServicer:
    """Return a servicer with an empty response cache."""
    return AccessServicer(
        engine,
        CallLog(DecisionLog(), time.time),
        LongCallQueue(time.monotonic, 60, {}, ByteBudget(1 << 20)),
        clock=time.monotonic,
    )


def _request(count: int, users: int, paths: list[str], *, with_decisions: bool) -> bytes:
    rng = random.Random(count)
    return access_pb2.CheckQueueAccessColumnsRequest(
        access=access_pb2.ACCESS_TYPE_SUBMIT,
        users=[
            UserGroupInformation(
                user=f"user{number}", groups=[f"team{rng.randrange(1000)}" for _ in range(_GROUPS)]
            )
            for number in range(users)
        ],
        queues=paths,
        user_indexes=[rng.randrange(users) for _ in range(count)],
        queue_indexes=[rng.randrange(len(paths)) for _ in range(count)],
        with_decisions=with_decisions,
    ).SerializeToString()


if __name__ == "__main__":
    main(measure, __doc__)
