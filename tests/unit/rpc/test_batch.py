"""The runner of batches, below the services that use it."""

import asyncio
import gc
import weakref

from queuegate_server.rpc.batch import MAX_LOOKUPS, for_each


class Item:
    """A check, as far as the runner looks at it."""


async def test_a_cancelled_batch_leaves_no_cycle() -> None:
    items = [Item() for _ in range(2 * MAX_LOOKUPS)]
    kept = [weakref.ref(item) for item in items]
    begun: list[int] = []
    cancelled: list[int] = []

    async def hang(item: Item) -> None:
        begun.append(id(item))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(id(item))
            raise

    async def pause_if_due() -> None:
        pass

    task = asyncio.create_task(for_each(items, hang, pause_if_due))
    del items
    await asyncio.sleep(0.01)
    assert len(begun) == MAX_LOOKUPS
    gc.disable()
    try:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        del task
        assert cancelled == begun
        assert [each() for each in kept] == [None] * len(kept)
    finally:
        gc.enable()
