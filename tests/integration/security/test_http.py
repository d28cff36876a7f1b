"""Callers over HTTP: who they are, what they may do, and what a browser may send."""

import base64
import hashlib
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.security.authorities import (
    SPIFFE,
    Authority,
    configured,
    spiffe,
    with_tls,
)
from tests.support.rows import rows
from tests.support.servers.http_port import (
    ACTIONS,
    EVALUATION,
    EVALUATIONS,
    RESOURCES,
    SUBJECTS,
    Reply,
    asked,
    http_address,
    send,
)
from tests.support.servers.queuegate_server import RunningServer

CHECKS = "qg_" + "c" * 43
READS = "qg_" + "r" * 43
UNKNOWN = "qg_" + "u" * 43
ASKED = asked("alice", "submit", "root.open")
LOOPBACK = (
    "this address is on loopback: use localhost or a loopback IP address in the URL, or send a"
    " bearer token"
)
PROXY = "a proxy must send its caller's bearer token"


def tokens(folder: Path) -> dict[str, Any]:
    """Return the settings of two callers with tokens."""
    file = folder / "tokens"
    lines = [
        f"{name}:{hashlib.sha256(token.encode()).hexdigest()}\n"
        for name, token in (("checks", CHECKS), ("reads", READS))
    ]
    file.write_text("".join(lines))
    return {
        "token_file": str(file),
        "tokens": {
            "checks": {"roles": ["check"]},
            "reads": {"roles": ["read"], "assert_groups": True},
        },
    }


def bearing(token: str) -> dict[str, Any]:
    return {"Authorization": f"Bearer {token}"} if token else {}


