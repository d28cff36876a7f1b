"""A round: clients and events against a real server for some seconds, then the check."""

import asyncio
import random
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.resilience.history.checker import Violation, check
from tests.resilience.history.clients import keep_asking
from tests.resilience.history.events import Events, Service, World
from tests.resilience.history.records import History
from tests.support.servers.queuegate_server import over

WORKERS = 2


@dataclass
class Round:
    """What came out."""

    histories: list[History]
    violations: list[tuple[History, Violation]]
    events: Counter[str]
    check_seconds: float
    calls: Counter[str] = field(init=False)
    """How many calls ended with each status."""
    decisions: int = field(init=False)

    def __post_init__(self) -> None:
        calls = [call for history in self.histories for call in history.calls]
        self.calls = Counter(call.status for call in calls)
        self.decisions = sum(len(call.seen) for call in calls)


def run(
    seconds: float,
    *,
    transport: str = "grpcio",
    workers: int = 1,
    restarts: int = 0,
    seed: int | None = None,
    program: Path | None = None,
    environment: dict[str, str] | None = None,
    clients: int = 8,
) -> Round:
    """Run a round.

    Args:
        seconds: How long to ask.
        transport: Over which transport.
        workers: How many workers the server has.
        restarts: How often the server is killed or stopped, and started again.
        seed: Of the random choices.
        program: Stands in for `queuegate-server`.
        environment: Further variables of the server.
        clients: How many clients ask, one thing after the other; streams come on top.
    """
    with tempfile.TemporaryDirectory(prefix="queuegate-history-") as name, over(transport):
        world = World(Path(name), workers, random.randrange(2**32) if seed is None else seed)
        service = Service(world, program, environment or {})
        asyncio.run(_run(world, service, seconds / (restarts + 1), restarts, clients))
    begin = time.monotonic()
    histories = world.recorder.histories
    violations = [(history, each) for history in histories for each in check(history)]
    return Round(histories, violations, world.counts, time.monotonic() - begin)


async def _run(world: World, service: Service, seconds: float, restarts: int, clients: int) -> None:
    for turn in range(restarts + 1):
        kills = turn < restarts and turn % 2 == 0
        async with service.running():
            history = world.recorder.now
            chance = random.Random(world.chance.random())
            address = service.server.address
            events = Events(world, service)
            causing = asyncio.create_task(events.cause(kills=history.workers > 1))
            asking = asyncio.create_task(
                keep_asking(address, history, chance, clients=clients, streams=2)
            )
            # Neither ends by itself, unless something is wrong with the test.
            tasks = {causing, asking}
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            await service.stop(signal.SIGKILL if kills else signal.SIGTERM)
            world.counts["kills of the server" if kills else "stops"] += 1
            events.ended.set()
            await causing
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
