"""What unit tests share."""

import asyncio
from collections.abc import AsyncIterator

import pytest


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Fail the test if it leaves a task behind."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if not task.done()}
    left.discard(asyncio.current_task())
    assert not left
