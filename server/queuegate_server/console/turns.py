"""Turns of requests that cost much memory or processor time: one at a time, and few wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from queuegate_server.rpc.errors import Overloaded

MAX_WAITING: Final = 4
"""Requests that have their turn or wait for it."""


class Turns:
    """Lets one request at a time go ahead."""

    def __init__(self, name: str) -> None:
        """Name the requests, in the plural."""
        self._name = name
        self._lock = asyncio.Lock()
        self._waiting = 0

    def check(self) -> None:
        """Raise Overloaded if too many wait."""
        if self._waiting >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING} {self._name} are being assessed or waiting")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and keep it. Raises Overloaded if too many wait."""
        self.check()
        self._waiting += 1
        try:
            async with self._lock:
                yield
        finally:
            self._waiting -= 1
