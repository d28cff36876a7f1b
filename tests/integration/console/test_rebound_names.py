"""Names that their owner has rebound to loopback: a page there must not reach the console."""

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.console_http import Browser
from tests.support.fakes.scripted_directory import settings_file
from tests.support.rows import rows
from tests.support.servers.admin_port import ops_address
from tests.support.servers.queuegate_server import running_server

TOKEN: Final = "0123456789" * 4
OWN: Final = (
    *("localhost", "localhost:1", "LocalHost:9464", "localhost.", "localhost.:80"),
    *("127.0.0.1", "127.8.9.10:80", "[::1]", "[::1]:8080", "[0:0:0:0:0:0:0:1]:1"),
    "[::ffff:127.0.0.1]:80",
)
CREDENTIALS: Final = (
    {"Authorization": "Bearer x"},
    {"Authorization": f"Bearer {'y' * 40}"},
    {"Authorization": "Basic YTpi"},
    {"Authorization": ""},
)


def config(folder: Path, **callers: object) -> str:
    settings = {
        "ops": {"listen": "127.0.0.1:0"},
        "console": {"enabled": True},
        "callers": {"loopback": {"roles": ["check", "read", "admin"]}, **callers},
    }
    return settings_file(folder, settings)


@pytest.fixture(scope="module")
def without_tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_server("--config", config(tmp_path_factory.mktemp("without"))) as server:
        yield Browser(f"http://{ops_address(server)}/console/")


@pytest.fixture(scope="module")
def with_tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("with")
    tokens = folder / "tokens"
    tokens.write_text(f"ops:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    settings = config(folder, token_file=str(tokens), tokens={"ops": {"roles": ["read"]}})
    with running_server("--config", settings) as server:
        yield Browser(f"http://{ops_address(server)}/console/")


@pytest.fixture(params=["without_tokens", "with_tokens"])
def browser(request: pytest.FixtureRequest) -> Browser:
    found: Browser = request.getfixturevalue(request.param)
    return found


@rows
def test_other_names(browser: Browser, host: str) -> None:
    name = host.encode().decode("latin-1")
    for path in ("queues", "sign-in", "static/console.css", "missing"):
        answer = browser.get(path, Host=name)
        assert answer.status == 421
        assert "This port is on loopback" in answer.text
    assert browser.post("sign-in", {}, Host=name).status == 421


@pytest.mark.parametrize("headers", CREDENTIALS)
def test_a_header_that_identifies_nobody_is_no_credential(
    browser: Browser, headers: dict[str, str]
) -> None:
    """A page may add it to its own requests."""
    form = {"form_token": "0" * 64, "user": "alice"}
    assert browser.get("queues", Host="evil.example", **headers).status == 421
    assert browser.post("user/forget", form, Host="evil.example", **headers).status == 421
    embedded = {"Sec_Fetch_Site": "cross-site", **headers}
    assert browser.get("access?user=a&queue=root", **embedded).status == 403


def test_a_rebound_page_forgets_nobody(without_tokens: Browser) -> None:
    """With the token of the form, which a page of the same origin could read."""
    form = {"form_token": without_tokens.get("user?user=alice").form_token, "user": "alice"}
    headers = {"Host": "evil.example", "Origin": "http://evil.example", "Authorization": "x"}
    assert without_tokens.post("user/forget", form, **headers).status == 421
    assert without_tokens.post("user/forget", form).status == 303


@pytest.mark.parametrize("host", OWN)
def test_own_names(browser: Browser, host: str) -> None:
    assert "You are <b>loopback</b>" in browser.get("queues", Host=host).text


def test_a_token_that_identifies_its_owner_counts_by_any_name(with_tokens: Browser) -> None:
    headers = {"Host": "console.example.com", "Authorization": f"Bearer {TOKEN}"}
    assert "You are <b>token:ops</b>" in with_tokens.get("queues", **headers).text


@rows
def test_other_forms_of_a_request(
    browser: Browser, target: bytes, hosts: list[bytes], status: bytes
) -> None:
    host, _, port = browser.url.split("/")[2].rpartition(":")
    lines = [b"GET %s HTTP/1.1" % target, *(b"Host: %s" % each for each in hosts), b"", b""]
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"\r\n".join(lines))
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.split()[1].startswith(status)


@rows
def test_origins_of_forms(without_tokens: Browser, origin: str, status: int) -> None:
    host = without_tokens.url.split("/")[2]
    form = {"form_token": without_tokens.get("user?user=alice").form_token, "user": "alice"}
    headers = {"Origin": origin.format(own=f"http://{host}", host=host)}
    assert without_tokens.post("user/forget", form, **headers).status == status
