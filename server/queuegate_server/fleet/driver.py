"""Extensions to the Redis driver: bounded replies, and DNS lookups that cannot hang the process.

The fleet's scripts return at most a few MiB, but the bounds apply to every reply, even from a
server that is not Redis. DNS lookups use dedicated threads, because a lookup may hang forever, and
on exit, the process would wait for a lookup that runs in asyncio's threads or uvloop.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import redis.asyncio
from redis._parsers import _AsyncRESP2Parser
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection
from redis.exceptions import InvalidResponse

from queuegate_server.runtime.threads import (
    AbandonableThreadPool,
    StillRunning,
    ThreadsExhausted,
    look_up_host,
)

MAX_REPLY_BYTES: Final = 4 * 1024 * 1024
MAX_REPLY_ITEMS: Final = 30_000
"""The maximum number of values in a reply. COMMAND, sent to clusters only, returns 12,000."""
MAX_REPLY_DEPTH: Final = 16
STEP_ITEMS: Final = 100
"""The number of values parsed before yielding to the event loop."""
_THREADS: Final = AbandonableThreadPool(4, "fleet-lookup")


class ReplyTooLarge(InvalidResponse):
    """A reply is larger than any expected reply. The connection is closed."""

    def __init__(self) -> None:
        super().__init__(
            f"a reply has more than {MAX_REPLY_BYTES >> 20} MiB, {MAX_REPLY_ITEMS} values or"
            f" {MAX_REPLY_DEPTH} levels"
        )


class _BoundedParser(_AsyncRESP2Parser):
    """A parser that rejects an oversized reply without reading all of it."""

    _bytes_left = 0
    _items_left = 0
    _depth = 0

    async def read_response(self, *args: Any, **options: Any) -> Any:
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
        line: bytes = await super()._readline()  # reads at most 64 KiB
        self._spend(len(line))
        return line

    def _spend(self, length: int) -> None:
        self._bytes_left -= length
        if length < 0 or self._bytes_left < 0:
            raise ReplyTooLarge


async def addresses(
    host: str, port: int, threads: AbandonableThreadPool = _THREADS
) -> Sequence[str]:
    """Return a host's addresses, looked up in the given threads. Raises OSError on failure."""
    try:
        return await look_up_host(threads, host, port)
    except (StillRunning, ThreadsExhausted):
        raise OSError(None, f"an earlier lookup of {host} has not returned") from None


class _OwnLookup:
    """A connection that resolves its host in dedicated threads rather than in the event loop."""

    host: str
    port: int
    socket_connect_timeout: float | None
    _address = ""

    async def _connect(self) -> None:
        async with asyncio.timeout(self.socket_connect_timeout):
            hosts = await addresses(self.host, self.port)
        failure: OSError | None = None
        for self._address in hosts:
            try:
                await super()._connect()  # type: ignore[misc]
            except OSError as error:
                failure = error
            else:
                return
        raise failure or OSError(None, f"{self.host} has no address")

    def _connection_arguments(self) -> dict[str, Any]:
        arguments = {**super()._connection_arguments(), "host": self._address}  # type: ignore[misc]
        if "ssl" in arguments:
            arguments["server_hostname"] = self.host
        return arguments


_CLASSES: Final[dict[type, Any]] = {
    each: type(each.__name__, (_OwnLookup, each), {})
    for each in (
        Connection,
        SSLConnection,
        SentinelManagedConnection,
        SentinelManagedSSLConnection,
    )
}


def adapt(*clients: "redis.asyncio.Redis | redis.asyncio.RedisCluster") -> None:
    """Make clients' new connections limit the size of replies, and resolve hosts in dedicated
    threads.
    """
    for client in clients:
        if isinstance(client, redis.asyncio.RedisCluster):
            nodes = client.nodes_manager
            for options in (client.connection_kwargs, nodes.connection_kwargs):
                driver = options["connection_class"]
                options["connection_class"] = _CLASSES.get(driver, driver)
                options["parser_class"] = _BoundedParser
            pools: list[Any] = [*nodes.startup_nodes.values()]
        else:
            pools = [client.connection_pool]
        for pool in pools:
            pool.connection_class = _CLASSES.get(pool.connection_class, pool.connection_class)
            pool.connection_kwargs["parser_class"] = _BoundedParser
