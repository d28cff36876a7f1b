"""A user's last group goes, and Hadoop's own cache forgets it, in a ResourceManager and without."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

import queuegate
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

NEVER = {
    **GROUPS_OF_QUEUEGATE,
    # Hadoop alone would keep groups for ten times as long.
    "hadoop.security.groups.cache.secs": "3600",
    "hadoop.security.groups.negative-cache.secs": "1",
}
USERS = ("erin", "fred", "gina", "hugo")
"""The members of `ops`, in which nobody has another group."""


class Yarn(NamedTuple):
    directory: Directory
    server: RunningServer
    manager: ResourceManager

    def groups(self, user: str) -> list[list[str]]:
        """Return the groups that `Groups` and `UserGroupInformation` give."""
        answers = (self.manager.ask(op, user=user) for op in ("groups", "identity"))
        return [answer.get("groups", []) for answer in answers]

    def become(self, user: str, *groups: str) -> None:
        """Wait until both give these groups."""
        expected = [[*groups], [*groups]]
        eventually(lambda: self.groups(user), expected, seconds=60)

    def times_emptied(self) -> int:
        """Return how often Hadoop has emptied its cache, which it logs."""
        return self.manager.log.count("clearing userToGroupsMap cache")

    def rest(self) -> int:
        """Return that number once it stays: a former test's change may empty the cache again."""
        count = -1
        while count != (count := self.times_emptied()):
            time.sleep(5)
        return count


@pytest.fixture(
    scope="module", params=[f"{r} {m}" for r in RELEASES for m in ("GroupsAlone", "Harness")]
)
def yarn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yarn]:
    release, main = request.param.split()
    folder = tmp_path_factory.mktemp("yarn")
    cluster = Cluster(folder, "capacity")
    with (
        running_directory(folder, ["kept"], []) as directory,
        cluster.queuegate(resolvers={"corp": directory.resolver()}) as server,
        cluster.yarn(release, core=NEVER, main=main) as manager,
    ):
        assert "error" not in manager.started, manager.started
        for user in USERS:
            directory.add_person(user)
        yield Yarn(directory, server, manager)


def test_hadoop_is_not_emptied_for_others(yarn: Yarn) -> None:
    before = yarn.rest()
    with queuegate.Client(yarn.server.address, timeout=30) as client:
        for _ in range(3):
            yarn.become("kept", "ops", "dev")
            assert yarn.groups("stranger") == [[], []]
            client.invalidate(["kept", "stranger"], wait=True)
    assert yarn.rest() == before


@pytest.mark.parametrize("invalidated", [["erin"], None], ids=["the user", "everybody"])
def test_a_last_group_goes(yarn: Yarn, invalidated: list[str] | None) -> None:
    with queuegate.Client(yarn.server.address, timeout=30) as client:
        client.invalidate(["nobody"], wait=True)  # waits for callers of the server's last process
        for _ in range(3):
            yarn.directory.change("erin", is_member=True)
            client.invalidate(invalidated, wait=True)
            yarn.become("erin", "ops")
            yarn.become("kept", "ops", "dev")
            yarn.directory.change("erin", is_member=False)
            assert not client.invalidate(invalidated, wait=True).waited_out
            yarn.become("erin")


def test_hadoop_is_emptied_at_most_once_a_second(yarn: Yarn) -> None:
    began = time.monotonic()
    with queuegate.Client(yarn.server.address, timeout=30) as client:
        for user in USERS:
            yarn.directory.change(user, is_member=True)
        client.invalidate(list(USERS), wait=True)
        for user in USERS:
            yarn.become(user, "ops")
        before = yarn.times_emptied()
        for user in USERS:
            yarn.directory.change(user, is_member=False)
            client.invalidate([user], wait=True)
        for user in USERS:
            yarn.become(user)
    emptied = yarn.times_emptied() - before
    assert 1 <= emptied <= 1 + (time.monotonic() - began)
