"""Fixtures of the tests of identity."""

from collections.abc import AsyncIterator

import pytest

from tests.support.fakes.clock import ManualClock
from tests.support.fakes.stack import Stack


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def stack(clock: ManualClock) -> AsyncIterator[Stack]:
    stack = Stack(clock)
    yield stack
    stack.directory.hold.set()
    await stack.groups.close()
