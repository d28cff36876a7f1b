"""The HTTP port of server processes: bodies, connections, workers, and the end."""

import contextlib
import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from queuegate_server.admin.bodies import RESPONSE_SECONDS
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers import with_constants
from tests.support.servers.contract import QUEUES
from tests.support.servers.http_port import (
    EVALUATION,
    EVALUATIONS,
    LISTEN,
    RESOURCES,
    asked,
    connect,
    exchange,
    http_address,
    send,
)
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.workers import several_workers

ASKED = asked("alice", "submit", "root.open")
HEAD = (
    b"POST /access/v1/evaluation HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    path = tmp_path_factory.mktemp("http") / "queues.yaml"
    path.write_text(QUEUES)
    with running_server("--policy", str(path), *LISTEN, "--set", "limits.max_message=1MiB") as it:
        yield it


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server in which no body waits for others."""
    path = tmp_path_factory.mktemp("impatient") / "queues.yaml"
    path.write_text(QUEUES)
    constants = with_constants.environment({"transports.http.server.WAIT_SECONDS": 0})
    with running_server("--policy", str(path), *LISTEN, environment=constants) as it:
        yield it


def raw(server: RunningServer, *parts: bytes) -> bytes:
    """Send bytes, and return all that comes back until the connection ends or is idle."""
    host, _, port = http_address(server).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as opened:
        for part in parts:
            opened.sendall(part)
        opened.settimeout(5)
        found = b""
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while data := opened.recv(65_536):
                found += data
                if found.endswith((b"}}\n", b'"\n')):
                    break
        return found


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def body_of(text: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(text), text)


DATA = json.dumps(ASKED).encode()


def test_a_connection_carries_one_request_after_another(server: RunningServer) -> None:
    opened = connect(http_address(server))
    sockets = set()
    for _ in range(3):
        assert exchange(opened, EVALUATION, ASKED).status == 200
        assert exchange(opened, EVALUATION, {}).status == 400
        sockets.add(opened.sock)
    opened.close()
    assert len(sockets) == 1


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}   \r\n0\r\n\r\n", 411),
        (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", 400),
        (b"Content-Length: +2\r\n\r\n{}", 400),
        (b"Content-Length: 2\r\nContent-Encoding: gzip\r\n\r\n{}", 400),
        (b"Content-Length: 99999999\r\n\r\n", 413),
        (b"Content-Length: 2\r\nExpect: 200-maybe\r\n\r\n{}", 417),
        (b"Content-Length: 2\r\nX: %s\r\n\r\n{}" % (b"x" * 9_000), 400),
        (b"Content-Length: 2\r\n%s\r\n{}" % (b"X: y\r\n" * 100), 400),
        (b"Content-Length: 2\r\nX-Request-ID: \xff\r\n\r\n{}", 400),
        (b"\r\n", 411),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_what_no_client_sends(server: RunningServer, head: bytes, status: int) -> None:
    answer = raw(server, HEAD + head)
    assert status_of(answer) == status
    assert b"Retry-After" not in answer


@pytest.mark.parametrize("size", [10, 30_000])
def test_a_client_that_waits_to_be_asked_for_the_body(server: RunningServer, size: int) -> None:
    text = DATA + b" " * size
    answer = raw(server, HEAD + b"Expect: 100-continue\r\n" + body_of(text))
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Content-Length: 99999999\r\n", 413),
        (b"Content-Length: 30000\r\nContent-Encoding: gzip\r\n", 400),
    ],
)
def test_no_client_is_asked_for_a_body_that_is_refused(
    server: RunningServer, head: bytes, status: int
) -> None:
    assert status_of(raw(server, HEAD + head + b"Expect: 100-continue\r\n\r\n")) == status


def test_requests_that_do_not_wait_for_answers(server: RunningServer) -> None:
    answer = raw(server, (HEAD + body_of(DATA)) * 5)
    assert answer.count(b"HTTP/1.1 200") <= 1


def test_a_long_body(server: RunningServer) -> None:
    groups = [f"group{number}" for number in range(9_000)]
    body = asked("nouser", "submit", "root.dev", groups=[*groups, "group1001"])
    assert send(http_address(server), EVALUATION, body).content["decision"] is True
    items = [{"action": {"name": "submit"}}, {"action": {"name": "admin"}}] * 2_000
    reply = send(http_address(server), EVALUATIONS, ASKED | {"evaluations": items})
    assert [each["decision"] for each in reply.content["evaluations"]] == [True, False] * 2_000


def test_a_body_over_the_limit(server: RunningServer) -> None:
    reply = send(http_address(server), EVALUATION, b" " * (1 << 20) + DATA)
    assert (reply.status, reply.content) == (413, "the body is longer than 1048576 bytes")


def test_a_path_that_is_none(server: RunningServer) -> None:
    reply = send(http_address(server), "/access/v1/evaluatio", ASKED)
    assert reply.status == 404
    assert reply.content.startswith("there is no such path; this port serves /access/v1/evaluation")


@pytest.mark.parametrize("body", [ASKED, {}])
@pytest.mark.parametrize("request_id", ["trace-me", "a b\tc", "é", "x" * 4_000])
def test_a_request_id_comes_back(server: RunningServer, body: object, request_id: str) -> None:
    sent = request_id.encode().decode("latin-1")
    reply = send(http_address(server), EVALUATION, body, X_Request_ID=sent)
    assert reply.status == (200 if body else 400)
    assert reply.headers["X-Request-ID"] == sent


def test_a_response_has_the_same_headers_however_it_is_written(server: RunningServer) -> None:
    address = http_address(server)
    found = [
        send(address, EVALUATION, ASKED).headers,
        send(address, EVALUATION, ASKED, X_Request_ID="trace-me").headers,
    ]
    for headers in found:
        assert parsedate_to_datetime(headers["Date"]).tzinfo is not None
        del headers["Date"], headers["X-Request-ID"]
    plain, other = map(dict, found)
    assert plain == other


def test_an_internal_error_reveals_nothing(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(QUEUES)
    broken = with_constants.environment({"transports.http.server.MAX_REMEMBERED_BYTES": "secret"})
    with running_server("--policy", str(policy), *LISTEN, environment=broken) as server:
        reply = send(http_address(server), EVALUATION, ASKED)
        assert reply.status == 500
        found = re.fullmatch(
            r"internal error ([0-9a-f]{16}); the server's log shows the cause", reply.content
        )
        assert found is not None, reply.content
        assert server.wait_for_log("unexpected error")["fault"] == found[1]


def test_a_client_that_does_not_read_its_answer(server: RunningServer) -> None:
    """An answer that is larger than the buffers of both sides is not kept for long."""
    body = asked("u" * 200, "submit", "root" + 4 * f".{'q' * 50}")
    text = json.dumps(body | {"evaluations": [{}] * 10_000}).encode()
    host, _, port = http_address(server).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as opened:
        opened.sendall(HEAD.replace(b"evaluation ", b"evaluations ") + body_of(text))
        first = opened.recv(1_000)
        assert first.startswith(b"HTTP/1.1 200 OK\r\n")
        time.sleep(RESPONSE_SECONDS + 2)
        length = len(first)
        with contextlib.suppress(ConnectionResetError):
            while data := opened.recv(65_536):
                length += len(data)
    assert length < int(first.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"POST //access/v1/evaluation", 404),
        (b"POST /access/v1/evaluatio%6e", 404),
        (b"POST /access/v1/../v1/evaluation", 404),
        (b"POST /access/v1/evaluation/", 404),
        (b"POST /access/v1/evaluation#x", 404),
        (b"POST /access/v1/evaluation?x=/access/v1/evaluations", 200),
        (b"POST http://localhost/access/v1/evaluation", 404),
        (b"POST http://evil.example/access/v1/evaluation", 421),
        (b"PUT /access/v1/evaluation", 405),
        (b"HEAD /access/v1/evaluation", 405),
        (b"POST /openapi.json", 405),
        (b"CONNECT localhost:80", 421),
    ],
)
def test_what_is_no_endpoint(server: RunningServer, line: bytes, status: int) -> None:
    head = HEAD.replace(b"POST /access/v1/evaluation", line)
    answer = raw(server, head + body_of(DATA))
    assert status_of(answer) == status
    assert (b"\r\nAllow: " in answer) is (status == 405)


@pytest.mark.parametrize(
    "header",
    [b"X-Request-ID: a\x00b", b"X-Request-ID: a\r\n b", b"X-Request-ID : a", b"X-Request-ID: a\rb"],
)
def test_a_header_that_may_hide_another(server: RunningServer, header: bytes) -> None:
    answer = raw(server, HEAD + header + b"\r\n" + body_of(DATA))
    assert status_of(answer) == 400


def test_a_plain_client_of_http_1_0(server: RunningServer) -> None:
    head = HEAD.replace(b"HTTP/1.1", b"HTTP/1.0")
    answer = raw(server, head + body_of(DATA))
    assert status_of(answer) == 200
    assert b"\r\nConnection: keep-alive" not in answer


def test_a_client_of_http_1_0_that_keeps_its_connection(server: RunningServer) -> None:
    head = HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Connection: keep-alive\r\n"
    answer = raw(server, head + body_of(DATA))
    assert status_of(answer) == 200
    assert b"\r\nConnection: keep-alive" in answer


def test_small_bodies_do_not_wait_for_large_ones(impatient: RunningServer) -> None:
    address = http_address(impatient)
    large = asked("a", "submit", "root") | {"evaluations": [{}] * 9_000}
    with ThreadPoolExecutor(1) as pool:
        asking = [pool.submit(send, address, EVALUATIONS, large) for _ in range(4)]
        opened = connect(address)
        statuses: list[int] = []
        while not asking[-1].done():
            statuses.append(exchange(opened, RESOURCES, ASKED).status)
            time.sleep(0.11)  # longer than the longest pause for the search itself
        opened.close()
    assert {each.result().status for each in asking} <= {200, 429}
    assert set(statuses) == {200}


def test_a_body_waits_for_others_only_so_long(impatient: RunningServer) -> None:
    batch = b'{"evaluations":[' + b"{}," * 5_000 + b"{}]}"
    host, _, port = http_address(impatient).rpartition(":")
    sent = HEAD.replace(b"evaluation ", b"evaluations ") + body_of(batch)
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
            for _ in range(10)
        ]
        for each in opened:
            each.sendall(sent)
        answers = [each.recv(1_000) for each in opened]
    refused = [each for each in answers if status_of(each) == 429]
    assert 0 < len(refused) < len(opened)
    for answer in refused:
        assert b"\r\nRetry-After: 1\r\n" in answer
        assert answer.endswith(b'"too many bodies are waiting to be read"\n')


def test_several_workers(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(QUEUES)
    with several_workers("--policy", str(policy), *LISTEN) as server:
        addresses = {
            server.wait_for_log("listening over HTTP", count=number)["address"] for number in (1, 2)
        }
        [address] = addresses
        workers = [
            entry["worker"] for entry in server.logs if entry["event"] == "listening over HTTP"
        ]
        assert sorted(workers) == [0, 1]
        for _ in range(20):
            assert send(address, EVALUATION, ASKED).content["decision"] is True


def test_requests_in_progress_are_answered_before_the_end(tmp_path: Path) -> None:
    directory = ScriptedDirectory(tmp_path)
    directory.answer({"slow": {"groups": ["staff"], "held": True}})
    policy = tmp_path / "queues.yaml"
    policy.write_text(
        "partitions: [{name: default, queues: [{name: root, submitacl: ' staff'}]}]\n"
    )
    settings = {
        "policy": {"path": str(policy)},
        "http": {"listen": "127.0.0.1:0"},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp"}},
    }
    with (
        running_server(
            "--config", settings_file(tmp_path, settings), environment=directory.environment
        ) as server,
        ThreadPoolExecutor(1) as pool,
        contextlib.closing(connect(http_address(server))) as idle,
    ):
        address = http_address(server)
        assert exchange(idle, EVALUATION, {}).status == 400
        asking = pool.submit(send, address, EVALUATION, asked("slow", "submit", "root"))
        eventually(lambda: bool(directory.asked()), expected=True)
        server.process.terminate()
        server.wait_for_log("draining")
        directory.release()
        assert asking.result(60).content["decision"] is True
        assert asking.result().headers["Connection"] == "close"
        with pytest.raises((OSError, http.client.HTTPException)):
            exchange(idle, EVALUATION, {})
