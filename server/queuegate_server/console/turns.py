"""A queue for expensive requests: one request runs at a time, and only a few may wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from queuegate_server.rpc.errors import Overloaded

MAX_WAITING: Final = 4
"""The maximum number of requests, running or waiting."""


class Turns:
    """A bounded FIFO queue that lets one request run at a time."""

    def __init__(self, name: str) -> None:
        """Create a queue. `name` is a plural noun for error messages."""
        self._name = name
        self._lock = asyncio.Lock()
        self._waiting = 0

    def check(self) -> None:
        """Raise Overloaded if too many requests are waiting."""
        if self._waiting >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING} {self._name} are being assessed or waiting")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises Overloaded if too many requests are waiting."""
        self.check()
        self._waiting += 1
        try:
            async with self._lock:
                yield
        finally:
            self._waiting -= 1
