"""What has become old is put aside, and still freed when nobody uses it."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from queuegate_server.formats.collector import paused_collector
from queuegate_server.runtime import short_collections
from tests.support.fakes.loop import until


class Thing:
    """Something the collector looks at."""


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(short_collections, "_SECONDS", 0.001)
    gc.unfreeze()
    yield
    gc.unfreeze()


async def test_much_that_is_old_is_put_aside() -> None:
    things = [Thing() for _ in range(50_000)]
    task = asyncio.create_task(short_collections.short_collections())
    await until(lambda: gc.get_freeze_count() >= len(things))
    task.cancel()
    last = weakref.ref(things[-1])
    things.clear()
    assert last() is None


async def test_growth_is_put_aside_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes in one interval: as many objects as a busy cache gets in 0.1 s."""
    things: list[Thing] = []
    looked_at: list[int] = []
    collect = gc.collect

    def collected(generation: int = 2) -> int:
        if generation == 2:
            looked_at.append(len(gc.get_objects()))
        found = collect(generation)
        things.extend(Thing() for _ in range(2_000))
        return found

    collect()
    gc.freeze()
    monkeypatch.setattr(gc, "collect", collected)
    task = asyncio.create_task(short_collections.short_collections())
    await until(lambda: len(things) >= 100_000)
    task.cancel()
    assert looked_at
    assert max(looked_at) < 10_000


async def test_garbage_is_not_put_aside() -> None:
    things = [Thing() for _ in range(50_000)]
    things[0].__dict__["itself"] = things[0]
    first = weakref.ref(things[0])
    del things[0]
    task = asyncio.create_task(short_collections.short_collections())
    await until(lambda: first() is None)
    task.cancel()


async def test_garbage_that_was_put_aside_is_found_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(short_collections, "_MOST_TIMES", 2)
    thing = Thing()
    thing.__dict__["itself"] = thing
    first = weakref.ref(thing)
    gc.freeze()
    del thing
    gc.collect()
    assert first() is not None
    before = gc.get_freeze_count()
    rounds = [[Thing() for _ in range(50_000)]]
    task = asyncio.create_task(short_collections.short_collections())
    await until(lambda: gc.get_freeze_count() > before)
    rounds.append([Thing() for _ in range(50_000)])
    await until(lambda: first() is None)
    task.cancel()


async def test_nothing_is_collected_while_a_policy_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collected: list[int] = []
    with paused_collector():
        monkeypatch.setattr(gc, "collect", lambda generation=2: collected.append(generation))
        task = asyncio.create_task(short_collections.short_collections())
        await asyncio.sleep(0.02)
        assert not collected
    await until(lambda: bool(collected))
    task.cancel()
