"""The task that accepts connections outlives its errors."""

import asyncio
import logging
import socket

import pytest
from aiohttp import web

from queuegate_server.admin.connections import PROBE_BOUNDS, HttpConnections, ProbeConnection
from queuegate_server.runtime.tcp import open_tcp


async def test_an_unexpected_error_does_not_end_the_accepting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    accept = loop.sock_accept
    faults = [RuntimeError("a fault of this server"), OSError("no descriptors")]

    async def faulty(listening: socket.socket) -> tuple[socket.socket, object]:
        if faults:
            raise faults.pop()
        return await accept(listening)

    monkeypatch.setattr(loop, "sock_accept", faulty)

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text="ok")

    connections = HttpConnections(
        open_tcp("127.0.0.1", 0),
        None,
        PROBE_BOUNDS,
        lambda server, counted: ProbeConnection(server, counted, 2_048),
        logging.getLogger("queuegate_server.admin"),
    )
    await connections.start(web.ServerRunner(web.Server(answer)))
    try:
        host, _, port = connections.address.rpartition(":")
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
    finally:
        await connections.close()
    assert not faults
    assert "a fault of this server" in caplog.text
