"""Measures the time from an invalidation at one replica of a fleet to its effect on the others."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from bench.big_directory import BigDirectory, Member, Size, big_directory
from bench.command import CannotMeasure, Scale, main
from bench.replicas import NAMES, QUEUE, running_replicas
from bench.results import Part, Table, Target
from queuegate import aio

_SIZE: Final = Size(1_000, 50)
_GOAL_MS: Final = 50.0
_PAUSE: Final = 0.001
"""The seconds between two questions about the same user."""
_LIMIT: Final = 10.0


def measure(scale: Scale, folder: Path) -> Part:
    """Move users into and out of a group, and invalidate them."""
    times = 20 if scale.is_quick else 400
    table = Table(
        "From an invalidation to its effect in a fleet",
        "Three servers, a real Redis and a real slapd. A user whose groups all three know is moved "
        "in or out of a group, and invalidated at the first; checks over gRPC. Milliseconds from "
        "the call of `invalidate`: until the other two, asked again after a pause of 1 ms, have "
        "answered from the new groups; and until a call with `wait` has returned.",
        ("what", "invalidations", "p50, ms", "p99, ms", "longest, ms"),
    )
    with (
        big_directory(folder, _SIZE) as directory,
        running_replicas(folder, directory) as replicas,
    ):
        addresses = [each.address for each in replicas]
        effect, waited = asyncio.run(_measure(directory, addresses, times))
    reached = _add(table, "the last of the others answers from the new groups", effect)
    _add(table, "`invalidate` with `wait` returns", waited)
    what = f"an invalidation in effect on all {len(NAMES)} replicas, p99"
    goal = f"< {_GOAL_MS:.0f} ms"
    return Part([table], [Target(what, goal, f"{reached:.1f} ms", reached < _GOAL_MS)])


async def _measure(
    directory: BigDirectory, addresses: Sequence[str], times: int
) -> tuple[list[float], list[float]]:
    """Return the seconds until the effect, and the seconds of calls that wait."""
    effect: list[float] = []
    waited: list[float] = []
    async with AsyncExitStack() as stack:
        first, *others = [
            await stack.enter_async_context(aio.Client(address, timeout=60))
            for address in addresses
        ]
        while (await first.invalidate(wait=True)).waited_out:
            pass  # until no lease from earlier server processes is left
        for number in range(times):
            member = Member(directory, number % _SIZE.users)
            for wait, found in ((False, effect), (True, waited)):
                for client in (first, *others):
                    await _until(client, member)
                await asyncio.to_thread(member.move)
                begin = time.perf_counter()
                invalidation = first.invalidate([member.name], wait=wait)
                if wait:
                    await invalidation
                else:
                    delays = [_until(client, member) for client in others]
                    await asyncio.gather(invalidation, *delays)
                found.append(time.perf_counter() - begin)
                if wait and not all([await _is_new(client, member) for client in others]):
                    raise CannotMeasure("a replica answers from old groups after `wait`")
            member.close()
    return effect, waited


async def _is_new(client: aio.Client, member: Member) -> bool:
    return (await client.check(member.name, QUEUE)).allowed == member.is_in


async def _until(client: aio.Client, member: Member) -> None:
    """Ask until the answer reflects the user's current groups."""
    end = time.monotonic() + _LIMIT
    while not await _is_new(client, member):
        if time.monotonic() > end:
            raise CannotMeasure(f"a replica answers from old groups after {_LIMIT:.0f} s")
        await asyncio.sleep(_PAUSE)


def _add(table: Table, what: str, seconds: Sequence[float]) -> float:
    """Add a row and return the 99th percentile in milliseconds."""
    p99 = statistics.quantiles(seconds, n=100, method="inclusive")[98] * 1e3
    figures = (statistics.median(seconds) * 1e3, p99, max(seconds) * 1e3)
    table.add(what, str(len(seconds)), *(f"{each:.1f}" for each in figures))
    return p99


if __name__ == "__main__":
    main(measure, __doc__)
