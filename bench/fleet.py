"""Groups of users that another replica of a fleet has looked up, against those known here."""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import uvloop

from bench.command import CannotMeasure, Scale, main
from bench.results import Part, Table, Target, spread
from queuegate_server.fleet.fence import OrderFence
from queuegate_server.fleet.keys import Position
from queuegate_server.fleet.replica import ReplicaState
from queuegate_server.fleet.sharing import GroupSharing
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver, GuardedResolver
from queuegate_server.identity.lease import CacheLease
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import Found, LookupFailed, Outcome
from queuegate_server.settings.fleet import Fleet
from tests.support.servers.redis_server import running_redis

_AT_ONCE: Final = 1_000
_GROUPS: Final = tuple(f"group{number}" for number in range(5))
_GOAL_MS: Final = 10.0
_A_LONG_TIME: Final = 1e6
_HERE: Final = "in this process"
_THERE: Final = "in Redis"


class _Directory:
    """Answers the replica that fills Redis, and no other."""

    answers = True

    async def open(self) -> None:
        """Do nothing."""

    async def resolve(self, user: str) -> Outcome:
        return Found(_GROUPS) if self.answers else LookupFailed("Redis must know")

    async def close(self) -> None:
        """Do nothing."""


def measure(scale: Scale, folder: Path) -> Part:
    """Ask for users that are known here, and for users that only Redis knows."""
    secret = folder / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    with running_redis(folder / "redis") as redis:
        settings = Fleet.model_validate(
            {"url": redis.url, "secret_file": secret, "read_timeout": "10s"}
        )
        return uvloop.run(_measure(scale, settings))


async def _measure(scale: Scale, settings: Fleet) -> Part:
    fleet = _Fleet(settings)
    await fleet.open()
    names = [f"user{number:07d}" for number in range(2_000 if scale.is_quick else 20_000)]
    writer = await fleet.filled_by(names)
    table = Table(
        "Groups that another replica has looked up",
        "`GroupResolver.resolve` in one process, a real Redis on loopback; 5 groups a user. "
        "Microseconds for a user: elapsed, one after the other; and processor time of the asking "
        f"process, {_AT_ONCE:,} at once. {scale.rounds} rounds.",
        ("where they are", "alone: p50", "alone: p99", f"{_AT_ONCE:,} at once: processor"),
    )
    rounds: dict[str, list[tuple[float, float, float]]] = {_HERE: [], _THERE: []}
    for _ in range(scale.rounds):
        rounds[_HERE].append(await _round(lambda: writer, names))
        rounds[_THERE].append(await _round(fleet.replica, names))
    for where, found in rounds.items():
        table.add(where, *(spread(column, ".1f") for column in zip(*found, strict=True)))
    p99 = statistics.median(p99 for _, p99, _ in rounds[_THERE]) / 1e3
    await fleet.close()
    what = "groups that another replica knows, p99"
    return Part([table], [Target(what, f"< {_GOAL_MS:.0f} ms", f"{p99:.2f} ms", p99 < _GOAL_MS)])


class _Fleet:
    """Replicas with one Redis, all in this process."""

    def __init__(self, settings: Fleet) -> None:
        self.directory = _Directory()
        state = ReplicaState()
        state.follow([], Position(b"e" * 16, 0, b""), 0.0)
        self._lease = CacheLease()
        self._lease.until = time.monotonic() + _A_LONG_TIME
        fence = OrderFence(state, lambda: False)
        self._sharing = GroupSharing(
            settings, fence, self._lease, clock=time.monotonic, wall=time.time
        )

    async def open(self) -> None:
        """Connect."""
        self._sharing.open()
        while not self._sharing.store.is_available:  # noqa: ASYNC110 - nothing else runs
            await asyncio.sleep(0.01)

    def replica(self) -> GroupResolver:
        """Return a replica that knows nobody yet."""
        source = GuardedResolver("corp", self.directory, ResolverOptions())
        cache = GroupCache(CacheOptions(), time.monotonic, time.time, lease=self._lease)
        return GroupResolver(source, cache, shared=self._sharing.of_partition("default", "bench"))

    async def filled_by(self, names: Sequence[str]) -> GroupResolver:
        """Return the replica that has looked all users up and stored them."""
        writer = self.replica()
        for start in range(0, len(names), _AT_ONCE):
            await asyncio.gather(*map(writer.resolve, names[start : start + _AT_ONCE]))
            while self._sharing.store.writes["written"] < start + _AT_ONCE:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        self.directory.answers = False
        return writer

    async def close(self) -> None:
        """Disconnect."""
        await self._sharing.close()


async def _round(
    make: Callable[[], GroupResolver], names: Sequence[str]
) -> tuple[float, float, float]:
    """Return p50 and p99 of lookups alone, and the mean of many at once, in microseconds."""
    groups = make()
    alone = [await _timed(groups, name) for name in names[: len(names) // 10]]
    groups = make()
    begin = time.process_time()
    for start in range(0, len(names), _AT_ONCE):
        answers = await asyncio.gather(*map(groups.resolve, names[start : start + _AT_ONCE]))
        if any(isinstance(answer.entry.outcome, LookupFailed) for answer in answers):
            raise CannotMeasure("Redis did not answer")
    together = (time.process_time() - begin) / len(names)
    cuts = statistics.quantiles(alone, n=100)
    return cuts[49] * 1e6, cuts[98] * 1e6, together * 1e6


async def _timed(groups: GroupResolver, name: str) -> float:
    start = time.perf_counter()
    await groups.resolve(name)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(measure, __doc__)
