"""Measures how often a directory is asked when three replicas are asked about all users."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from bench.big_directory import BigDirectory, Size, big_directory, user
from bench.command import Scale, main
from bench.replicas import NAMES, QUEUE, Replica, running_replicas, running_servers
from bench.results import Part, Table, Target
from queuegate import aio

_AT_ONCE: Final = 64
_SPARE: Final = 0.01
"""The target: one search per user, plus one per hundred."""

_PASSES: Final = ("one replica after the other", "in turn about each user", "at once")


def measure(scale: Scale, folder: Path) -> Part:
    """Ask servers without a fleet, then fleets that do not know anybody yet."""
    users = 500 if scale.is_quick else 10_000
    table = Table(
        f"Searches of a directory for {users:,} users asked about at three replicas",
        f"Three servers, a real Redis and a real slapd; checks over gRPC, about {_AT_ONCE} users "
        "at once. slapd counts the searches (`cn=Monitor`). One replica after the other: the "
        "second is asked when the first has answered about all users. In turn: when it has "
        "answered about this user. At once: all three are asked about a user at the same moment. "
        "Redis is too slow if it takes longer than `fleet.read_timeout`.",
        ("servers", "asked", "searches", "for a user", "from Redis", "Redis too slow"),
    )
    goal = int(users * (1 + _SPARE))
    with big_directory(folder, Size(users, 200)) as directory:
        with running_servers(folder, directory, len(NAMES)) as servers:
            alone = _searches(directory, servers, users, _PASSES[0])
        table.add("no fleet", _PASSES[0], f"{alone:,}", f"{alone / users:.2f}", "", "")
        reached: dict[str, int] = {}
        for asked in _PASSES:
            with running_replicas(folder, directory) as replicas:
                reached[asked] = _searches(directory, replicas, users, asked)
                reads = [
                    sum(each.reads(result) for each in replicas)
                    for result in ("hit", "unavailable")
                ]
            counts = (f"{reached[asked]:,}", f"{reached[asked] / users:.2f}")
            table.add("fleet", asked, *counts, *(f"{each:,}" for each in reads))
    what = f"searches for {users:,} users at three replicas, "
    targets = [
        Target(what + asked, f"at most {goal:,}", f"{searches:,}", searches <= goal)
        for asked, searches in reached.items()
    ]
    return Part([table], targets)


def _searches(directory: BigDirectory, replicas: Sequence[Replica], users: int, asked: str) -> int:
    """Ask about all users and return the number of searches."""
    before = directory.searches()
    asyncio.run(_ask_all([each.address for each in replicas], users, asked))
    return directory.searches() - before - 1


async def _ask_all(addresses: Sequence[str], users: int, asked: str) -> None:
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(aio.Client(address, timeout=60))
            for address in addresses
        ]
        passes = [[client] for client in clients] if asked == _PASSES[0] else [clients]
        for some in passes:
            names = map(user, range(users))
            async with asyncio.TaskGroup() as group:
                for _ in range(_AT_ONCE):
                    group.create_task(_ask(some, names, at_once=asked == _PASSES[2]))


async def _ask(clients: Sequence[aio.Client], names: Iterator[str], *, at_once: bool) -> None:
    """Ask about users until none is left. The clients take turns, or ask concurrently."""
    for name in names:
        if at_once:
            await asyncio.gather(*(client.check(name, QUEUE) for client in clients))
        else:
            for client in clients:
                await client.check(name, QUEUE)


if __name__ == "__main__":
    main(measure, __doc__)
