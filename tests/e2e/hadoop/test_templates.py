"""Queues that YARN creates: a template grants access that queuegate denies, and lint says so."""

from pathlib import Path
from typing import Final

import pytest

from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.registry import FormatOptions, check_file
from queuegate_server.formats.yarn.load import YarnOptions
from tests.e2e.hadoop.test_authorizer import may_submit
from tests.support.servers.resourcemanager.process import BUILD_SECONDS
from tests.support.servers.yarn_cluster import OF_YARN, Cluster

pytestmark = [pytest.mark.timeout(2 * BUILD_SECONDS + 600), pytest.mark.usefixtures("jar")]

QUEUE: Final = "yarn.scheduler.capacity.root"
CREATES: Final = {
    **{f"{QUEUE}.{name}.capacity": "1w" for name in OF_YARN},
    f"{QUEUE}.a.auto-queue-creation-v2.enabled": "true",
}
TEMPLATE: Final = f"{QUEUE}.a.auto-queue-creation-v2.leaf-template.acl_submit_applications"
CLOSED: Final = dict.fromkeys(OF_YARN, (" ", " "))


def warnings(folder: Path) -> list[str]:
    """Return what lint reports about templates in Hadoop's configuration folder."""
    site = folder / "yarn-site.xml"
    yarn = YarnOptions(semantics=Semantics.HADOOP, site=(site.read_bytes(), str(site)))
    file = folder / "capacity-scheduler.xml"
    found = check_file(
        "capacity-scheduler", file.read_bytes(), str(file), FormatOptions(yarn=yarn), with_lint=True
    )
    return [each.message for each in found if "YARN itself" in each.message]


@pytest.mark.parametrize("release", ["3.4.2", "3.5.0"])
@pytest.mark.parametrize(("acl", "is_open"), [("mallory", True), (" ", False)])
def test_a_template_grants_what_queuegate_denies(
    release: str, acl: str, is_open: bool, tmp_path: Path
) -> None:
    cluster = Cluster(tmp_path, "capacity")
    queues = {**CREATES, TEMPLATE: acl}
    with (
        cluster.queuegate(),
        cluster.yarn(
            release, acls=CLOSED, queues=queues, fallback="deny", group_timeout="10s"
        ) as manager,
    ):
        assert "error" not in manager.started, manager.started
        assert not may_submit(manager, "mallory", "root.b")
        assert may_submit(manager, "mallory", "root.a.new") is is_open
        # Once the queue exists, YARN asks queuegate only.
        assert not is_open or not may_submit(manager, "mallory", "root.a.new")
        assert may_submit(manager, "alice", "root.a.new")
    assert bool(warnings(tmp_path / f"yarn-{release}" / "conf")) is is_open
