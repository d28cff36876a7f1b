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
ABOUT_A_SECOND = 10.0
"""The seconds in which Hadoop forgets a last group, with patience for a busy machine."""

FAILURE = "queuegate could not look up the groups of"


class Yarn(NamedTuple):
    directory: Directory
    server: RunningServer
    manager: ResourceManager

    def groups(self, user: str) -> list[list[str]]:
        """Return the groups that `Groups` and `UserGroupInformation` give."""
        answers = (self.manager.ask(op, user=user) for op in ("groups", "identity"))
        return [answer.get("groups", []) for answer in answers]

    def become(self, user: str, *groups: str, seconds: float = 60) -> None:
        """Wait until both give these groups."""
        expected = [[*groups], [*groups]]
        eventually(lambda: self.groups(user), expected, seconds=seconds)

    def times_emptied(self) -> int:
        """Return how often Hadoop has emptied its cache, which it logs."""
        return self.manager.log.count("clearing userToGroupsMap cache")

    def settled(self) -> int:
        """Return `times_emptied` once the look-ups of other tests cause no more of it."""
        before = -1
        while (now := self.times_emptied()) != before:
            before = now
            time.sleep(2.5)  # it empties its cache at most once a second
        return now

    def keeps(self, user: str, *groups: str) -> None:
        """Wait until both give these groups. Until then, looking them up may only fail."""

        def answers() -> list[list[str]]:
            answer = self.manager.ask("groups", user=user)
            if FAILURE not in answer.get("error", ""):
                assert answer.get("groups") == [*groups], answer
            # It gives no groups after a failure; if they were none, `Groups` says so next.
            identity = self.manager.ask("identity", user=user).get("groups", [])
            assert identity in ([*groups], [])
            return [answer.get("groups", []), identity]

        eventually(answers, [[*groups], [*groups]], seconds=60)

    def join(self, client: queuegate.Client, user: str, invalidated: list[str] | None) -> None:
        """Give a user a group."""
        self.directory.change(user, is_member=True)
        client.invalidate(invalidated, wait=True)
        self.become(user, "ops")

    def leave(self, client: queuegate.Client, user: str, invalidated: list[str] | None) -> None:
        """Take a user's last group away, and wait for all that this causes.

        Hadoop's cache is emptied once the loss is known, and again after Hadoop's next look-up,
        because Hadoop may have cached an old list meanwhile.
        """
        before = self.times_emptied()
        self.directory.change(user, is_member=False)
        assert not client.invalidate(invalidated, wait=True).waited_out
        self.become(user, seconds=ABOUT_A_SECOND)
        eventually(self.times_emptied, before + 2, seconds=60)


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
    before = yarn.settled()
    with queuegate.Client(yarn.server.address, timeout=30) as client:
        for _ in range(3):
            yarn.keeps("kept", "ops", "dev")
            assert yarn.groups("stranger") == [[], []]
            client.invalidate(["kept", "stranger"], wait=True)
        yarn.join(client, "erin", ["erin"])
        assert yarn.times_emptied() == before
        yarn.leave(client, "erin", ["erin"])  # nothing else has emptied it


@pytest.mark.parametrize("invalidated", [["erin"], None], ids=["the user", "everybody"])
def test_a_last_group_goes(yarn: Yarn, invalidated: list[str] | None) -> None:
    with queuegate.Client(yarn.server.address, timeout=30) as client:
        client.invalidate(["nobody"], wait=True)  # waits for callers of the server's last process
        for _ in range(3):
            yarn.join(client, "erin", invalidated)
            yarn.keeps("kept", "ops", "dev")
            yarn.leave(client, "erin", invalidated)


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
