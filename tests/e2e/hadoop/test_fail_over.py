"""A fail-over between two ResourceManagers: the standby one has a gate, and decides at once."""

from contextlib import ExitStack
from pathlib import Path

import pytest

import queuegate
from tests.e2e.hadoop.test_authorizer import may_submit
from tests.support.eventually import eventually
from tests.support.servers.resourcemanager.process import (
    BUILD_SECONDS,
    RELEASES,
    ResourceManager,
)
from tests.support.servers.yarn_cluster import OF_QUEUEGATE, Cluster
from tests.support.servers.yarn_pair import await_role, running_pair

pytestmark = [pytest.mark.timeout(2 * BUILD_SECONDS + 600), pytest.mark.usefixtures("jar")]


def owners(manager: ResourceManager) -> set[str]:
    """Return which of the users may submit to root.a."""
    return {user for user in ("alice", "mallory", "local") if may_submit(manager, user, "root.a")}


@pytest.mark.parametrize("release", RELEASES)
def test_a_standby_decides_at_once(release: str, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "capacity")
    with ExitStack() as stack:
        with cluster.queuegate() as server, queuegate.Client(server.address, timeout=30) as client:
            first, second = stack.enter_context(
                running_pair(cluster, release, fallback="deny", stale="10m")
            )
            application = first.ask("submit", user="alice", queue="root.a")["application"]
            assert owners(first) == {"alice"}
            cluster.change({**OF_QUEUEGATE, "a": ("mallory", "carol")})
            assert not client.reload(wait=True).waited_out
            assert owners(first) == {"mallory"}

            # Without both, only what the standby's gate has already can decide.
            server.process.kill()
            first.kill()
            await_role(second, "active")
            assert owners(second) == {"mallory"}
            assert "error" in second.ask("kill", user="mallory", application=application)
            assert "error" not in second.ask("kill", user="carol", application=application)
        cluster.change(OF_QUEUEGATE)
        with cluster.queuegate():
            eventually(lambda: owners(second), {"alice"})
            for role in ("standby", "active"):
                transition = second.ask("transition", user="yarn", to=role)
                assert "error" not in transition, transition
                await_role(second, role)
            assert owners(second) == {"alice"}
