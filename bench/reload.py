"""How long the event loop is held up while a very large policy is loaded again."""

import asyncio
import time
from pathlib import Path
from typing import Final

import uvloop

from bench import policies
from bench.command import CannotMeasure, Scale, main
from bench.results import Part, Table, Target, spread
from queuegate_server.engine import Engine
from queuegate_server.group_sources import GroupSources
from queuegate_server.reload import Reloader
from queuegate_server.settings.model import PolicySource, Settings

_GOAL: Final = 50.0
_TICK_SECONDS: Final = 0.001
_AFTERWARDS: Final = 3.0


def measure(scale: Scale, folder: Path) -> Part:
    """Load a policy again and again beside a task that only sleeps."""
    return uvloop.run(_measure(scale, folder))


async def _measure(scale: Scale, folder: Path) -> Part:
    size = 10_000 if scale.is_quick else policies.LARGE
    text = policies.to_yaml(policies.generate(size)).encode()
    file = folder / "queues.yaml"
    file.write_bytes(text)
    settings = Settings(policy=PolicySource(path=file))
    engine = Engine(time.monotonic)
    sources = GroupSources(settings, time.monotonic, time.time)
    reloader = Reloader(settings, sources, engine, time.time)
    late: list[float] = []
    seconds: list[float] = []
    longest: list[float] = []
    await reloader.reload()
    ticking = asyncio.create_task(_tick(late))
    try:
        for number in range(scale.rounds):
            await asyncio.to_thread(file.write_bytes, text + f"# {number}\n".encode())
            late.clear()
            start = time.monotonic()
            state = await reloader.reload()
            seconds.append(time.monotonic() - start)
            if not state.succeeded or engine.snapshot.policy.revision != number + 2:
                raise CannotMeasure(f"the policy was not loaded again: {state.problems[:3]}")
            await asyncio.sleep(_AFTERWARDS)  # the old one is freed
            longest.append(max(late) * 1e3)
    finally:
        ticking.cancel()
        await sources.close()
    table = Table(
        "Loading a very large policy while serving",
        "`reload.Reloader` in this process, beside a task that sleeps for 1 ms again and again: "
        f"by how much its longest sleep was too long, up to {_AFTERWARDS:.0f} s after the swap.",
        ("queues", "reload, s", "longest delay, ms"),
    )
    table.add(f"{size:,}", spread(seconds, ".2f"), spread(longest, ".1f"))
    worst = max(longest)
    what = f"longest delay while {size:,} queues are loaded again"
    return Part([table], [Target(what, f"< {_GOAL:.0f} ms", f"{worst:.1f} ms", worst < _GOAL)])


async def _tick(late: list[float]) -> None:
    last = time.monotonic()
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        now = time.monotonic()
        late.append(now - last - _TICK_SECONDS)
        last = now


if __name__ == "__main__":
    main(measure, __doc__)
