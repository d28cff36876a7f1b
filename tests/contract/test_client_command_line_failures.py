"""`queuegate` where there is no answer: its messages and exit statuses."""

import datetime as dt
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import pytest
import trustme
import yaml
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from queuegate.cli import main
from queuegate.v1 import policy_pb2, user_groups_pb2
from tests.support.fakes.scripted_server import Fault, Script, ScriptedServer
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


Code = grpc.StatusCode


BAD_REQUEST = error_details_pb2.BadRequest(
    field_violations=[
        error_details_pb2.BadRequest.FieldViolation(field="queue", description="is\x1b odd")
    ]
)


NO_USER = error_details_pb2.BadRequest(
    field_violations=[
        error_details_pb2.BadRequest.FieldViolation(field="user.user", description="is odd")
    ]
)


SOON = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=5))
SOON_AFTER = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=5, nanos=98_636_000))


FAILURES: list[tuple[Fault, int, str]] = [
    (
        Fault(Code.INVALID_ARGUMENT, "x", "INVALID_FIELD", [BAD_REQUEST]),
        2,
        "QUEUE 'root.a' is\\x1b odd",
    ),
    (Fault(Code.INVALID_ARGUMENT, "x", "INVALID_FIELD", [NO_USER]), 2, "USER 'alice' is odd"),
    (
        Fault(Code.NOT_FOUND, "no partition 'gpu'", "UNKNOWN_PARTITION"),
        2,
        "no partition 'gpu'; choose one with --partition",
    ),
    (Fault(Code.PERMISSION_DENIED, "not you", "CALLER_NOT_PERMITTED"), 2, "not you"),
    (
        Fault(Code.UNAVAILABLE, "ldap down", "RESOLVER_UNAVAILABLE", [SOON]),
        3,
        "ldap down; try again in 5 s",
    ),
    (
        Fault(Code.UNAVAILABLE, "ldap down", "RESOLVER_UNAVAILABLE", [SOON_AFTER]),
        3,
        "ldap down; try again in 6 s",
    ),
    (
        Fault(Code.UNAUTHENTICATED, "the server does not know the bearer token", "CALLER_UNKNOWN"),
        2,
        (
            "the server does not know the bearer token: pass a token that the server knows"
            " (--token-file) or a certificate (--tls-cert, --tls-key)"
        ),
    ),
    (Fault(Code.UNAVAILABLE, "no policy yet", "NOT_READY"), 3, "no policy yet"),
    (Fault(Code.RESOURCE_EXHAUSTED, "busy", "OVERLOADED"), 3, "busy"),
    (Fault(Code.INTERNAL, "internal error 1f", "INTERNAL"), 3, "internal error 1f"),
]


@pytest.mark.parametrize(("fault", "status", "message"), FAILURES, ids=lambda case: str(case)[:40])
def test_failures(script: Script, capsys: Capture, fault: Fault, status: int, message: str) -> None:
    script.fail("CheckQueueAccess", *[fault] * 4)
    assert main([*PATIENT, "check", "alice", "root.a"]) == status
    assert capsys.readouterr() == ("", f"Error: {message}\n")


@pytest.mark.parametrize(("fault", "status", "message"), FAILURES, ids=lambda case: str(case)[:40])
@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_failures_for_programs(
    script: Script,
    capsys: Capture,
    fault: Fault,
    status: int,
    message: str,
    output: str,
    load: Callable[[str], Any],
) -> None:
    script.fail("CheckQueueAccess", *[fault] * 4)
    assert main([*PATIENT, "check", "alice", "root.a", "-o", output]) == status
    printed, errors = capsys.readouterr()
    assert errors == ""
    document = load(printed)
    after = document["error"].pop("retry_after")
    _, again, seconds = message.partition("; try again in ")
    assert (f"{after} s" == seconds) if again else (after is None)
    assert document == {
        "user": "alice",
        "queue": "root.a",
        "access": "submit",
        "partition": "default",
        "error": {"reason": fault.reason, "message": message.replace("\\x1b", "\x1b")},
    }


@pytest.mark.parametrize(
    ("line", "reason", "message"),
    [
        ("check alice -o json", "WRONG_USAGE", "Missing argument 'QUEUE'."),
        ("chek -ojson", "WRONG_USAGE", "No such command 'chek'."),
        ("health --nosuch --output=json", "WRONG_USAGE", "No such option '--nosuch'."),
        ("health -o json --address nosuch", "WRONG_USAGE", "--address 'nosuch': not a host"),
        ("health -o json --tls-ca /nosuch", "CANNOT_READ", "cannot read /nosuch: No such file"),
        ("health -o json --service nosuch", "SERVICE_UNKNOWN", "the server has no service nosuch"),
    ],
)
def test_wrong_usage_for_programs(
    script: Script, capsys: Capture, line: str, reason: str, message: str
) -> None:
    assert main([*PATIENT, *line.split()]) == 2
    printed, errors = capsys.readouterr()
    assert errors == ""
    error = json.loads(printed)["error"]
    assert (error["reason"], error["retry_after"]) == (reason, None)
    assert error["message"].startswith(message)


def test_no_server_for_programs(script: Script, capsys: Capture, tmp_path: Path) -> None:
    arguments = ["--address", f"unix:{tmp_path}/q.sock", "queues", "alice", "-o", "json"]
    assert main([*PATIENT, *arguments]) == 3
    printed, errors = capsys.readouterr()
    assert errors == ""
    document = json.loads(printed)
    assert document["user"] == "alice"
    assert document["error"]["reason"] == "UNAVAILABLE"
    assert document["error"]["message"].startswith("no server at unix:")


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


WRONG: list[tuple[list[str], str]] = [
    (["health", "--service", "nosuch"], "the server has no service nosuch"),
    (["check", "", "root"], "USER must not be empty"),
    (["check", "\udcff", "root"], "USER '\\udcff' is not valid Unicode"),
    (["check", "alice", "root", "--group", ""], "--group must not be empty"),
    (["--address", "nosuch", "health"], "--address 'nosuch': not a host and a port; use HOST:PORT"),
    (
        ["--tls-ca", "/nosuch.pem", "health"],
        "cannot read /nosuch.pem: No such file or directory (from --tls-ca)",
    ),
    (
        ["--token-file", "/nosuch", "health"],
        "cannot read /nosuch: No such file or directory (from --token-file)",
    ),
    (["--tls-ca", str(TLS / "README.md"), "health"], "does not contain a PEM certificate"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=ascii)
def test_wrong_usage(script: Script, capsys: Capture, arguments: list[str], message: str) -> None:
    assert main([*PATIENT, *arguments]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("Error: ")
    assert message in errors
    assert errors.count("\n") == 1
    assert [call for call in script.calls if call.method != "Check"] == []


def test_a_wrong_address_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("QUEUEGATE_ADDRESS", "nosuch")
    assert main(["health"]) == 2
    assert "QUEUEGATE_ADDRESS 'nosuch'" in capsys.readouterr().err


def test_nobody_listens(capsys: Capture, tmp_path: Path) -> None:
    assert main([*PATIENT, "--address", f"unix:{tmp_path}/q.sock", "check", "alice", "root"]) == 3
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith(f"Error: no server at unix:{tmp_path}/q.sock (")
    assert errors.endswith(
        ": start one with `queuegate-server serve` (in a checkout: `make serve`), or set its"
        " address with --address or QUEUEGATE_ADDRESS\n"
    )


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
            "is for another name: pass the name",
        ),
        (True, False, ["--tls-ca", str(TLS / "other-ca.pem")], "is not trusted: pass the author"),
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
