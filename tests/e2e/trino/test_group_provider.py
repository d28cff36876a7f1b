"""Trino takes users' groups from queuegate's resolvers: the jar in a real Trino server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

import queuegate
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.maven import BUILD_SECONDS, CLIENT, maven
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.trino.process import START_SECONDS, Trino, running_trino

pytestmark = pytest.mark.timeout(2 * BUILD_SECONDS + START_SECONDS + 600)

MODULE = CLIENT.parents[1] / "integrations" / "trino"
MAX_BYTES = 16_000_000
GROUPS = {"alice": {"groups": ["dev", "Data Science"]}, "bob": {"groups": ["ops"]}}


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
    config: str
    trino: Trino


@pytest.fixture(scope="module")
def cluster(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("trino")
    directory = ScriptedDirectory(folder)
    directory.reset(GROUPS)
    address = f"127.0.0.1:{free_port()}"
    policy = folder / "queues.yaml"
    policy.write_text("partitions: [{name: default, queues: [{name: root}]}]\n")
    config = settings_file(
        folder,
        {
            "policy": {"path": str(policy)},
            "resolvers": {"corp": directory.resolver()},
            "partitions": {"default": {"resolver": "corp", "cache": {"max_stale": "0s"}}},
            "callers": {"loopback": {"roles": ["read", "admin"]}},
        },
    )
    (folder / "server").mkdir()
    groups = {
        "group-provider.name": "queuegate",
        "queuegate.address": address,
        "queuegate.timeout": "10s",
    }
    with running_trino(folder / "server", jar, groups) as trino:
        yield Cluster(directory, address, config, trino)


@pytest.fixture
def server(cluster: Cluster) -> Iterator[RunningServer]:
    cluster.directory.reset(GROUPS)
    environment = cluster.directory.environment
    with running_server(
        *("--config", cluster.config), listen=[cluster.address], environment=environment
    ) as running:
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


def test_an_invalidation_takes_effect_at_once(cluster: Cluster, server: RunningServer) -> None:
    assert groups_of(cluster, "bob") == ["ops"]
    cluster.directory.answer({"bob": {"groups": []}})
    assert groups_of(cluster, "bob") == ["ops"]
    with queuegate.Client(server.address, timeout=60) as client:
        client.invalidate(["bob"], wait=True)
    assert groups_of(cluster, "bob") == []


@pytest.mark.usefixtures("server")
def test_a_failed_lookup_is_an_error(cluster: Cluster) -> None:
    cluster.directory.answer({"dora": {"failed": "the directory is down"}})
    assert "queuegate could not look up the user's groups" in groups_of(cluster, "dora")


def test_without_queuegate_queries_fail_until_it_is_back(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    assert "queuegate could not look up the user's groups" in groups_of(cluster, "alice")
    request.getfixturevalue("server")
    eventually(lambda: groups_of(cluster, "alice"), ["Data Science", "dev"])
