"""Looks up the names of Redis servers for the driver, in threads of their own.

A lookup may hang for ever, and its thread with it. The threads of asyncio are for files, and the
end of the process waits for them, as it does for lookups of uvloop.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import redis.asyncio
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

from queuegate_server.runtime.threads import (
    AbandonableThreadPool,
    AllThreadsHang,
    StillRunning,
    look_up_host,
)

_THREADS: Final = AbandonableThreadPool(4, "fleet-lookup")


async def addresses(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, at least one. Raises OSError."""
    try:
        return await look_up_host(_THREADS, host, port)
    except (StillRunning, AllThreadsHang):
        raise OSError(None, f"an earlier lookup of {host} has not returned") from None


class _OwnLookup:
    """A connection that does not have the event loop look its host up."""

    host: str
    port: int
    socket_connect_timeout: float | None
    _address = ""

    async def _connect(self) -> None:
        async with asyncio.timeout(self.socket_connect_timeout):
            found = await addresses(self.host, self.port)
        failure: OSError | None = None
        for self._address in found:
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


class _Connection(_OwnLookup, Connection):
    pass


class _SSLConnection(_OwnLookup, SSLConnection):
    pass


class _SentinelManagedConnection(_OwnLookup, SentinelManagedConnection):
    pass


class _SentinelManagedSSLConnection(_OwnLookup, SentinelManagedSSLConnection):
    pass


_CLASSES: Final[dict[type, type]] = {
    Connection: _Connection,
    SSLConnection: _SSLConnection,
    SentinelManagedConnection: _SentinelManagedConnection,
    SentinelManagedSSLConnection: _SentinelManagedSSLConnection,
}


def look_up_names(*clients: "redis.asyncio.Redis | redis.asyncio.RedisCluster") -> None:
    """Have all later connections of clients look names up here. Unix sockets have no names."""
    for client in clients:
        if isinstance(client, redis.asyncio.RedisCluster):
            nodes = client.nodes_manager
            for options in (client.connection_kwargs, nodes.connection_kwargs):
                options["connection_class"] = _own(options["connection_class"])
            for node in nodes.startup_nodes.values():
                node.connection_class = _own(node.connection_class)
        else:
            pool = client.connection_pool
            pool.connection_class = _own(pool.connection_class)


def _own(driver: type) -> Any:
    return _CLASSES.get(driver, driver)
