"""What follows a request, or is no request, neither stops a port nor is worked on."""

import contextlib
import itertools
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from tests.integration.admission.test_bounds import closed_at, raw_connection, review
from tests.support.rows import rows
from tests.support.servers.webhook import Webhook


def plain_connection(webhook: Webhook) -> socket.socket:
    """A connection to the operations port."""
    host, port = webhook.ops.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60)


@rows
def test_a_body_that_nobody_reads(webhook: Webhook, head: bytes, status: bytes) -> None:
    """A client that sends all before it reads gets the answer, if the rest is not long."""
    with raw_connection(webhook) as connection:
        connection.sendall(head + b"1\r\n{\r\n" * 2_000)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.split()[1] == status
    assert b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize("port", ["webhook", "operations port"])
@pytest.mark.parametrize(
    "rest",
    [
        b"\r\n" * 20_000,
        b"GET /livez HTTP/1.1\r\nHost: x\r\n" + (b"X: " + b"a" * 1_900 + b"\r\n") * 12,
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        + b"\r\n" * 20_000,
        b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n" + b"\r\n" * 20_000,
    ],
    ids=["empty lines", "a long head", "a websocket", "a tunnel"],
)
def test_what_follows_a_request_ends_the_connection(
    webhook: Webhook, rest: bytes, port: str
) -> None:
    """All of it arrives at once."""
    with raw_connection(webhook) if port == "webhook" else plain_connection(webhook) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" + rest)
        closed_at(connection)
    assert webhook.plain.get("/livez").status_code == 200
    assert webhook.review("/mutate", review(uid="1"))["uid"] == "1"


@pytest.mark.parametrize(
    "rest", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 40, b"POST /mutate HTTP/1.1\r\nHost: x\r\n\r\n"]
)
@rows
def test_nothing_is_parsed_after_a_request_for_another_protocol(
    webhook: Webhook, first: bytes, rest: bytes
) -> None:
    with raw_connection(webhook) as connection:
        connection.sendall(first + rest)
        answers = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answers.count(b"HTTP/1.1 ") == 1


def test_a_body_that_fills_the_buffers_is_dropped(webhook: Webhook) -> None:
    """The rest is read although the first part alone stopped the reading."""
    with raw_connection(webhook) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        connection.settimeout(60)
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 204800\r\n\r\n")
        for _ in range(4):
            connection.sendall(b"a" * 51_200)
        assert connection.recv(12) == b"HTTP/1.1 404"


_PARTS = (
    b"\r\n",
    b"\r\n" * 9_000,
    b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n",
    b"a: b\r\n",
    b"a" * 7_000 + b": c\r\n",
    b"HEAD / HTTP/1.0\r\n\r\n",
    b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n",
    b"a" * 50_000,
    b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"1\r\na\r\n",
    b"0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 9000\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\nContent-Length: 3\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"\x00\x01",
)


def test_no_sequence_of_parts_stops_the_ports(webhook: Webhook) -> None:
    """The parts come one after another, cut anywhere."""

    def send(seed: int) -> None:
        random = Random(seed)
        sent = b"".join(random.choices(_PARTS, k=random.randint(2, 7)))
        cuts = [0, *sorted(random.choices(range(len(sent)), k=random.randint(0, 4))), len(sent)]
        connect = raw_connection if random.random() < 0.5 else plain_connection
        with connect(webhook) as connection, contextlib.suppress(OSError):
            connection.settimeout(2)
            for start, end in itertools.pairwise(cuts):
                connection.sendall(sent[start:end])
                time.sleep(random.choice([0, 0.01]))
            connection.recv(65_536)

    before = len(webhook.server.logs)
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(send, range(300)))
    assert webhook.plain.get("/livez").status_code == 200
    assert webhook.review("/mutate", review(uid="1"))["uid"] == "1"
    errors = [entry for entry in webhook.server.logs[before:] if entry["level"] == "error"]
    assert errors == []
