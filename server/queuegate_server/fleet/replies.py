"""Bounds what a reply of Redis may cost a replica, whatever Redis has been made to send.

Scripts already ask for no more than a few MiB. These bounds hold for every command, and also for a
server that only pretends to be Redis.
"""

import asyncio
from typing import Any, Final

import redis.asyncio
from redis._parsers import _AsyncRESP2Parser
from redis.exceptions import InvalidResponse

MAX_REPLY_BYTES: Final = 4 * 1024 * 1024
MAX_REPLY_ITEMS: Final = 30_000
"""Values in a reply. COMMAND, which the driver sends to a cluster, returns 12 000."""
MAX_REPLY_DEPTH: Final = 16
STEP_ITEMS: Final = 100
"""Values that are parsed between two pauses, in which calls are answered."""


class ReplyTooLarge(InvalidResponse):
    """A reply is larger than any that a replica asks for. The connection is closed."""

    def __init__(self) -> None:
        """Say what no reply exceeds."""
        super().__init__(
            f"a reply has more than {MAX_REPLY_BYTES >> 20} MiB, {MAX_REPLY_ITEMS} values or"
            f" {MAX_REPLY_DEPTH} levels"
        )


class BoundedParser(_AsyncRESP2Parser):
    """Parses replies, and gives up one that is too large before it is read."""

    _bytes_left = 0
    _items_left = 0
    _depth = 0

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """Return the next reply. Raises ReplyTooLarge, and what the driver raises."""
        self._bytes_left, self._items_left, self._depth = MAX_REPLY_BYTES, MAX_REPLY_ITEMS, 0
        return await super().read_response(*args, **options)

    async def _read_response(self, *args: Any, **options: Any) -> Any:
        self._items_left -= 1
        self._depth += 1
        if self._items_left < 0 or self._depth > MAX_REPLY_DEPTH:
            raise ReplyTooLarge
        if self._items_left % STEP_ITEMS == 0:
            await asyncio.sleep(0)
        try:
            return await super()._read_response(*args, **options)
        finally:
            self._depth -= 1

    async def _read(self, length: int) -> bytes:
        self._spend(length)
        content: bytes = await super()._read(length)
        return content

    async def _readline(self) -> bytes:
        line: bytes = await super()._readline()  # of 64 KiB at most
        self._spend(len(line))
        return line

    def _spend(self, length: int) -> None:
        self._bytes_left -= length
        if length < 0 or self._bytes_left < 0:
            raise ReplyTooLarge


def bound_replies(*clients: "redis.asyncio.Redis | redis.asyncio.RedisCluster") -> None:
    """Have all later connections of clients bound their replies."""
    for client in clients:
        if isinstance(client, redis.asyncio.RedisCluster):
            nodes = client.nodes_manager
            of_nodes = [each.connection_kwargs for each in nodes.startup_nodes.values()]
            options = [client.connection_kwargs, nodes.connection_kwargs, *of_nodes]
        else:
            options = [client.connection_pool.connection_kwargs]
        for each in options:
            each["parser_class"] = BoundedParser
