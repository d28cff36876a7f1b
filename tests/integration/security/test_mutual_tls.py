"""Callers whom a certificate lets in, and how the others are refused."""

import socket
import ssl
import warnings
from collections.abc import Callable, Iterator

import pytest

import queuegate
from queuegate._channel import plan
from queuegate.cli import main
from tests.integration.security.authorities import (
    ONCE,
    SPIFFE,
    Authority,
    client,
    configured,
    dns,
    reveals_nothing,
    spiffe,
    with_tls,
)
from tests.support.servers.queuegate_server import RunningServer

RIGHTS = {
    SPIFFE: {"roles": ["check"]},
    "dns:reader.example.org": {"roles": ["read"]},
    "uri:https://example.org/uri": {"roles": ["check"]},
    "cn:by common name": {"roles": ["check"]},
    "subject:CN=by subject": {"roles": ["check"]},
}


def unlisted(name: str) -> str:
    """Return the refusal of a certificate with this name."""
    return (
        f"no name in the client certificate has a role: add a name, such as {name}, to"
        " callers.certificates"
    )


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("mutual")
    callers = {"certificates": RIGHTS}
    with configured(folder, [with_tls(authority)], callers=callers) as started:
        yield started


@pytest.mark.parametrize(
    "issue",
    [
        lambda authority: authority.client("spiffe", spiffe(SPIFFE)),
        lambda authority: authority.client("uri", spiffe("https://example.org/uri")),
        lambda authority: authority.client("common", common_name="by common name"),
        lambda authority: authority.client("subject", common_name="by subject"),
        # The first name that has rights counts; the kinds have an order.
        lambda authority: authority.client("two", dns("reader.example.org"), spiffe(SPIFFE)),
    ],
    ids=["SPIFFE", "URI", "common name", "subject", "two names"],
)
def test_a_name_of_the_certificate_has_the_role(
    server: RunningServer, authority: Authority, issue: Callable[[Authority], queuegate.Tls]
) -> None:
    with client(server.address, issue(authority)) as asking:
        assert asking.check("alice", "root.open")
        with pytest.raises(queuegate.NotPermitted):
            asking.get_policy()


@pytest.mark.parametrize(
    ("issue", "kind", "expected"),
    [
        # Ended by TLS, before there is a call.
        (lambda ours, other: ours.tls(), queuegate.ServerUnavailable, "UNAVAILABLE"),
        (
            lambda ours, other: queuegate.Tls(
                ours.file,
                other.client("other", spiffe(SPIFFE)).certificate_file,
                other.client("other", spiffe(SPIFFE)).key_file,
            ),
            queuegate.ServerUnavailable,
            "UNAVAILABLE",
        ),
        (
            lambda ours, other: ours.client("expired", spiffe(SPIFFE), seconds=-86_400),
            queuegate.ServerUnavailable,
            "UNAVAILABLE",
        ),
        # Known, and not allowed to.
        (
            lambda ours, other: ours.client("reader", dns("Reader.example.org")),
            queuegate.NotPermitted,
            (
                "this call needs the check role, which certificate:dns:reader.example.org does not"
                " have: add it to callers.certificates.dns:reader.example.org.roles, now [read],"
                " in the server's settings"
            ),
        ),
        (
            lambda ours, other: ours.client("unlisted", dns("nobody.example.org")),
            queuegate.NotPermitted,
            unlisted("dns:nobody.example.org"),
        ),
        # Not the whole name.
        (
            lambda ours, other: ours.client("longer", spiffe(SPIFFE + "/x")),
            queuegate.NotPermitted,
            unlisted(SPIFFE + "/x"),
        ),
        # A name of one kind is none of another.
        (
            lambda ours, other: ours.client("kind", common_name=SPIFFE),
            queuegate.NotPermitted,
            unlisted("cn:" + SPIFFE),
        ),
        (
            lambda ours, other: ours.client("kinds", dns("dns:reader.example.org")),
            queuegate.NotPermitted,
            unlisted("dns:dns:reader.example.org"),
        ),
    ],
    ids=[
        *("no certificate", "wrong authority", "expired", "wrong role"),
        *("unlisted", "longer name", "other kind", "kind in the name"),
    ],
)
def test_refusals(
    server: RunningServer,
    authority: Authority,
    stranger: Authority,
    issue: Callable[[Authority, Authority], queuegate.Tls],
    kind: type[queuegate.QueuegateError],
    expected: str,
) -> None:
    """A refusal names the caller's own name and no other."""
    with (
        client(server.address, issue(authority, stranger)) as asking,
        pytest.raises(kind) as caught,
    ):
        asking.check("alice", "root.open")
    assert reveals_nothing(caught.value)
    if kind is queuegate.NotPermitted:
        assert caught.value.code == "PERMISSION_DENIED"
        assert caught.value.reason == "CALLER_NOT_PERMITTED"
        assert caught.value.message == expected
    else:
        assert caught.value.code == expected


