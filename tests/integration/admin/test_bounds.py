"""Limits on clients of the operations port, which is open to the network."""

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from queuegate_server.admin.connections import MAX_HEAD_BYTES
from queuegate_server.settings.load import SettingsError, load_settings
from tests.support.eventually import eventually
from tests.support.rows import rows
from tests.support.servers.admin_port import LISTEN, get, ops_address
from tests.support.servers.queuegate_server import RunningServer, running_server, server_command


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(*LISTEN) as started:
        yield started


@pytest.fixture
def place(server: RunningServer) -> tuple[str, int]:
    host, _, port = ops_address(server).rpartition(":")
    return host, int(port)


def exchange(place: tuple[str, int], sent: bytes) -> bytes:
    """Send a request, and return all data until the server closes the connection."""
    with socket.create_connection(place, 60) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"200"),
        (b"HEAD /readyz HTTP/1.1\r\nHost: x\r\n\r\n", b"200"),
        (b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", b"405"),
        (b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\nabc", b"405"),
        (b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 5_000), b"400"),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n" % (b"a" * 5_000), b"400"),
        (b"GET /livez HTTP/1.1\r\n%s\r\n" % (b"X: a\r\n" * 500), b"400"),
        (b"not http\r\n\r\n", b"400"),
        (b"GET /livez HTTP/1.1\r\n\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
    ],
)
def test_one_request_a_connection(
    server: RunningServer, place: tuple[str, int], sent: bytes, status: bytes
) -> None:
    answer = exchange(place, sent)
    assert answer.startswith((b"HTTP/1.1 " + status, b"HTTP/1.0 " + status))
    assert answer.count(b"HTTP/1.") == 1
    assert "aiohttp.server" not in {entry["logger"] for entry in server.logs}


@pytest.mark.parametrize("unit", [b"\r\n", b"\n"])
def test_empty_lines_without_an_end(place: tuple[str, int], unit: bytes) -> None:
    """Some may precede a request."""
    request = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    assert exchange(place, b"\r\n" * 10 + request).startswith(b"HTTP/1.1 200")
    answer = exchange(place, unit * (2 * MAX_HEAD_BYTES // len(unit)) + request)
    assert answer.startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("first", [1, MAX_HEAD_BYTES // 2, MAX_HEAD_BYTES - 1, MAX_HEAD_BYTES])
@pytest.mark.parametrize("size", [MAX_HEAD_BYTES, MAX_HEAD_BYTES + 1, 4 * MAX_HEAD_BYTES])
def test_the_headers_are_bounded_in_all(place: tuple[str, int], size: int, first: int) -> None:
    """However they are divided into what arrives at once."""
    lines = b"X: %s\r\n" % (b"a" * 1_500) * 60
    head = b"GET /livez HTTP/1.1\r\nHost: x\r\n" + lines
    head = head[: size - 4].rstrip(b"\r\n").ljust(size - 4, b"a") + b"\r\n\r\n"
    answer = b""
    with suppress(OSError), socket.create_connection(place, 60) as connection:
        connection.sendall(head[:first])
        time.sleep(0.2)
        connection.sendall(head[first:])
        answer = connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 200") is (size == MAX_HEAD_BYTES)
    assert answer.startswith(b"HTTP/1.1 431") is (size > MAX_HEAD_BYTES)


def test_what_follows_a_malformed_request_is_dropped(place: tuple[str, int]) -> None:
    answer = exchange(place, b"not http\r\n\r\n" + b"a" * (2 * MAX_HEAD_BYTES))
    assert answer.startswith(b"HTTP/1.0 400")


def test_an_incomplete_request_is_cut_off(place: tuple[str, int]) -> None:
    start = time.monotonic()
    with ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection(place, 100)) for _ in range(2)]
        waiting[1].sendall(b"GET /metr")
        for connection in waiting:
            try:
                while connection.recv(4_096):
                    pass
            except ConnectionResetError:
                pass
    assert time.monotonic() - start < 60


def test_connections_are_bounded(server: RunningServer, place: tuple[str, int]) -> None:
    """Connections above the bound are closed at once, and the port answers again."""
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(place, 60)) for _ in range(300)]
        cut = 0
        for connection in connections[150:]:
            try:
                cut += not connection.recv(1)
            except ConnectionResetError:
                cut += 1
        assert cut == 150

    def answers() -> bool:
        # It may not have seen yet that there is room again.
        try:
            return get(ops_address(server), "/livez")[0] == 200
        except OSError:
            return False

    eventually(answers, expected=True)


@rows
def test_invalid_addresses(address: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        load_settings(options=[f"ops.listen={address}"])


def test_an_address_in_use(server: RunningServer) -> None:
    address = ops_address(server)
    outcome = subprocess.run(
        server_command("serve", "--listen", "127.0.0.1:0", "--set", f"ops.listen={address}"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert outcome.returncode == 2
    assert f"cannot listen on '{address}': Address already in use" in outcome.stderr


def test_ipv6(server: RunningServer) -> None:
    with running_server("--set", "ops.listen=[::1]:0") as other:
        assert ops_address(other).startswith("[::1]:")
        assert get(ops_address(other), "/livez") == (200, "ok\n")
