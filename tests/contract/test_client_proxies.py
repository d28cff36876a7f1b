"""No client leaves through an HTTP proxy that the environment names.

Each test has a proxy that listens, and asserts that nothing has connected to it. That the variables
lead a plain gRPC channel there is a test of its own: without it, the others could not fail.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.cli import main
from tests.support.eventually import eventually
from tests.support.fakes.scripted_server import ScriptedServer
from tests.support.gates import KINDS, decides_itself, live_gate
from tests.support.servers.queuegate_server import running_server

NAMES = ("grpc_proxy", "https_proxy", "http_proxy", "GRPC_PROXY", "HTTPS_PROXY", "HTTP_PROXY")
ALL_ADDRESSES = "0.0.0.0/0,::/0,127.0.0.1,localhost"
TLS = Path(__file__).parent / "tls"


class Proxy:
    """A socket that listens and answers nobody."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def was_asked(self) -> bool:
        """Whether anybody has asked for a way through since the last call.

        A connection alone does not count: the port may have been that of another test's server,
        whose client tries to connect again.
        """
        asked = False
        while True:
            try:
                connection, _ = self._socket.accept()
            except BlockingIOError:
                return asked
            with connection:
                connection.settimeout(10)
                with suppress(OSError):
                    asked |= connection.recv(8) == b"CONNECT "

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["by name", "by address"])
def proxy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy that every variable which gRPC reads in this way leads to."""
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    listening = Proxy()
    if request.param == "by name":
        for name in NAMES:
            monkeypatch.setenv(name, f"http://{listening.address}")
    else:
        monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY", listening.address)
        monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES", ALL_ADDRESSES)
    yield listening
    listening.close()


@pytest.fixture(scope="module")
def serving() -> Iterator[str]:
    """The address of a real server, for gates."""
    with running_server("--policy", "examples/queues.yaml") as running:
        yield running.address


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as it:
        yield it


def test_a_plain_channel_asks_the_proxy(proxy: Proxy, server: ScriptedServer) -> None:
    with grpc.insecure_channel(server.address.replace("127.0.0.1", "localhost")) as channel:
        ask: Any = channel.unary_unary("/any.Service/Any")
        call = ask.future(b"", timeout=60, wait_for_ready=True)
        eventually(proxy.was_asked, True)
        call.cancel()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_client_does_not(proxy: Proxy, server: ScriptedServer, host: str) -> None:
    address = server.address.replace("127.0.0.1", host)
    with queuegate.Client(address, timeout=60) as client:
        assert client.check("alice", "root")
    assert not proxy.was_asked()


def test_a_client_with_tls_does_not(proxy: Proxy) -> None:
    pair = ((TLS / "server.key").read_bytes(), (TLS / "server.pem").read_bytes())
    with (
        ScriptedServer(credentials=grpc.ssl_server_credentials([pair])) as server,
        queuegate.Client(
            server.address, timeout=60, tls=queuegate.Tls(ca_file=TLS / "ca.pem")
        ) as client,
    ):
        assert client.check("alice", "root")
    assert not proxy.was_asked()


def test_a_client_for_asyncio_does_not(proxy: Proxy, server: ScriptedServer) -> None:
    async def ask() -> bool:
        async with queuegate.aio.Client(server.address, timeout=60) as client:
            return bool(await client.check("alice", "root"))

    assert asyncio.run(ask())
    assert not proxy.was_asked()


def test_the_command_does_not(proxy: Proxy, server: ScriptedServer) -> None:
    assert main(["check", "alice", "root", "--address", server.address, "--timeout", "60"]) == 0
    assert not proxy.was_asked()


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_does_not(kind: str, proxy: Proxy, serving: str) -> None:
    with live_gate(serving, kind) as gate:
        assert decides_itself(gate, "sue", "root.analytics.reports")
    assert not proxy.was_asked()
