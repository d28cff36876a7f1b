"""Real applications: Hadoop's distributed shell on a ResourceManager and a NodeManager."""

from pathlib import Path

import pytest

from tests.support.servers.resourcemanager.process import BUILD_SECONDS, RELEASES
from tests.support.servers.yarn_cluster import Cluster

pytestmark = [pytest.mark.timeout(3 * BUILD_SECONDS + 600), pytest.mark.usefixtures("jar")]

SMALL = {
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.nodemanager.disk-health-checker.enable": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
}


def test_applications_run_where_queuegate_allows_them(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "capacity")
    with (
        cluster.queuegate(),
        cluster.yarn(
            RELEASES[1], site=SMALL, program="mini-yarn-cluster", fallback="deny"
        ) as manager,
    ):
        assert "error" not in manager.started, manager.started
        for user, queue, is_allowed in (
            ("alice", "root.a", True),
            ("mallory", "root.a", False),
            ("bob", "root.b", True),
        ):
            ran = tmp_path / f"{user} ran"
            command = f"touch '{ran}'"
            answer = manager.ask("run", user=user, queue=queue, command=command)
            assert answer.get("succeeded", False) is is_allowed, answer
            assert ran.exists() is is_allowed
            if not is_allowed:
                assert f"User {user} does not have permission to submit" in str(answer)
