"""The operations port with TLS: probes without a certificate, callers with one, and reloads."""

import contextlib
import hashlib
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import trustme
from cryptography import x509

from queuegate_server.admin.connections import MAX_CONNECTIONS
from queuegate_server.runtime.resources import raise_file_limit
from tests.integration.security.authorities import Authority, configured
from tests.support.console_http import Browser
from tests.support.eventually import eventually
from tests.support.servers.admin_port import ops_address
from tests.support.servers.queuegate_server import RunningServer, server_command

TOKEN: Final = "0123456789" * 4
NAME: Final = "dns:operator.example.org"
SUBJECT: Final = "subject:CN=M\\C3\\BCller"


@dataclass(frozen=True)
class Setup:
    server: RunningServer
    authority: Authority
    port: int

    def browser(self, client: str = "", *names: x509.GeneralName, common_name: str = "") -> Browser:
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if client:
            tls = self.authority.client(client, *names, common_name=common_name)
            assert tls.certificate_file
            context.load_cert_chain(tls.certificate_file, tls.key_file)
        return Browser(f"https://localhost:{self.port}/console/", context)

    def serial(self) -> int:
        """Return the serial number of the certificate that a new connection gets."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=60) as raw,
            # No server name is sent for an address.
            context.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
        ):
            der = connection.getpeercert(binary_form=True)
        assert der
        return x509.load_der_x509_certificate(der).serial_number


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, trustme.CA())
    certificate, key = authority.server()
    tls = {
        "certificate_file": str(certificate),
        "key_file": str(key),
        "client_ca_file": str(authority.file),
    }
    (folder / "tokens").write_text(f"ann:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    callers = {
        "loopback": {"roles": ["read"]},
        "certificates": {NAME: {"roles": ["read"]}, SUBJECT: {"roles": ["read"]}},
        "token_file": str(folder / "tokens"),
        "tokens": {"ann": {"roles": ["read"]}},
    }
    with configured(
        folder,
        ops={"listen": "0.0.0.0:0", "tls": tls},
        console={"enabled": True},
        callers=callers,
    ) as server:
        yield Setup(server, authority, int(ops_address(server).rpartition(":")[2]))


def test_probes_need_no_certificate(setup: Setup) -> None:
    assert setup.browser().get("/livez").text == "ok\n"
    assert setup.browser().get("/readyz").status == 200
    listener = 'queuegate_certificate_reloads_total{listener="0.0.0.0:0",result="success"} '
    assert listener in setup.browser().get("/metrics").text


def test_nobody_is_known_by_their_address(setup: Setup) -> None:
    answer = setup.browser().get("queues")
    assert answer.status == 401
    assert 'name="token"' in answer.text


def test_a_session_over_tls(setup: Setup) -> None:
    browser = setup.browser()
    answer = browser.sign_in(TOKEN)
    assert answer.status == 303
    assert "Secure" in answer.headers["Set-Cookie"]
    assert "token:ann" in browser.get("queues").text


def test_certificates(setup: Setup) -> None:
    known = setup.browser("known", x509.DNSName("operator.example.org")).get("queues")
    assert (known.status, f"certificate:{NAME}" in known.text) == (200, True)
    by_subject = setup.browser("subject", common_name="Müller").get("queues")
    assert (by_subject.status, "certificate:subject:" in by_subject.text) == (200, True)
    other = setup.browser("other", x509.DNSName("other.example.org")).get("queues")
    assert other.status == 403
    assert "no name in the client certificate has a role" in other.text


def test_a_certificate_of_another_authority(setup: Setup, tmp_path: Path) -> None:
    tls = Authority(tmp_path, trustme.CA()).client("evil", x509.DNSName("operator.example.org"))
    browser = setup.browser()
    assert browser.context
    assert tls.certificate_file
    browser.context.load_cert_chain(tls.certificate_file, tls.key_file)
    with pytest.raises(OSError):  # noqa: PT011 - a reset or an alert of TLS
        browser.get("queues")


def test_new_connections_get_the_new_certificate(setup: Setup) -> None:
    before = setup.serial()
    setup.authority.server()
    eventually(lambda: setup.serial() != before, expected=True)
    assert setup.browser().get("/livez").status == 200


def test_plain_http_is_not_answered(setup: Setup) -> None:
    plain = Browser(f"http://localhost:{setup.port}/console/")
    with pytest.raises(OSError):  # noqa: PT011 - as above
        plain.get("/livez")


def test_several_workers_serve_the_port_with_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path, trustme.CA())
    certificate, key = authority.server()
    with configured(
        tmp_path,
        ops={
            "listen": "127.0.0.1:0",
            "tls": {"certificate_file": str(certificate), "key_file": str(key)},
        },
        workers=2,
    ) as server:
        port = int(ops_address(server).rpartition(":")[2])
        setup = Setup(server, authority, port)
        assert setup.browser().get("/readyz").status == 200
        before = setup.serial()
        authority.server()
        eventually(lambda: setup.serial() != before, expected=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_unusable_certificate(tmp_path: Path, workers: int) -> None:
    files = f"{{certificate_file: {tmp_path}/none.pem, key_file: {tmp_path}/none.key}}"
    options = ("ops.listen=127.0.0.1:0", f"ops.tls={files}", f"workers={workers}")
    ended = subprocess.run(
        server_command(
            "serve", "--listen", "127.0.0.1:0", *(f"--set={option}" for option in options)
        ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert f"ops.tls: {tmp_path}/none.pem" in ended.stderr


def test_handshakes_count_as_connections(setup: Setup) -> None:
    """Clients that never begin their handshake neither take descriptors nor keep others out."""
    raise_file_limit()
    descriptors = Path(f"/proc/{setup.server.pid}/fd")
    most = 0
    with contextlib.ExitStack() as stack:
        silent = []
        for _ in range(600):
            place = ("127.0.0.1", setup.port)
            silent.append(stack.enter_context(socket.create_connection(place, timeout=60)))
            most = max(most, len([*descriptors.iterdir()]))
        assert setup.browser().get("/livez").text == "ok\n"
        most = max(most, len([*descriptors.iterdir()]))
        # The oldest ones have made room.
        for connection in silent[: 600 - MAX_CONNECTIONS]:
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
    assert most < MAX_CONNECTIONS + 100


def test_what_is_not_tls_is_forgotten(setup: Setup) -> None:
    for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x01\x00", b"\x00" * 100):
        with socket.create_connection(("127.0.0.1", setup.port), timeout=60) as connection:
            connection.sendall(sent)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(1_000):
                    pass
    assert setup.browser().get("/livez").text == "ok\n"
    assert not [each for each in setup.server.logs if each["level"] == "error"]
