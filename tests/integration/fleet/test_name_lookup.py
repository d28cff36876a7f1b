"""Names of Redis servers whose lookups hang, fail or return several addresses."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.fleet.connection import StoreUnavailable
from tests.integration.fleet.test_connection import check, connected
from tests.support.servers.redis_server import running_redis

LOOK_UP = socket.getaddrinfo


@pytest.mark.parametrize(
    "kind", ["redis://{}:1", "redis+cluster://{}:1", "redis+sentinel://{}:1/m"]
)
async def test_hanging_lookups_leave_the_threads_of_asyncio_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    host = f"hangs-{kind.partition(':')[0].replace('+', '-')}.test"
    begun, released = threading.Event(), threading.Event()

    def hang(name: str, *rest: Any, **options: Any) -> Any:
        if name != host:
            return LOOK_UP(name, *rest, **options)
        begun.set()
        released.wait()
        raise OSError("released")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    try:
        async with connected(tmp_path, kind.format(host)) as connection:
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    await connection.execute("GET", "key", seconds=0.3)
                connection.reconnect()
            assert begun.is_set()
            async with asyncio.timeout(60):
                assert await asyncio.to_thread(int, "1") == 1
    finally:
        released.set()


async def test_each_address_of_a_name_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two(name: str, port: int, *rest: Any, **options: Any) -> Any:
        if name != "redis.test":
            return LOOK_UP(name, port, *rest, **options)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("127.0.0.2", "127.0.0.1")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", two)
    with running_redis(tmp_path) as server:
        url = server.url.replace("127.0.0.1", "redis.test")
        assert "redis.test" in url
        async with connected(tmp_path, url) as connection:
            await check(connection)
