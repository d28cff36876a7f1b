"""Hadoop takes groups from queuegate, which asks a real slapd: in a real ResourceManager."""

from collections.abc import Iterator
from pathlib import Path
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
from tests.support.servers.yarn_directory import Directory, running_directory

pytestmark = [pytest.mark.timeout(2 * BUILD_SECONDS + 600), pytest.mark.usefixtures("jar")]


class Yarn(NamedTuple):
    directory: Directory
    server: RunningServer
    manager: ResourceManager


@pytest.fixture(scope="module", params=RELEASES)
def yarn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yarn]:
    folder = tmp_path_factory.mktemp("yarn")
    cluster = Cluster(folder, "capacity")
    with (
        running_directory(folder, ["bob", "cold", "dora"], ["alice"]) as directory,
        cluster.queuegate(
            # The server must not take groups from this caller, since it takes them from the server.
            callers={"assert_groups": False},
            resolvers={"corp": directory.resolver()},
        ) as server,
        cluster.yarn(
            request.param, core=GROUPS_OF_QUEUEGATE, fallback="deny", group_timeout="10s"
        ) as manager,
    ):
        assert "error" not in manager.started, manager.started
        yield Yarn(directory, server, manager)


BOTH = {"dev", "ops"}
CONFIGURED = "org.apache.hadoop.yarn.security.ConfiguredYarnAuthorizer"


def groups_of(yarn: Yarn, user: str) -> list[set[str]]:
    """Return the groups that `Groups` and `UserGroupInformation` give; none if they fail."""
    answers = (yarn.manager.ask(op, user=user) for op in ("groups", "identity"))
    return [set(answer.get("groups", ())) for answer in answers]


def test_groups_of_a_user(yarn: Yarn) -> None:
    assert groups_of(yarn, "bob") == [BOTH, BOTH]


def test_an_unknown_user_has_no_groups(yarn: Yarn) -> None:
    assert "No groups found for user" in yarn.manager.ask("groups", user="nobody")["error"]


def test_a_failed_lookup_is_not_an_empty_list(yarn: Yarn) -> None:
    yarn.directory.slapd.kill()
    answer = yarn.manager.ask("groups", user="dora")
    assert "queuegate could not look up the groups of dora" in answer["error"]
    yarn.directory.slapd.start()
    eventually(lambda: groups_of(yarn, "dora"), [BOTH, BOTH], seconds=30)


def test_a_user_whose_groups_are_not_known_yet(yarn: Yarn) -> None:
    assert may_submit(yarn.manager, "cold", "root.b")


def test_an_invalidation_renews_the_groups(yarn: Yarn) -> None:
    with queuegate.Client(yarn.server.address, timeout=30) as client:
        client.invalidate(["nobody"], wait=True)  # waits for callers of the server's last process
        for is_member in (False, True) * 3:
            yarn.directory.change("bob", is_member=is_member)
            assert not client.invalidate(["bob"], wait=True).waited_out
            assert may_submit(yarn.manager, "bob", "root.b") == is_member
            groups = BOTH if is_member else {"dev"}
            eventually(lambda: groups_of(yarn, "bob"), [groups, groups], seconds=30)


@pytest.mark.parametrize("local_decisions", ["forbid", "allow"])
def test_groups_need_no_right_to_decide(local_decisions: str, tmp_path: Path) -> None:
    """A server with an audit log gives groups to gates that may not decide as well."""
    cluster = Cluster(tmp_path, "capacity")
    with (
        cluster.queuegate(audit={"path": "-"}, sync={"local_decisions": local_decisions}),
        cluster.yarn(
            RELEASES[1],
            core=GROUPS_OF_QUEUEGATE,
            site={"yarn.authorization-provider": CONFIGURED},
        ) as manager,
    ):
        assert "error" not in manager.started, manager.started
        assert manager.ask("groups", user="bob")["groups"] == ["ops"]


def test_a_fallback_without_groups_is_warned_about(tmp_path: Path) -> None:
    """While the server is away, YARN's ACLs know no groups, if they come from queuegate."""
    cluster = Cluster(tmp_path, "capacity")
    warning = "queuegate.fallback is yarn-acl, and Hadoop takes groups from queuegate"
    acls = {"a": (" ops", " "), "b": ("bob", " "), "open": (" ", " ")}
    with (
        cluster.queuegate() as server,
        cluster.yarn(
            RELEASES[1], core=GROUPS_OF_QUEUEGATE, acls=acls, stale="20s", name="stale"
        ) as stale,
        cluster.yarn(RELEASES[1], core=GROUPS_OF_QUEUEGATE, acls=acls) as manager,
    ):
        while_away = f"{warning}. While no server can be reached, "
        assert f"{while_away}YARN's" in manager.log
        assert f"{while_away}and queuegate.stale has passed, YARN's" in stale.log
        for each in (stale, manager):
            assert may_submit(each, "bob", "root.b")
        server.process.kill()
        eventually(lambda: may_submit(manager, "bob", "root.a"), expected=False)
        eventually(lambda: may_submit(manager, "carol", "root.open"), expected=False)
        assert may_submit(manager, "bob", "root.b")  # as a user
    with (
        cluster.queuegate(),
        cluster.yarn(
            RELEASES[1], name="deny", core=GROUPS_OF_QUEUEGATE, fallback="deny"
        ) as denying,
        cluster.yarn(RELEASES[1], name="hadoop") as other,
    ):
        assert warning not in denying.log + other.log