def test_the_client_checks_the_server(
    server: RunningServer, authority: Authority, stranger: Authority
) -> None:
    ours = authority.client("spiffe", spiffe(SPIFFE))
    trusting_others = queuegate.Tls(stranger.file, ours.certificate_file, ours.key_file)
    with (
        client(server.address, trusting_others) as asking,
        pytest.raises(queuegate.ServerUnavailable),
    ):
        asking.check("alice", "root.open")


def test_plaintext_is_refused(server: RunningServer) -> None:
    with client(server.address) as asking, pytest.raises(queuegate.ServerUnavailable):
        asking.check("alice", "root.open")


def test_health_needs_no_role(
    server: RunningServer, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = authority.client("health", dns("nobody.example.org"))
    options = [
        *("--address", server.address, "--timeout", "10"),
        *("--tls-ca", str(shown.ca_file)),
        *("--tls-cert", str(shown.certificate_file), "--tls-key", str(shown.key_file)),
    ]
    assert main([*options, "health"]) == 0
    assert capsys.readouterr().out == "serving\n"
    assert main([*options, "reload"]) == 2


def test_the_command_asks_for_the_certificate(
    server: RunningServer, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["--address", server.address, "--timeout", "5", "health"]
    for arguments in (ask, [*ask, "--tls-ca", str(authority.file)]):
        assert main(arguments) == 3
        assert "--tls-cert and --tls-key" in capsys.readouterr().err


def test_the_environment_says_how_to_connect(
    server: RunningServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = authority.client("spiffe", spiffe(SPIFFE))
    monkeypatch.setenv("QUEUEGATE_ADDRESS", server.address)
    monkeypatch.setenv("QUEUEGATE_CA_FILE", str(shown.ca_file))
    monkeypatch.setenv("QUEUEGATE_CERTIFICATE_FILE", str(shown.certificate_file))
    monkeypatch.setenv("QUEUEGATE_KEY_FILE", str(shown.key_file))
    with queuegate.Client(timeout=60) as asking:
        assert asking.check("alice", "root.open")


def test_tls_variables_of_the_environment_are_for_tcp(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUEGATE_CA_FILE", str(authority.file))
    assert plan("localhost:1", 1, None, ONCE).credentials is not None
    assert plan("unix:/run/q.sock", 1, None, ONCE).credentials is None
    monkeypatch.setenv("QUEUEGATE_KEY_FILE", "k")
    with pytest.raises(ValueError, match="QUEUEGATE_CERTIFICATE_FILE and QUEUEGATE_KEY_FILE"):
        plan("localhost:1", 1, None, ONCE)


@pytest.mark.parametrize(("version", "accepted"), [("TLSv1_1", False), ("TLSv1_2", True)])
def test_tls_1_2_at_least(
    server: RunningServer, authority: Authority, version: str, accepted: bool
) -> None:
    shown = authority.client("spiffe", spiffe(SPIFFE))
    context = ssl.create_default_context(cafile=str(authority.file))
    context.load_cert_chain(str(shown.certificate_file), str(shown.key_file))
    context.set_alpn_protocols(["h2"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    # OpenSSL itself refuses old versions unless it is configured otherwise.
    context.set_ciphers("ALL:@SECLEVEL=0")
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as plain:
        if accepted:
            with context.wrap_socket(plain, server_hostname=host) as encrypted:
                assert encrypted.version() == "TLSv1.2"
        else:
            # The server closes the connection, which OpenSSL reports in one of three ways. That is
            # no SSLError of another kind: those would be faults that the client finds by itself.
            closed = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError)
            with pytest.raises(closed):
                context.wrap_socket(plain, server_hostname=host)
