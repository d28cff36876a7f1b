"""Where clients connect to: TCP, Unix sockets with odd names, TLS, the environment."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import grpc
import pytest

import queuegate
from tests.support.fakes.scripted_server import ScriptedServer
from tests.support.rows import rows

TLS = Path(__file__).parent / "tls"
ONCE = queuegate.Retry(attempts=1)


def ask(
    address: str | None, tls: queuegate.Tls | None = None, retry: queuegate.Retry = ONCE
) -> bool:
    with queuegate.Client(address, timeout=60, tls=tls, retry=retry) as client:
        return bool(client.check("alice", "root"))


@pytest.mark.parametrize("form", ["unix:{}", "unix://{}"])
@pytest.mark.parametrize(
    "name", ["plain.sock", "a b.sock", "50%41.sock", "what?.sock", "no#1.sock", "ü:@&=+;.sock"]
)
def test_unix_sockets(tmp_path: Path, name: str, form: str) -> None:
    path = tmp_path / name
    with ScriptedServer("unix:" + quote(str(path), safe="/")) as server:
        assert path.is_socket()
        assert ask(form.format(path))
        assert server.script.calls[0].peer.startswith("unix:")


async def test_unix_sockets_for_asyncio(tmp_path: Path) -> None:
    path = tmp_path / "a b.sock"
    with ScriptedServer("unix:" + quote(str(path), safe="/")):
        async with queuegate.aio.Client(f"unix:{path}", timeout=60) as client:
            assert await client.check("alice", "root")


def test_a_missing_unix_socket(tmp_path: Path) -> None:
    with pytest.raises(queuegate.ServerUnavailable, match=f"no server at unix:{tmp_path}/no.sock"):
        ask(f"unix:{tmp_path}/no.sock")


def test_host_names() -> None:
    with ScriptedServer("127.0.0.1:0") as server:
        assert ask(server.address.replace("127.0.0.1", "localhost"))


def test_the_environment_is_asked_for_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer() as server, ScriptedServer() as other:
        monkeypatch.setenv("QUEUEGATE_ADDRESS", server.address)
        assert ask(None)
        assert ask(other.address)
        assert (len(server.script.calls), len(other.script.calls)) == (1, 1)


def credentials(*, client_authority: Path | None = None) -> grpc.ServerCredentials:
    pair = ((TLS / "server.key").read_bytes(), (TLS / "server.pem").read_bytes())
    authority = client_authority.read_bytes() if client_authority else None
    return grpc.ssl_server_credentials(
        [pair], root_certificates=authority, require_client_auth=authority is not None
    )


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(credentials=credentials()) as it:
        yield it


def test_tls(server: ScriptedServer) -> None:
    assert ask(server.address, queuegate.Tls(ca_file=TLS / "ca.pem"))


async def test_tls_for_asyncio(server: ScriptedServer) -> None:
    tls = queuegate.Tls(ca_file=str(TLS / "ca.pem"))
    async with queuegate.aio.Client(server.address, timeout=60, tls=tls) as client:
        assert await client.check("alice", "root")


def test_the_name_in_the_certificate_can_be_given(server: ScriptedServer) -> None:
    assert ask(server.address, queuegate.Tls(TLS / "ca.pem", server_name="queuegate.test"))


@pytest.mark.parametrize(
    "tls",
    [
        None,  # plaintext
        queuegate.Tls(),  # the authorities of the world
        queuegate.Tls(TLS / "other-ca.pem"),
        queuegate.Tls(TLS / "ca.pem", server_name="other.test"),
    ],
    ids=["plaintext", "public authorities", "other authority", "other name"],
)
def test_a_server_that_is_not_trusted_gets_no_question(
    server: ScriptedServer, tls: queuegate.Tls | None
) -> None:
    with pytest.raises(queuegate.ServerUnavailable):
        ask(server.address, tls)
    assert server.script.calls == []


def test_mutual_tls() -> None:
    with ScriptedServer(credentials=credentials(client_authority=TLS / "ca.pem")) as server:
        pair = (TLS / "client.pem", TLS / "client.key")
        assert ask(server.address, queuegate.Tls(TLS / "ca.pem", *pair))
        with pytest.raises(queuegate.ServerUnavailable):
            ask(server.address, queuegate.Tls(TLS / "ca.pem"))


@rows
def test_a_missing_file_is_named_by_its_setting(
    variable: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the setting that holds the path, and the path."""
    missing = str(tmp_path / "nosuch")
    files = {"certificate_file": str(TLS / "client.pem"), "key_file": str(TLS / "client.key")}
    arguments = {**files, argument: missing}
    token = arguments.pop("token_file", None)
    with pytest.raises(FileNotFoundError, match=rf"\(from {argument}\): '{missing}'$"):
        queuegate.Client("localhost:1", tls=queuegate.Tls(**arguments), token_file=token)
    for name, file in arguments.items():
        monkeypatch.setenv(f"QUEUEGATE_{name.upper()}", file)
    monkeypatch.setenv(variable, missing)
    with pytest.raises(FileNotFoundError, match=rf"\(from {variable}\): '{missing}'$"):
        queuegate.Client("localhost:1")
    if argument in ("ca_file", "token_file"):
        (tmp_path / "nosuch").write_text("two words")
        with pytest.raises(ValueError, match=f"^{variable} '{missing}' "):
            queuegate.Client("localhost:1")


def test_files_are_checked_when_the_client_is_made(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing")
    with pytest.raises(FileNotFoundError, match=r"nosuch\.pem"):
        queuegate.Client(tls=queuegate.Tls(tmp_path / "nosuch.pem"))
    with pytest.raises(ValueError, match=r"ca_file .*garbage\.pem' does not contain a PEM"):
        queuegate.Client(tls=queuegate.Tls(garbage))
    with pytest.raises(ValueError, match=r"client\.pem' and key_file .*server\.key' do not match"):
        queuegate.Client(
            tls=queuegate.Tls(certificate_file=TLS / "client.pem", key_file=TLS / "server.key")
        )
