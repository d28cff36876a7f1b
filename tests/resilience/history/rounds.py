"""A round: clients and events against a real server for some seconds, then the check."""

import asyncio
import random
import signal
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.resilience.history.checker import Violation, check
from tests.resilience.history.events import Events
from tests.resilience.history.records import History
from tests.resilience.history.service import Service
from tests.resilience.history.world import LONG, SHORT, World
from tests.support.servers.queuegate_server import over
from tests.support.servers.redis_server import RedisServer, running_redis

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
    fleet: bool = False,
    restarts: int = 0,
    invalidates: bool = True,
    busy: float = 10.0,
    failing: float | None = None,
    seed: int | None = None,
    fault: str = "",
) -> Round:
    """Run a round.

    Args:
        seconds: How long to ask.
        transport: Over which transport.
        workers: How many workers the server has.
        fleet: Whether there are three servers, which are replicas of a fleet on a real Redis.
        restarts: How often the server is killed or stopped, and started again.
        invalidates: Whether caches are invalidated. If not, groups live as long as they may, and
            the directory is away at times.
        busy: The seconds by which the machine may delay the end of a lookup.
        failing: The part of changes of groups after which a user cannot be looked up; None: chosen
            at random.
        seed: Of the random choices.
        fault: The fault to plant in the server.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="queuegate-history-")))
        stack.enter_context(over(transport))
        redis = stack.enter_context(running_redis(folder / "redis")) if fleet else None
        chosen = random.randrange(2**32) if seed is None else seed
        world = World(
            folder,
            workers,
            chosen,
            busy,
            times=LONG if fleet and invalidates else SHORT,
            redis="" if redis is None else redis.url,
            failing=failing,
        )
        service = Service(world, fault)
        part = seconds / (restarts + 1)
        asyncio.run(_run(world, service, redis, part, restarts, invalidates=invalidates))
    begin = time.monotonic()
    histories = world.recorder.histories
    violations = [(history, each) for history in histories for each in check(history)]
    return Round(histories, violations, world.counts, time.monotonic() - begin)


async def _run(
    world: World,
    service: Service,
    redis: RedisServer | None,
    seconds: float,
    restarts: int,
    *,
    invalidates: bool,
) -> None:
    for turn in range(restarts + 1):
        kills = turn < restarts and turn % 2 == 0
        async with service.running() as group:
            kills_workers = world.recorder.histories[-1].workers > 1
            events = Events(
                world, service, invalidates=invalidates, kills=kills_workers, redis=redis
            )
            # It does not end by itself, unless something is wrong with the test.
            causing = group.create_task(events.cause())
            await asyncio.wait({causing}, timeout=seconds)
            await service.stop(signal.SIGKILL if kills else signal.SIGTERM)
            world.counts["kills of the server" if kills else "stops"] += 1
            events.ended.set()
