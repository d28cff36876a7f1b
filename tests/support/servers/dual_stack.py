"""Both families of schedulers served by one process."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import queuegate
from tests.support.servers.queuegate_server import ADMIN, running_server

EXAMPLES = ("queues.yaml", "fair-scheduler.xml", "capacity-scheduler.xml", "yarn-site.xml")


def policies_of_both_families(path: Path) -> Path:
    """Write policies of YuniKorn and YARN with their related files, and return the folder."""
    for name in EXAMPLES:
        shutil.copy(f"examples/{name}", path)
    (path / "spark-defaults.conf").write_text(
        "# Spark\nspark.acls.enable true\nspark.admin.acls=root,ada\n"
        "spark.modify.acls.groups: dev\n"
    )
    (path / "proxied.xml").write_text(
        "<allocations><queue name='root'><aclSubmitApps>~knox</aclSubmitApps>"
        "<aclAdministerApps> </aclAdministerApps></queue></allocations>"
    )
    return path


@contextmanager
def served(folder: Path) -> Iterator[queuegate.Client]:
    """Serve them in one process: the partitions default, hadoop, capacity and proxied."""
    policies = [
        {"path": str(folder / "queues.yaml")},
        {
            "path": str(folder / "fair-scheduler.xml"),
            "yarn_site": str(folder / "yarn-site.xml"),
            "partition": "hadoop",
        },
        {
            "path": str(folder / "capacity-scheduler.xml"),
            "partition": "capacity",
            "spark_defaults": str(folder / "spark-defaults.conf"),
        },
    ]
    policies.append(
        {"path": str(folder / "proxied.xml"), "format": "fair-scheduler", "partition": "proxied"}
    )
    semantics = "partitions.proxied.semantics=hadoop"
    options = ("--set", f"policies={json.dumps(policies)}", "--set", semantics, *ADMIN)
    with running_server(*options) as server, queuegate.Client(server.address, timeout=60) as asking:
        yield asking