@pytest.fixture(scope="module")
def open_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A port that all machines reach in plaintext, for callers with tokens."""
    folder = tmp_path_factory.mktemp("open")
    http = {"listen": [{"address": "0.0.0.0:0", "insecure": True}]}
    with configured(folder, http=http, callers=tokens(folder)) as server:
        yield server


def local(server: RunningServer) -> str:
    return http_address(server).replace("0.0.0.0", "127.0.0.1")


@rows
def test_roles(open_port: RunningServer, path: str, token: str, status: int) -> None:
    """A caller on this machine is nobody on a port that a proxy may forward to."""
    known = {"check": CHECKS, "read": READS, "unknown": UNKNOWN, "none": ""}[token]
    body = ASKED | {"resource": {"type": "queue", "id": "root.open"}}
    reply = send(local(open_port), f"/access/v1/{path}", body, **bearing(known))
    assert reply.status == status, reply
    assert (reply.headers["WWW-Authenticate"] == "Bearer") is (status == 401)


@pytest.mark.parametrize("body", [{}, {"evaluations": [{}]}, b"{", b"x" * 20_000])
@pytest.mark.parametrize("path", [EVALUATION, EVALUATIONS, RESOURCES, SUBJECTS, ACTIONS])
def test_strangers_do_not_learn_what_is_wrong(
    open_port: RunningServer, path: str, body: object
) -> None:
    reply = send(local(open_port), path, body, **bearing(UNKNOWN))
    assert (reply.status, reply.content) == (401, "the server does not know the bearer token")


def test_strangers_do_not_wait_where_callers_wait(tmp_path: Path) -> None:
    http = {"listen": "127.0.0.1:0"}
    constants = {"transports.http.server.WAIT_SECONDS": 0}
    batch = b'{"evaluations":[' + b"{}," * 5_000 + b"{}]}"
    callers = tokens(tmp_path) | {"loopback": {"roles": []}}
    with (
        configured(tmp_path, http=http, callers=callers, constants=constants) as server,
        ThreadPoolExecutor(20) as pool,
    ):
        address = http_address(server)
        strangers = [
            pool.submit(send, address, EVALUATIONS, batch, **bearing(UNKNOWN)) for _ in range(400)
        ]
        statuses: list[int] = []
        while not strangers[-1].done() or not statuses:
            statuses.append(send(address, RESOURCES, ASKED, **bearing(READS)).status)
            time.sleep(0.11)  # longer than the longest pause for the search itself
    assert {each.result().status for each in strangers} == {401}
    assert set(statuses) == {200}


@pytest.mark.parametrize("host", ["[", "a]b", "\xff"])
def test_a_host_that_is_none(open_port: RunningServer, host: str) -> None:
    for path in ("/openapi.json", "/.well-known/authzen-configuration", "/nothing"):
        reply = send(local(open_port), path, method="GET", Host=host)
        expected = "the Host header must be a host name or an address"
        assert (reply.status, reply.content) == (400, expected)


def test_searches_of_unknown_types_need_the_role_too(open_port: RunningServer) -> None:
    body = ASKED | {"subject": {"type": "spaceship", "id": "x"}}
    for path in (RESOURCES, SUBJECTS, ACTIONS):
        assert send(local(open_port), path, body, **bearing(CHECKS)).status == 403
        assert send(local(open_port), path, body, **bearing(READS)).content["results"] == []


@pytest.mark.parametrize("authorization", ["Basic YTpi", "Bearer", f"bearer {CHECKS} x"])
def test_a_malformed_credential_is_no_weaker_identity(
    open_port: RunningServer, authorization: str
) -> None:
    assert send(local(open_port), EVALUATION, ASKED, Authorization=authorization).status == 401


def test_documents_are_open(open_port: RunningServer) -> None:
    address = local(open_port)
    reply = send(address, "/.well-known/authzen-configuration", method="GET", Host="pdp.example")
    assert reply.content["policy_decision_point"] == "http://pdp.example"
    assert send(address, "/openapi.json", method="GET").content["openapi"] == "3.1.0"


def test_groups_count_for_callers_with_that_right(open_port: RunningServer) -> None:
    body = asked("eve", "submit", "root.secret-project", groups=["secret-group"])
    found = send(local(open_port), ACTIONS, body, **bearing(READS)).content["results"]
    assert found == [{"name": "submit"}]
    reply = send(local(open_port), EVALUATION, body, **bearing(CHECKS))
    assert reply.content["decision"] is False


def test_rates(tmp_path: Path) -> None:
    limits = {"caller_rate": 0.001, "caller_burst": 3}
    with configured(tmp_path, http={"listen": "127.0.0.1:0"}, limits=limits) as server:
        address = http_address(server)
        replies = [send(address, EVALUATION, ASKED) for _ in range(4)]
    assert [reply.status for reply in replies] == [200, 200, 200, 429]
    assert int(replies[3].headers["Retry-After"]) > 100
    assert replies[3].content == "the caller exceeds its call rate (limits.caller_rate)"


@pytest.mark.parametrize(
    ("path", "body"),
    [(EVALUATION, {}), (EVALUATIONS, {"evaluations": [{}]}), (RESOURCES, {"subject": 1})],
)
def test_requests_that_no_method_answers_count_toward_the_rate(
    tmp_path: Path, path: str, body: object
) -> None:
    limits = {"caller_rate": 0.001, "caller_burst": 2}
    with configured(tmp_path, http={"listen": "127.0.0.1:0"}, limits=limits) as server:
        statuses = [send(http_address(server), path, body).status for _ in range(3)]
    assert statuses == [*[200 if path == EVALUATIONS else 400] * 2, 429]


def test_a_page_token_gives_no_rights(open_port: RunningServer) -> None:
    """A caller needs the role for each page, and a forged token only begins elsewhere."""
    body = asked("eve", "submit", "", groups=["secret-group"]) | {"resource": {"type": "queue"}}
    first = send(local(open_port), RESOURCES, body | {"page": {"limit": 1}}, **bearing(READS))
    token = first.content["page"]["next_token"]
    again = body | {"page": {"token": token}}
    assert send(local(open_port), RESOURCES, again, **bearing(CHECKS)).status == 403
    everything = send(local(open_port), RESOURCES, body, **bearing(READS)).content["results"]
    assert [each["id"] for each in everything] == ["root.open", "root.secret-project"]
    forged = base64.urlsafe_b64encode(base64.urlsafe_b64decode(token)[:14] + b"root").decode()
    found = send(
        local(open_port), RESOURCES, body | {"page": {"token": forged}}, **bearing(READS)
    ).content
    assert found["results"] == everything[:1]


def test_certificates(tmp_path: Path, authority: Authority, stranger: Authority) -> None:
    callers = {"certificates": {SPIFFE: {"roles": ["check"]}}}
    http = {"listen": [with_tls(authority)]}
    with configured(tmp_path, http=http, callers=callers) as server:
        address = http_address(server)

        def ask(issuer: Authority | None, name: str = SPIFFE) -> Reply:
            context = ssl.create_default_context(cafile=authority.file)
            if issuer is not None:
                files = issuer.client("client", spiffe(name))
                assert files.certificate_file
                context.load_cert_chain(files.certificate_file, files.key_file)
            return send(address, EVALUATION, ASKED, context=context)

        assert ask(authority).content["decision"] is True
        assert ask(authority, "spiffe://example.org/other").status == 403
        for unknown in (None, stranger):
            with pytest.raises((ssl.SSLError, OSError)):
                ask(unknown)


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    http = {"listen": [{"address": f"unix:{path}", "mode": "0600"}]}
    callers = {"unix": {"roles": ["check"]}, "loopback": {"roles": []}}
    with configured(tmp_path, http=http, callers=callers) as server:
        address = http_address(server)
        assert address == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o600
        assert send(address, EVALUATION, ASKED).content["decision"] is True
        assert send(address, EVALUATION, ASKED, Host="any.example").status == 200
        reply = send(address, EVALUATION, ASKED, X_Forwarded_For="1.2.3.4")
        assert (reply.status, reply.content) == (401, PROXY)
    assert not path.exists()


def test_a_socket_that_was_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    http = {"listen": f"unix:{path}"}
    with configured(tmp_path, http=http) as server:
        server.process.kill()
        server.process.wait(60)
    assert path.exists()
    with configured(tmp_path, http=http) as server:
        assert send(http_address(server), EVALUATION, ASKED).content["decision"] is True


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("loopback")
    http = {"listen": "127.0.0.1:0"}
    with configured(folder, http=http, callers=tokens(folder)) as server:
        yield server


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.:1", "127.0.0.2:80", "[::1]:1"])
def test_hosts_of_loopback(loopback: RunningServer, host: str) -> None:
    assert send(http_address(loopback), EVALUATION, ASKED, Host=host).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil"])
@pytest.mark.parametrize("path", [EVALUATION, "/openapi.json"])
def test_a_page_with_another_host_learns_nothing(
    loopback: RunningServer, host: str, path: str
) -> None:
    """A name of the page's own site may lead to loopback (DNS rebinding)."""
    method = "POST" if path == EVALUATION else "GET"
    for token in ("", UNKNOWN):
        reply = send(
            http_address(loopback), path, ASKED, method=method, Host=host, **bearing(token)
        )
        assert (reply.status, reply.content) == (421, LOOPBACK)
    reply = send(http_address(loopback), path, ASKED, method=method, Host=host, **bearing(CHECKS))
    assert reply.status == 200


