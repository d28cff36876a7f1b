"""Malformed bodies and slow clients are rejected, while others get their answers."""

import asyncio
import contextlib
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from queuegate_server.admission.server.webhook_limits import (
    LARGE_BODIES,
    MAX_CONNECTIONS,
    SMALL_BODY_BYTES,
    SMALL_BODY_ENTRIES,
)
from queuegate_server.runtime.resources import raise_file_limit
from tests.support.eventually import eventually
from tests.support.rows import rows
from tests.support.servers.webhook import Webhook, patch_of

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}


def review(user: str = "bob", uid: str = "u", **request: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": "dev",
            "userInfo": {"username": user, "groups": ["dev"]},
            "object": POD,
            **request,
        },
    }


def post(webhook: Webhook, content: bytes, kind: str = "application/json") -> httpx2.Response:
    return webhook.http.post("/mutate", content=content, headers={"Content-Type": kind})


@rows
def test_malformed_reviews(
    webhook: Webhook, part: str, change: dict[str, Any], message: str
) -> None:
    changed = {**review(), **change} if part == "review" else review(**change)
    answer = post(webhook, json.dumps(changed).encode())
    assert answer.status_code == 400
    assert message in answer.text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b"\xff\xfe{}", "the body is not JSON"),
        (b"\xef\xbb\xbf{}", "the body is not JSON"),
        (b'{"apiVersion":"\xff"}', "the body is not JSON"),
        (b'{"a":NaN}', "the body is not JSON"),
        (b'{"a":"\\ud800"}', "the body is not JSON"),
        (b'{"a":"\\ude00\\ud800"}', "the body is not JSON"),
        (b'{"a":' * 500_000, "nested too deeply"),
        (b'{"a":' + b"[" * 500_000, "nested too deeply"),
    ],
)
def test_malformed_bodies(webhook: Webhook, body: bytes, message: str) -> None:
    answer = post(webhook, body)
    assert answer.status_code == 400
    assert message in answer.text


def test_many_groups(webhook: Webhook) -> None:
    groups = {"groups": ["g"] * 5_000}
    answer = post(webhook, json.dumps(review(userInfo=groups)).encode())
    assert answer.status_code == 400
    assert "groups: more than 2000 entries" in answer.text


def test_wrong_requests(webhook: Webhook) -> None:
    assert post(webhook, b"{}", "text/plain").status_code == 415
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert webhook.http.post("/mutate", content=b"{}", headers=packed).status_code == 415
    assert webhook.http.get("/mutate").status_code == 405
    assert webhook.http.post("/nothing").status_code == 404


