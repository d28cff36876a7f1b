"""Hadoop takes users' groups from queuegate's resolvers: in a real ResourceManager."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

import queuegate
from tests.e2e.hadoop.test_authorizer import may_submit
from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import RunningServer
from tests.support.servers.resourcemanager.process import (
    BUILD_SECONDS,
    RELEASES,
    ResourceManager,
)
from tests.support.servers.yarn_cluster import GROUPS_OF_QUEUEGATE, Cluster

pytestmark = [pytest.mark.timeout(2 * BUILD_SECONDS + 600), pytest.mark.usefixtures("jar")]


class Yarn(NamedTuple):
    cluster: Cluster
    server: RunningServer
    manager: ResourceManager


@pytest.fixture(scope="module", params=RELEASES)
def yarn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yarn]:
    cluster = Cluster(tmp_path_factory.mktemp("yarn"), "capacity")
    # The server must not take groups from this caller, since it takes them from the server.
    with (
        cluster.queuegate(callers={"assert_groups": False}) as server,
        cluster.yarn(
            request.param, core=GROUPS_OF_QUEUEGATE, fallback="deny", group_timeout="10s"
        ) as manager,
    ):
        assert "error" not in manager.started, manager.started
        yield Yarn(cluster, server, manager)


def groups_of(yarn: Yarn, user: str) -> list[str]:
    groups: list[str] = yarn.manager.ask("groups", user=user)["groups"]
    return groups


def test_groups_of_a_user(yarn: Yarn) -> None:
    assert groups_of(yarn, "bob") == ["ops"]


def test_an_unknown_user_has_no_groups(yarn: Yarn) -> None:
    assert "No groups found for user" in yarn.manager.ask("groups", user="nobody")["error"]


def test_a_failed_lookup_is_not_an_empty_list(yarn: Yarn) -> None:
    yarn.cluster.directory.answer({"dora": {"failed": "the directory is down"}})
    assert (
        "queuegate could not look up the groups of dora"
        in (yarn.manager.ask("groups", user="dora")["error"])
    )


def test_a_user_whose_groups_are_not_known_yet(yarn: Yarn) -> None:
    yarn.cluster.directory.answer({"cold": {"groups": ["ops"]}})
    assert may_submit(yarn.manager, "cold", "root.b")


def test_an_invalidation_renews_the_groups(yarn: Yarn) -> None:
    with queuegate.Client(yarn.server.address) as client:
        client.invalidate(["nobody"], wait=True)  # waits for callers of the server's last process
        for group in ("dev", "ops") * 3:
            yarn.cluster.directory.answer({"bob": {"groups": [group]}})
            assert not client.invalidate(["bob"], wait=True).waited_out
            assert may_submit(yarn.manager, "bob", "root.b") == (group == "ops")
            eventually(lambda: groups_of(yarn, "bob"), [group], seconds=30)
