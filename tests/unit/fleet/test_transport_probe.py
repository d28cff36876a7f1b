"""Probes whose names are looked up for ever."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from queuegate_server.fleet import transport_probe
from queuegate_server.runtime.threads import AbandonableThreadPool
from queuegate_server.settings.listeners import HostPort
from tests.support.fakes.tcp_server import running_tcp


async def test_hanging_lookups_leave_the_threads_of_asyncio_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    started, released = asyncio.Event(), threading.Event()

    def hang(*_: Any, **__: Any) -> Any:
        loop.call_soon_threadsafe(started.set)
        released.wait()
        raise OSError("released")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setattr(transport_probe, "_LOOKUPS", AbandonableThreadPool(2, "probe"))
    loop.set_default_executor(ThreadPoolExecutor(1))
    probes = [
        asyncio.create_task(
            transport_probe.transport_mistake([HostPort(f"redis-{number}.test", 6379)], tls=False)
        )
        for number in range(5)
    ]
    try:
        async with asyncio.timeout(60):
            await started.wait()
            assert await asyncio.to_thread(int, "1") == 1
            assert await asyncio.gather(*probes) == [""] * 5
    finally:
        released.set()


async def test_names_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_probe, "PROBE_SECONDS", 60.0)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"+PONG\r\n")

    async with running_tcp(answer) as port:
        mistake = await transport_probe.transport_mistake([HostPort("localhost", port)], tls=True)
    assert "does not speak TLS" in mistake
