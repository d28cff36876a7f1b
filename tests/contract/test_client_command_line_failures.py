"""`queuegate` where there is no answer: its messages and exit statuses."""

import datetime as dt
import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import grpc
import pytest
import trustme

from queuegate.cli import main
from queuegate.v1 import policy_pb2, user_groups_pb2
from tests.support.fakes.scripted_server import Script, ScriptedServer
from tests.support.servers.admin_port import LISTEN, ops_address
from tests.support.servers.queuegate_server import running_server

TLS = Path(__file__).parent / "tls"
Capture = pytest.CaptureFixture[str]
CA = ["--tls-ca", str(TLS / "ca.pem")]
PATIENT = ("--timeout", "60")
"""Where a busy machine must not decide the outcome."""


@pytest.fixture(autouse=True)
def address(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUEGATE_ADDRESS", server.address)


@pytest.fixture(scope="module")
def operations_port() -> Iterator[str]:
    with running_server(*LISTEN) as running:
        yield ops_address(running)


def test_no_user_and_no_answer_are_distinguished(script: Script, capsys: Capture) -> None:
    answer = user_groups_pb2.ResolveUserGroupsResponse(resolver="corp", detail="so it is")
    answer.user_group.user = "alice"
    answer.outcome = user_groups_pb2.RESOLVE_OUTCOME_NOT_FOUND
    script.answers["ResolveUserGroups"] = answer
    assert main([*PATIENT, "resolve", "alice"]) == 1
    assert capsys.readouterr() == ("alice: no such user (resolver corp): so it is\n", "")
    answer.outcome = user_groups_pb2.RESOLVE_OUTCOME_UNAVAILABLE
    assert main([*PATIENT, "resolve", "alice"]) == 3
    expected = "Error: alice: could not be resolved (resolver corp): so it is\n"
    assert capsys.readouterr() == ("", expected)


def test_a_reload_of_a_faulty_configuration(script: Script, capsys: Capture) -> None:
    fault = policy_pb2.Diagnostic(
        severity=policy_pb2.SEVERITY_ERROR, line=3, column=5, message="bad key", remedy="drop it"
    )
    script.answers["ReloadPolicy"] = policy_pb2.ReloadPolicyResponse(
        revision=7, diagnostics=[fault]
    )
    assert main(["reload"]) == 2
    output, errors = capsys.readouterr()
    assert output == "3:5: error: bad key (drop it)\n"
    assert errors == ("Error: the configuration is invalid; the server keeps serving revision 7\n")


def test_a_hanging_server(capsys: Capture) -> None:
    # Of its own: the call may arrive when nobody waits for it any more.
    with ScriptedServer() as server:
        server.script.gate.clear()
        assert main(["--address", server.address, "health", "--timeout", "0.2"]) == 3
    expected = (
        f"Error: no response from {server.address} within 0.2 s: allow more time with --timeout\n"
    )
    assert capsys.readouterr().err == expected


def test_tls(capsys: Capture) -> None:
    pair = ((TLS / "server.key").read_bytes(), (TLS / "server.pem").read_bytes())
    credentials = grpc.ssl_server_credentials([pair], (TLS / "ca.pem").read_bytes(), True)
    options = [
        *PATIENT,
        *("--tls-ca", str(TLS / "ca.pem")),
        *("--tls-cert", str(TLS / "client.pem")),
        *("--tls-key", str(TLS / "client.key")),
        *("--tls-server-name", "queuegate.test"),
    ]
    with ScriptedServer(credentials=credentials) as server:
        assert main(["--address", server.address, *options, "check", "alice", "root"]) == 0
        assert main(["--address", server.address, "check", "alice", "root"]) == 3


@pytest.mark.parametrize(
    ("is_encrypted", "asks_for_client", "options", "message"),
    [
        (
            True,
            False,
            [*CA, "--tls-server-name", "other.test"],
            "is for a different name: pass the name",
        ),
        (True, False, ["--tls-ca", str(TLS / "other-ca.pem")], "is not trusted: pass trusted CA"),
        (True, False, [], "closed the connection: if it requires TLS, pass"),
        (True, True, CA, "closed the connection: if it requires a client certificate, pass"),
        (False, False, CA, "does not speak TLS: connect without it, or to another port"),
    ],
    ids=["other name", "other authority", "plaintext", "no certificate", "plaintext server"],
)
def test_tls_that_does_not_fit(
    capsys: Capture, *, is_encrypted: bool, asks_for_client: bool, options: list[str], message: str
) -> None:
    pair = ((TLS / "server.key").read_bytes(), (TLS / "server.pem").read_bytes())
    authority = (TLS / "ca.pem").read_bytes() if asks_for_client else None
    credentials = grpc.ssl_server_credentials([pair], authority, asks_for_client)
    with ScriptedServer(credentials=credentials if is_encrypted else None) as server:
        assert main([*PATIENT, "--address", server.address, *options, "check", "a", "root"]) == 3
    errors = capsys.readouterr().err
    assert message in errors
    assert "queuegate-server serve" not in errors


@pytest.mark.parametrize(
    ("days", "message"),
    [
        ((-20, -10), "has expired: renew it on the server, or set this machine's clock"),
        ((10, 20), "is not valid yet: set this machine's clock or the server's"),
    ],
)
def test_a_certificate_at_another_time(
    capsys: Capture, tmp_path: Path, days: tuple[int, int], message: str
) -> None:
    authority, now = trustme.CA(), dt.datetime.now(dt.UTC)
    begin, end = (now + dt.timedelta(each) for each in days)
    issued = authority.issue_cert("127.0.0.1", "localhost", not_before=begin, not_after=end)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    pair = (issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes())
    options = [*PATIENT, "--tls-ca", str(tmp_path / "ca.pem")]
    with ScriptedServer(credentials=grpc.ssl_server_credentials([pair])) as server:
        assert main([*options, "--address", server.address, "check", "a", "root"]) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("encrypted", "message"),
    [
        (False, "is not a gRPC server: use an address from the server's `listen` (127.0.0.1:50051"),
        (True, "does not speak TLS: connect without it, or to another port"),
    ],
    ids=["plaintext", "TLS"],
)
@pytest.mark.parametrize("line", ["health", "check a root"])
def test_the_port_for_probes_and_metrics(
    operations_port: str, capsys: Capture, *, encrypted: bool, message: str, line: str
) -> None:
    options = CA if encrypted else []
    assert main([*PATIENT, "--address", operations_port, *options, *line.split()]) == 3
    errors = capsys.readouterr().err
    assert errors.startswith(f"Error: {operations_port} {message}")
    assert "queuegate-server serve" not in errors


@pytest.fixture
def https_port() -> Iterator[str]:
    """The address of a server for HTTP with TLS.

    It serves every connection, each in a thread: one that never speaks, such as that of a client
    whose server had this port before, delays no other.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # broken connections
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_port_with_tls_for_http(https_port: str, capsys: Capture) -> None:
    host, _, port = https_port.partition(":")
    with socket.create_connection((host, int(port))):  # and never speak
        assert main([*PATIENT, "--address", https_port, *CA, "health"]) == 3
    assert capsys.readouterr().err.startswith(f"Error: {https_port} is not a gRPC server: use")


def test_an_unexpected_error_is_no_answer(
    script: Script, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queuegate._client.Client.check", lambda *_, **__: 1 / 0)
    assert main([*PATIENT, "check", "alice", "root"]) == 3
    assert capsys.readouterr().err == "Error: unexpected ZeroDivisionError: division by zero\n"
