"""Settings of a fleet: URLs of Redis, secrets, and what does not fit together."""

import sys
from pathlib import Path

import pytest
import trustme

from queuegate_server.settings.fleet import StoreAddress, parse_store_url
from queuegate_server.settings.listeners import HostPort
from queuegate_server.settings.load import load_settings
from tests.support.settings_faults import faults

A, B = HostPort("a", 6379), HostPort("b", 7000)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://a", StoreAddress("single", tls=False, hosts=(A,))),
        ("redis://a:6379/3", StoreAddress("single", tls=False, hosts=(A,), database=3)),
        ("rediss://[::1]", StoreAddress("single", tls=True, hosts=(HostPort("::1", 6379),))),
        ("unix:///run/r.sock", StoreAddress("single", tls=False, path="/run/r.sock")),
        ("redis+cluster://a,b:7000", StoreAddress("cluster", tls=False, hosts=(A, B))),
        (
            "rediss+sentinel://a,b:7000/main/2",
            StoreAddress(
                "sentinel", tls=True, hosts=(HostPort("a", 26_379), B), service="main", database=2
            ),
        ),
    ],
)
def test_urls(url: str, expected: StoreAddress) -> None:
    assert parse_store_url(url) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is not a Redis URL: write redis://host:port"),
        ("http://a", "is not a Redis URL"),
        ("redis://", "does not name a host and a port"),
        ("redis://a:x", "does not name a host and a port"),
        ("redis://a:70000", "does not name a host and a port"),
        ("redis://user:pw@a", "must not contain credentials: use username and password_file"),
        ("redis://a?db=1", "must not have a query"),
        ("redis://a/x", "must be a database number"),
        ("redis://a,b", "names several hosts"),
        ("redis+cluster://a/1", "must be a database number"),
        ("redis+sentinel://a", "lacks the service name"),
        ("unix://run/r.sock", "needs an absolute path"),
    ],
)
def test_other_urls(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_store_url(url)
    assert "pw" not in str(caught.value)


@pytest.fixture
def secret(file: Path) -> str:
    Path("secret").write_text("0" * 64 + "\n")
    return "secret"


def test_a_fleet(file: Path, secret: str) -> None:
    file.write_text("fleet: {url: redis://a, secret_file: secret, replica: one}\n")
    fleet = load_settings(file).fleet
    assert fleet.is_on
    assert fleet.secret() == b"0" * 64
    assert fleet.replica_name == "one"
    assert fleet.prefix == "queuegate"
    assert [path.name for path in fleet.secrets] == ["secret"]


def test_without_a_url_there_is_none() -> None:
    assert not load_settings(None).fleet.is_on


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("secret_file: secret", "without url, nothing else may be set"),
        ("url: redis://a", "url requires secret_file: generate one with `openssl rand -hex 32`"),
        ("url: redis://a, secret_file: none", "the file cannot be read: No such file"),
        ("url: redis://a, secret_file: short", "must contain a secret of 32 to 4096 bytes"),
        ("url: redis://a, secret_file: secret, username: u", "username requires password_file"),
        ("url: redis://a, secret_file: secret, password_file: empty", "the file is empty"),
        ("url: redis://a, secret_file: secret, ca_file: ca.pem", "require TLS: use rediss://"),
        ("url: rediss://a, secret_file: secret, cert_file: ca.pem", "must be given together"),
        ("url: rediss://a, secret_file: secret, ca_file: short", "certificates in PEM"),
        ("url: rediss://a, secret_file: secret, ca_file: none", "cannot be read: No such file"),
        (
            "url: redis://a, secret_file: secret, sentinel_password_file: short",
            "requires redis+sentinel://",
        ),
        ("url: redis://a, secret_file: secret, prefix: '{x}'", "prefix"),
    ],
)
def test_faults(file: Path, secret: str, text: str, message: str) -> None:
    Path("short").write_text("abc")
    Path("empty").write_text("\n")
    trustme.CA().cert_pem.write_to_path("ca.pem")
    (line,) = faults(file, f"fleet: {{{text}}}\n")
    assert line.startswith("queuegate.yaml:1:")
    assert message in line


def test_a_missing_driver_is_a_fault(
    file: Path, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setattr("queuegate_server.settings.fleet.find_spec", lambda name: None)
    (line,) = faults(file, "fleet: {url: redis://a, secret_file: secret}\n")
    assert "pip install 'queuegate[server,redis]'" in line