@pytest.mark.parametrize("header", ["Forwarded", "X_Forwarded_For", "X_Real_IP", "Via"])
def test_a_proxy_is_no_local_caller(loopback: RunningServer, header: str) -> None:
    forwarded: dict[str, Any] = {header: "1.2.3.4"}
    reply = send(http_address(loopback), EVALUATION, ASKED, **forwarded)
    assert (reply.status, reply.content) == (401, PROXY)
    reply = send(http_address(loopback), EVALUATION, ASKED, **forwarded, **bearing(CHECKS))
    assert reply.status == 200


def test_no_page_of_another_site_may_read_an_answer(loopback: RunningServer) -> None:
    """A page must ask before it sends JSON elsewhere, and no answer permits it."""
    address = http_address(loopback)
    asking: dict[str, Any] = {
        "Origin": "https://evil.example",
        "Access_Control_Request_Method": "POST",
        "Access_Control_Request_Headers": "content-type",
    }
    replies = [
        send(address, EVALUATION, method="OPTIONS", **asking),
        send(address, EVALUATION, ASKED, Origin="https://evil.example"),
        send(address, "/openapi.json", method="GET", Origin="https://evil.example"),
    ]
    assert [reply.status for reply in replies] == [405, 200, 200]
    for reply in replies:
        assert not [name for name in reply.headers if name.lower().startswith("access-control")]
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
    # What a form or a page without that permission may send.
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ):
        assert send(address, EVALUATION, ASKED, Content_Type=kind).status == 400