@pytest.mark.parametrize("parameters", [";", ';x="', '"', ";a*0*=%ff"])
def test_a_content_type_costs_little(webhook: Webhook, parameters: str) -> None:
    kind = "application/json;" + parameters * (8_000 // len(parameters))
    before = webhook.server.processor_seconds()
    assert post(webhook, json.dumps(review()).encode(), kind).status_code == 200
    assert webhook.server.processor_seconds() - before < 0.2


def test_huge_bodies(webhook: Webhook) -> None:
    def endless() -> Any:
        for _ in range(200):
            yield b" " * 65536

    declared = post(webhook, b" " * (4 * 1024 * 1024))
    assert declared.status_code == 413
    try:
        chunked = webhook.http.post(
            "/mutate", content=endless(), headers={"Content-Type": "application/json"}
        )
    except httpx2.HTTPError:
        pass  # the connection was closed while the client still wrote
    else:
        assert chunked.status_code == 411
        assert "the request has no Content-Length header" in chunked.text
    largest = review(object={**POD, "spec": {"x": "y" * (3 * 1024 * 1024 - 1000)}})
    assert post(webhook, json.dumps(largest).encode()).status_code == 200


HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
ENDLESS = {
    "empty lines": (b"", b"\r\n"),
    "headers": (b"POST /mutate HTTP/1.1\r\n", b"a: b\r\n"),
    "a header": (b"POST /mutate HTTP/1.1\r\na: ", b"b"),
    "chunks of one byte": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "an extension of a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a=b;"),
    "trailers": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
    "requests": (b"", HEAD + b"Content-Length: 2\r\n\r\n{}"),
    "expectations": (b"", HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"),
}
"""What a client sends first, and then without an end."""
PATIENCE = 60
"""Seconds."""


@pytest.mark.parametrize(("first", "unit"), ENDLESS.values(), ids=ENDLESS)
def test_what_does_not_end_ends_the_connection(webhook: Webhook, first: bytes, unit: bytes) -> None:
    def send() -> None:
        with raw_connection(webhook) as connection, contextlib.suppress(OSError):
            connection.sendall(first)
            part = unit * (100_000 // len(unit))
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                connection.sendall(part)
            pytest.fail("the connection is still open")

    # In a thread of its own: with Python 3.13 and OpenSSL 3.5, the error of this connection fails
    # the next read of another connection in the same thread.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(send).result()
    assert webhook.review("/mutate", review())["allowed"]


def test_requests_that_do_not_wait_for_answers_get_one(webhook: Webhook) -> None:
    body = json.dumps(review()).encode()
    request = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with raw_connection(webhook) as connection:
        connection.sendall(request * 3)
        answers = b""
        while part := connection.recv(65_536):
            answers += part
    assert answers.count(b"HTTP/1.1 200 OK") == 1


def test_small_bodies_of_many_entries_wait_like_large_ones(webhook: Webhook) -> None:
    """While slow clients take all slots, only bodies with few entries are reviewed."""

    def body_of(entries: int) -> bytes:
        body = json.dumps(review(object={**POD, "spec": [[]] * entries}), separators=(",", ":"))
        return body.encode()

    few, many = body_of(SMALL_BODY_ENTRIES // 2 - 50), body_of(10_000)
    assert len(few) < len(many) < SMALL_BODY_BYTES
    assert [post(webhook, body).status_code for body in (few, many)] == [200, 200]
    with all_slots_taken(webhook):
        eventually(lambda: post(webhook, many).status_code, 429)
        assert post(webhook, few).status_code == 200
    eventually(lambda: post(webhook, many).status_code, 200)


@contextlib.contextmanager
def all_slots_taken(webhook: Webhook) -> Iterator[None]:
    """Begin so many large bodies, without ending them, that no slot becomes free while a request
    waits for one.
    """
    ended = threading.Event()

    def send_slowly() -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError), raw_connection(webhook) as connection:
                connection.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n{")
                closed_at(connection)

    with ThreadPoolExecutor(3 * LARGE_BODIES) as pool:
        for _ in range(3 * LARGE_BODIES):
            pool.submit(send_slowly)
        try:
            yield
        finally:
            ended.set()


@pytest.mark.parametrize("name", ["annotations", "labels"])
def test_maps_with_many_entries(webhook: Webhook, name: str) -> None:
    """Each entry would become objects, and an API server accepts 256 KiB of annotations."""

    def ask(count: int, value: str) -> dict[str, Any]:
        entries = {f"name-{number}": value for number in range(count)}
        pod = {"metadata": {name: entries}}
        return webhook.review("/mutate", review(object=pod))

    assert ask(2_000, 'a "quoted" value\\')["allowed"]
    refused = ask(10_000, "")
    assert not refused["allowed"]
    assert f"{name}: more than 2000 entries" in refused["status"]["message"]


def raw_connection(webhook: Webhook) -> ssl.SSLSocket:
    host, port = webhook.address.rsplit(":", 1)
    plain = socket.create_connection((host, int(port)), timeout=60)
    return webhook.client_context().wrap_socket(plain, server_hostname="localhost")


def closed_at(connection: socket.socket) -> float:
    """Read until the other side ends the connection; return when that was."""

    def read() -> float:
        with contextlib.suppress(OSError):
            while connection.recv(65536):
                pass
        return time.monotonic()

    # If a connection ends without notice, OpenSSL keeps the error for the thread, and Python may
    # raise it for the next connection that this thread reads.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(read).result()


@rows
def test_what_is_not_http(webhook: Webhook, sent: bytes) -> None:
    with raw_connection(webhook) as connection:
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.split()[1] == b"400"
    assert b"\r\nServer: queuegate\r\n" in answer
    assert "aiohttp.server" not in {entry["logger"] for entry in webhook.server.logs}


def test_slow_clients(webhook: Webhook) -> None:
    """Clients that stop in the middle lose the connection; meanwhile others are answered."""
    host, port = webhook.address.rsplit(":", 1)
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    started = time.monotonic()
    silent = socket.create_connection((host, int(port)), timeout=60)
    in_head = raw_connection(webhook)
    in_head.sendall(head)
    in_body = raw_connection(webhook)
    in_body.sendall(head + b"Content-Length: 1000\r\n\r\n{")
    nothing = raw_connection(webhook)
    endless_head = raw_connection(webhook)
    with ThreadPoolExecutor(8) as pool:
        slow = [pool.submit(closed_at, each) for each in (silent, in_head, in_body, nothing)]
        try:
            for _ in range(200):
                endless_head.sendall(b"X-Header: " + b"a" * 1000 + b"\r\n")
        except OSError:
            pass
        # Headers that are too long end the connection at once, before its time is up.
        cut = closed_at(endless_head)
        for number in range(50):
            assert webhook.review("/mutate", review(uid=str(number)))["uid"] == str(number)
            if number == 0:
                answered = time.monotonic()
        ended = [each.result() for each in slow]
        assert cut < min(ended)
        assert answered < max(ended)
        assert all(3 < each - started < 60 for each in ended), (started, ended)
    for each in (silent, in_head, in_body, nothing, endless_head):
        each.close()
    assert webhook.metric("queuegate_admission_reviews_total", 'endpoint="mutate",outcome="slow"')


def test_connections_beyond_the_bound(webhook: Webhook) -> None:
    """A new connection takes the place of the one that has done nothing for longest."""
    assert webhook.review("/mutate", review())["allowed"]
    host, port = webhook.address.rsplit(":", 1)
    raise_file_limit()
    silent = [socket.create_connection((host, int(port)), timeout=60) for _ in range(1_200)]
    first_ended, newcomer = closed_at(silent[0]), raw_connection(webhook)
    newcomer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert newcomer.recv(12) == b"HTTP/1.1 404"
    descriptors = len(list(Path(f"/proc/{webhook.server.pid}/fd").iterdir()))
    assert descriptors < MAX_CONNECTIONS + 50
    assert first_ended < closed_at(silent[-1])
    assert webhook.review("/mutate", review())["allowed"]
    for each in (newcomer, *silent):
        each.close()


class Connection:
    """A connection to the webhook that stays open, as an API server's does."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._number = number

    async def ask(self) -> None:
        """Send a review and judge the answer; every third is refused."""
        number, refused = self._number, self._number % 3 == 0
        pod: dict[str, Any] = {"metadata": {}}
        if refused:
            pod["metadata"]["annotations"] = {"yunikorn.apache.org/user.info": '{"user":"eve"}'}
        body = json.dumps(review(f"user-{number}", f"uid-{number}", object=pod)).encode()
        self._writer.write(
            b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        [length] = re.findall(rb"(?i)content-length: (\d+)", head)
        response = json.loads(await self._reader.readexactly(int(length)))["response"]
        assert response["uid"] == f"uid-{number}"
        assert response["allowed"] is not refused
        if not refused:
            value = patch_of(response)[0]["value"]["yunikorn.apache.org/user.info"]
            assert json.loads(value)["user"] == f"user-{number}"

    def close(self) -> None:
        self._writer.transport.abort()


async def test_the_requests_of_three_api_servers_at_once(webhook: Webhook) -> None:
    host, port = webhook.address.rsplit(":", 1)
    context = webhook.client_context()
    # A handshake and its first request have seconds only: a busy client opens few at a time.
    few = asyncio.Semaphore(20)

    async def opened(number: int) -> Connection:
        async with few:
            ends = await asyncio.open_connection(
                host, int(port), ssl=context, server_hostname="localhost"
            )
            connection = Connection(*ends, number)
            await connection.ask()
            return connection

    async with asyncio.timeout(150):
        connections = await asyncio.gather(*(opened(number) for number in range(600)))
        await asyncio.gather(*(connection.ask() for connection in connections))
    for connection in connections:
        connection.close()
