"""A flood of the operations port or the console, with and without TLS, is nobody else's outage."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tests.integration.security.authorities import Authority
from tests.resilience.invariants import Record
from tests.resilience.isolation.conftest import QUEUES, policy_of
from tests.resilience.isolation.promise import Observation, expect_isolation, observed
from tests.resilience.isolation.web_floods import FLOODS, flooded
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers.admin_port import ops_address
from tests.support.servers.queuegate_server import running_server

SECONDS = 2.0


@dataclass(frozen=True)
class Port:
    """An operations port with the console."""

    address: str
    authority: Path | None
    found: Observation


@pytest.fixture(scope="module")
def port(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Port]:
    folder = tmp_path_factory.mktemp("web")
    ops: dict[str, object] = {"listen": "127.0.0.1:0"}
    authority = None
    if request.param == "TLS":
        issuer = Authority(folder, trustme.CA())
        certificate, key = issuer.server()
        ops["tls"] = {"certificate_file": str(certificate), "key_file": str(key)}
        authority = issuer.file
    policy = folder / "queues.yaml"
    policy.write_text(policy_of(QUEUES))
    settings = {
        "policy": {"path": str(policy)},
        "ops": ops,
        "console": {"enabled": True},
        "callers": {"loopback": {"roles": ["check", "read"]}},
    }
    with (
        running_server("--config", settings_file(folder, settings)) as server,
        observed(server) as found,
    ):
        yield Port(ops_address(server), authority, found)


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("port", ["plain", "TLS"], indirect=True, scope="module")
def test_flood(port: Port, record: Record, flood: str) -> None:
    def act() -> None:
        with flooded(port.address, port.authority, flood):
            time.sleep(SECONDS)

    expect_isolation(port.found, record, act)
