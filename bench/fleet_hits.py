"""Checks whose groups another replica of a fleet has looked up, compared with checks whose groups
are known locally, with and without a fleet.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from bench.big_directory import Size, big_directory, user
from bench.command import CannotMeasure, Scale, main
from bench.replicas import OTHER_QUEUE, QUEUE, Replica, running_replicas, running_servers
from bench.results import Part, Table, Target, ratios, spread
from queuegate import aio

_AT_ONCE: Final = 64
_GOAL_MS: Final = 1.0
_SAME: Final = 1.05
"""The ratio of two medians that counts as no difference."""
_MIN_HITS: Final = 0.99
"""The share of users that must have come from Redis."""
_ALONE: Final = "known here, no fleet"
_HERE: Final = "known here"
_SHARED: Final = "known to another replica"
_AGAIN_ALONE: Final = "asked before, no fleet"
_AGAIN: Final = "asked before"
_AGAIN_THERE: Final = "asked before, second replica"


def measure(scale: Scale, folder: Path) -> Part:
    """Ask the same questions of a server without a fleet and of two replicas, in turn."""
    users = 200 if scale.is_quick else 2_000
    table = Table(
        "A check whose groups another replica has looked up",
        "Checks over gRPC, one after the other: each question at the servers in turn. Without a "
        "fleet and at the first of two replicas the groups are known; the second finds them in "
        f"Redis. Microseconds. {scale.rounds} rounds of {users:,} users, of whom the second "
        "replica knows none, each on other server processes.",
        ("groups", "p50", "p99"),
    )
    seconds: dict[str, list[list[float]]] = {
        name: [] for name in (_ALONE, _HERE, _SHARED, _AGAIN_ALONE, _AGAIN, _AGAIN_THERE)
    }
    # Tests run alongside others, where Redis may take longer.
    patience = {"read_timeout": "5s"} if scale.is_quick else {}
    names = [user(each) for each in range(users)]
    with big_directory(folder, Size(users, 200)) as directory:
        for _ in range(scale.rounds):
            # Two processes of the same program may differ by some percent for their whole lifetime.
            with (
                running_servers(folder, directory, 1) as [alone],
                running_replicas(folder, directory, ("a", "b"), **patience) as [first, second],
            ):
                asyncio.run(_measure([alone, first, second], names, seconds))
                _expect_hits(second, users)
    p50 = {
        name: [_microseconds(each, 50) for each in p50_ratios]
        for name, p50_ratios in seconds.items()
    }
    p99 = {
        name: [_microseconds(each, 99) for each in p50_ratios]
        for name, p50_ratios in seconds.items()
    }
    for name in seconds:
        table.add(name, spread(p50[name]), spread(p99[name]))
    more = statistics.median(
        (shared - here) / 1e3 for shared, here in zip(p99[_SHARED], p99[_HERE], strict=True)
    )
    targets = [
        Target(
            "a check whose groups come from Redis beside one whose groups are known, p99",
            f"at most {_GOAL_MS:.0f} ms more",
            f"{more:.2f} ms more",
            more <= _GOAL_MS,
        )
    ]
    for what, with_fleet, without in (
        ("groups are known", _HERE, _ALONE),
        ("answer is known", _AGAIN, _AGAIN_ALONE),
    ):
        p50_ratios = ratios(p50[with_fleet], p50[without])
        targets.append(
            Target(
                f"a check whose {what}, with a fleet beside without one, p50",
                f"at most {_SAME}",
                spread(p50_ratios, ".2f"),
                statistics.median(p50_ratios) <= _SAME,
            )
        )
    return Part([table], targets)


async def _measure(
    servers: Sequence[Replica], names: Sequence[str], seconds: dict[str, list[list[float]]]
) -> None:
    async with AsyncExitStack() as stack:
        alone, first, second = [
            await stack.enter_async_context(aio.Client(each.address, timeout=60))
            for each in servers
        ]
        for client in (alone, first):
            await _learn(client, names)
        asked = [(_ALONE, alone), (_HERE, first), (_SHARED, second)]
        again = [(_AGAIN_ALONE, alone), (_AGAIN, first), (_AGAIN_THERE, second)]
        for round_of in (asked, again):
            latencies: dict[str, list[float]] = {kind: [] for kind, _ in round_of}
            for place, name in enumerate(names):
                # Each of the first two follows the other as often as the last one, because a server
                # that is asked twice in a row answers faster.
                swapped = round_of[1::-1] + round_of[2:]
                for kind, client in round_of if place % 2 else swapped:
                    latencies[kind].append(await _timed(client, name))
            for kind, times in latencies.items():
                seconds[kind].append(times)


async def _learn(client: aio.Client, names: Sequence[str]) -> None:
    """Let a server learn the groups of all users from another question."""
    for start in range(0, len(names), _AT_ONCE):
        chunk = names[start : start + _AT_ONCE]
        await asyncio.gather(*(client.check(name, OTHER_QUEUE) for name in chunk))


async def _timed(client: aio.Client, name: str) -> float:
    begin = time.perf_counter()
    await client.check(name, QUEUE)
    return time.perf_counter() - begin


def _expect_hits(replica: Replica, users: int) -> None:
    """Raise CannotMeasure unless nearly all groups came from Redis."""
    hits = replica.reads("hit")
    if hits < _MIN_HITS * users:
        raise CannotMeasure(f"only {hits} of {users} users came from Redis")


def _microseconds(seconds: Sequence[float], percent: int) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1] * 1e6


if __name__ == "__main__":
    main(measure, __doc__)
