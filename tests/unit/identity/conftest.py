"""What the tests of identity share."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.fakes.clock import ManualClock
from tests.fakes.stack import Stack


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Fail the test if it leaves a task behind."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if not task.done()}
    left.discard(asyncio.current_task())
    assert not left


@pytest.fixture
async def stack(clock: ManualClock) -> AsyncIterator[Stack]:
    stack = Stack(clock)
    await stack.groups.open()
    yield stack
    stack.directory.hold.set()
    await stack.groups.close()
