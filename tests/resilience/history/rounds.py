"""A round: clients and events against a real server for some seconds, then the check."""

import asyncio
import random
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.resilience.history.checker import Violation, check
from tests.resilience.history.clients import keep_asking
from tests.resilience.history.events import Events, Service
from tests.resilience.history.records import History
from tests.resilience.history.world import World
from tests.support.servers.queuegate_server import over

WORKERS = 2


@dataclass
class Round:
    """The result of a round."""

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
    invalidates: bool = True,
    busy: float = 10.0,
    seed: int | None = None,
    fault: str = "",
) -> Round:
    """Run a round.

    Args:
        seconds: How long to ask.
        transport: Over which transport.
        workers: How many workers the server has.
        restarts: How often the server is killed or stopped, and started again.
        invalidates: Whether caches are invalidated. If not, groups live as long as they may, and
            the directory is away at times.
        busy: The seconds by which the machine may delay the end of a lookup.
        seed: Of the random choices.
        fault: The fault to plant in the server.
    """
    with tempfile.TemporaryDirectory(prefix="queuegate-history-") as name, over(transport):
        chosen = random.randrange(2**32) if seed is None else seed
        world = World(Path(name), workers, chosen, busy)
        service = Service(world, fault)
        part = seconds / (restarts + 1)
        asyncio.run(_run(world, service, part, restarts, invalidates=invalidates))
    begin = time.monotonic()
    histories = world.recorder.histories
    violations = [(history, each) for history in histories for each in check(history)]
    return Round(histories, violations, world.counts, time.monotonic() - begin)


async def _run(
    world: World, service: Service, seconds: float, restarts: int, *, invalidates: bool
) -> None:
    for turn in range(restarts + 1):
        kills = turn < restarts and turn % 2 == 0
        async with service.running():
            history = world.recorder.now
            chance = random.Random(world.chance.random())
            address = service.server.address
            kills_workers = history.workers > 1
            events = Events(world, service, invalidates=invalidates, kills=kills_workers)
            tasks = {
                asyncio.create_task(events.cause()),
                asyncio.create_task(keep_asking(address, history, chance, events.ended)),
            }
            # Neither ends by itself, unless something is wrong with the test.
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            await service.stop(signal.SIGKILL if kills else signal.SIGTERM)
            world.counts["kills of the server" if kills else "stops"] += 1
            events.ended.set()
            await asyncio.gather(*tasks)
