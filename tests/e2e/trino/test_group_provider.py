"""Trino takes users' groups from queuegate's resolvers: the jar in a real Trino, over TLS."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest
import trustme

import queuegate
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.maven import BUILD_SECONDS, CLIENT, maven
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.trino.process import START_SECONDS, Trino, running_trino

pytestmark = pytest.mark.timeout(2 * BUILD_SECONDS + START_SECONDS + 600)

MODULE = CLIENT.parents[1] / "integrations" / "trino"
CERTIFICATES = CLIENT.parents[1] / "tests" / "contract" / "tls"
MAX_BYTES = 16_000_000
GROUPS = {"alice": {"groups": ["dev", "Data Science"]}, "bob": {"groups": ["ops"]}}
ROLES = {"trino": "read", "operator": "admin"}
"""The callers, each of which has a token, and their roles."""


@pytest.fixture(scope="session")
def jar() -> Path:
    """Build the jar, with the tests of the module."""
    only_its_own = ("-Dtest=io/queuegate/trino/*Test", "-Dsurefire.failIfNoSpecifiedTests=false")
    done = maven(MODULE, "-f", "with-client.xml", *only_its_own, "package")
    assert done.returncode == 0, (done.stdout + done.stderr)[-10_000:]
    return MODULE / "target" / "queuegate-trino.jar"


class Cluster(NamedTuple):
    directory: ScriptedDirectory
    address: str
    settings: dict[str, Any]
    tokens: dict[str, Path]
    trino: Trino

    def config(self, folder: Path, certificate: Path, key: Path) -> str:
        """Return the settings of a server with this certificate."""
        tls = {"certificate_file": str(certificate), "key_file": str(key)}
        listener = {"address": self.address, "tls": tls}
        return settings_file(folder, {**self.settings, "listen": [listener]})


def written_token(folder: Path, caller: str) -> Path:
    """Write the token of a caller into a file that only its owner can read."""
    file = folder / f"{caller}-token"
    file.write_text(f"qg_of-the-tests-and-long-enough-for-{caller}\n")
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def cluster(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("trino")
    directory = ScriptedDirectory(folder)
    directory.reset(GROUPS)
    address = f"127.0.0.1:{free_port()}"
    policy, hashes = folder / "queues.yaml", folder / "hashes"
    policy.write_text("partitions: [{name: default, queues: [{name: root}]}]\n")
    tokens = {caller: written_token(folder, caller) for caller in ROLES}
    hashes.write_text(
        "".join(
            f"{caller}:{hashlib.sha256(file.read_bytes().strip()).hexdigest()}\n"
            for caller, file in tokens.items()
        )
    )
    settings: dict[str, Any] = {
        "policy": {"path": str(policy)},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp", "cache": {"max_stale": "0s"}}},
        "callers": {
            "loopback": {"roles": []},
            "token_file": str(hashes),
            "tokens": {caller: {"roles": [role]} for caller, role in ROLES.items()},
        },
    }
    (folder / "server").mkdir()
    groups = {
        "group-provider.name": "queuegate",
        "queuegate.address": address,
        "queuegate.timeout": "10s",
        "queuegate.token-file": str(tokens["trino"]),
        "queuegate.tls.ca-file": str(CERTIFICATES / "ca.pem"),
    }
    with running_trino(folder / "server", jar, groups) as trino:
        yield Cluster(directory, address, settings, tokens, trino)


@pytest.fixture
def server(cluster: Cluster, tmp_path: Path) -> Iterator[RunningServer]:
    cluster.directory.reset(GROUPS)
    config = cluster.config(tmp_path, CERTIFICATES / "server.pem", CERTIFICATES / "server.key")
    environment = cluster.directory.environment
    with running_server("--config", config, listen=(), environment=environment) as running:
        # Until Trino has connected again, its look-ups fail at once.
        eventually(lambda: groups_of(cluster, "nobody"), [])
        yield running


def groups_of(cluster: Cluster, user: str) -> Any:
    """Return a user's groups in Trino, or its error."""
    answer = cluster.trino.query(user, "SELECT array_sort(current_groups())")
    return answer if isinstance(answer, str) else answer[0][0]


def test_the_tests_of_the_module(jar: Path) -> None:
    cases = [
        case
        for report in (MODULE / "target" / "surefire-reports").glob("TEST-*.xml")
        for case in ET.fromstring(report.read_text()).iter("testcase")  # noqa: S314 - ours
    ]
    assert len(cases) > 20
    assert jar.stat().st_size < MAX_BYTES


@pytest.mark.usefixtures("server")
def test_groups(cluster: Cluster) -> None:
    assert groups_of(cluster, "alice") == ["Data Science", "dev"]
    assert groups_of(cluster, "bob") == ["ops"]
    assert groups_of(cluster, "nobody") == []


@pytest.mark.usefixtures("server")
def test_an_invalidation_takes_effect_at_once(cluster: Cluster) -> None:
    assert groups_of(cluster, "bob") == ["ops"]
    cluster.directory.answer({"bob": {"groups": []}})
    assert groups_of(cluster, "bob") == ["ops"]
    tls, token = queuegate.Tls(CERTIFICATES / "ca.pem"), cluster.tokens["operator"]
    with queuegate.Client(cluster.address, timeout=60, tls=tls, token_file=token) as client:
        client.invalidate(["bob"], wait=True)
    assert groups_of(cluster, "bob") == []


@pytest.mark.usefixtures("server")
def test_a_failed_lookup_is_an_error(cluster: Cluster) -> None:
    cluster.directory.answer({"dora": {"failed": "the directory is down"}})
    assert "queuegate could not look up the user's groups" in groups_of(cluster, "dora")


def test_another_server_is_not_asked(cluster: Cluster, tmp_path: Path) -> None:
    cluster.directory.reset(GROUPS)
    issued = trustme.CA().issue_cert("127.0.0.1")
    certificate, key = tmp_path / "other.pem", tmp_path / "other.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    config = cluster.config(tmp_path, certificate, key)
    environment = cluster.directory.environment
    with running_server("--config", config, listen=(), environment=environment):
        untrusted = "is not trusted: set the CA file (queuegate.tls.ca-file)"
        eventually(lambda: untrusted in groups_of(cluster, "alice"), expected=True)
    assert cluster.directory.asked() == 0


def test_without_queuegate_queries_fail_until_it_is_back(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    assert "queuegate could not look up the user's groups" in groups_of(cluster, "alice")
    request.getfixturevalue("server")
    eventually(lambda: groups_of(cluster, "alice"), ["Data Science", "dev"])


def test_a_token_that_others_can_read_stops_the_start(jar: Path, tmp_path: Path) -> None:
    token = written_token(tmp_path, "trino")
    token.chmod(0o644)
    groups = {
        "group-provider.name": "queuegate",
        "queuegate.address": "127.0.0.1:1",
        "queuegate.token-file": str(token),
    }
    with pytest.raises(AssertionError), running_trino(tmp_path, jar, groups):
        pytest.fail("it has started")
    log = (tmp_path / "trino.log").read_text(errors="replace")
    assert f"queuegate.token-file names {token}, which other users can read or write" in log
