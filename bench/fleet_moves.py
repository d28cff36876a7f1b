"""Measures how many questions a gate must pass on when it moves to another server."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.big_directory import Size, big_directory, user
from bench.command import Scale, main
from bench.replicas import NAMES, QUEUE, Replica, running_replicas, running_servers
from bench.results import Part, Table, Target
from queuegate import aio
from tests.support.fakes.loop import wait_until
from tests.support.fakes.tcp_proxy import Proxy, proxy_to

_LIMIT: Final = 120.0
"""The seconds in which the gate must have the groups of all users."""


def measure(scale: Scale, folder: Path) -> Part:
    """Move a gate between servers without a fleet, then between replicas of one."""
    users, moves = (500, 3) if scale.is_quick else (9_000, 9)
    table = Table(
        "A gate that moves from one server to another",
        "Two servers and a real slapd; with a fleet, also a real Redis. A gate holds the groups of "
        f"{users:,} users when its connection is cut, and connects to the other server. Then it is "
        f"asked about each user once. Medians of {moves} moves (smallest to largest).",
        ("servers", "passed on to the server", "seconds for all users"),
    )
    with big_directory(folder, Size(users, 200)) as directory:
        with running_servers(folder, directory, 2) as servers:
            alone = _measured(table, "no fleet", servers, users, moves)
        with running_replicas(folder, directory, NAMES[:2]) as replicas:
            shared = _measured(table, "fleet", replicas, users, moves)
    what = "questions that a gate passes on after a move in a fleet, at most"
    return Part([table], [Target(what, "0", f"{shared:,} (no fleet: {alone:,})", shared == 0)])


def _measured(
    table: Table,
    name: str,
    servers: Sequence[Replica],
    users: int,
    moves: int,
) -> int:
    """Add a row and return the maximum number of questions passed on after a move."""
    results = asyncio.run(_move(servers, users, moves))
    passed_on = [each for each, _ in results]
    seconds = [each for _, each in results]
    median = int(statistics.median(passed_on))
    table.add(
        name,
        f"{median:,} ({min(passed_on):,} to {max(passed_on):,})",
        f"{statistics.median(seconds):.3f} ({min(seconds):.3f} to {max(seconds):.3f})",
    )
    return max(passed_on)


async def _move(servers: Sequence[Replica], users: int, moves: int) -> list[tuple[int, float]]:
    """Return the numbers of questions passed on after each move, and the seconds for all users."""
    ports = [int(each.address.rpartition(":")[2]) for each in servers]
    counts = []
    async with proxy_to(ports[0]) as proxy, aio.Gate(f"127.0.0.1:{proxy.port}") as gate:
        for number in range(moves):
            async with asyncio.timeout(_LIMIT):
                while (await _ask(gate, users))[0]:
                    pass  # until it has the groups of all
            await _connect(proxy, gate, ports[(number + 1) % 2])
            counts.append(await _ask(gate, users))
    return counts


async def _connect(proxy: Proxy, gate: aio.Gate, port: int) -> None:
    """Make the gate connect to another server, and wait until it may decide there."""
    resets = gate.resets
    proxy.target = port
    proxy.drop()
    await wait_until(lambda: gate.resets > resets and gate.state == "live")


async def _ask(gate: aio.Gate, users: int) -> tuple[int, float]:
    """Ask about each user. Return the number of questions passed on, and the seconds."""
    decided, begin = gate.decided, time.perf_counter()
    for number in range(users):
        await gate.check(user(number), QUEUE, timeout=60)
    return users - (gate.decided - decided), time.perf_counter() - begin


if __name__ == "__main__":
    main(measure, __doc__)
