"""Settings of a fleet: URLs of Redis, secrets, and what does not fit together."""

import sys
from pathlib import Path

import pytest

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


def test_a_missing_driver_is_a_fault(
    file: Path, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setattr("queuegate_server.settings.fleet.find_spec", lambda name: None)
    (line,) = faults(file, "fleet: {url: redis://a, secret_file: secret}\n")
    assert "pip install 'queuegate[server,redis]'" in line
