"""Two ResourceManagers, of which ZooKeeper makes one active, and the other if that one dies."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.eventually import eventually
from tests.support.servers.free_ports import free_port
from tests.support.servers.resourcemanager.process import ResourceManager, harness
from tests.support.servers.yarn_cluster import Cluster

_TICK_MILLIS: Final = 500
_SESSION_MILLIS: Final = 4 * _TICK_MILLIS
_MANAGER: Final = "yarn.resourcemanager"
_PORTS: Final = (
    "address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address",
)  # fmt: skip
_NAMES: Final = ("rm1", "rm2")


@contextmanager
def running_pair(
    cluster: Cluster, release: str, **keys: Any
) -> Iterator[tuple[ResourceManager, ResourceManager]]:
    """Run ZooKeeper, an active ResourceManager and a standby one, which keep applications there."""
    with ExitStack() as stack:
        site = _site(stack.enter_context(_running_zookeeper(cluster.folder, release)))
        managers = []
        for name, role in zip(_NAMES, ("active", "standby"), strict=True):
            own = {**site, f"{_MANAGER}.ha.id": name}
            manager = stack.enter_context(cluster.yarn(release, site=own, name=name, **keys))
            assert "error" not in manager.started, manager.started
            await_role(manager, role)
            managers.append(manager)
        yield managers[0], managers[1]


def await_role(manager: ResourceManager, role: str) -> None:
    """Wait until a ResourceManager is `active` or `standby`."""
    eventually(lambda: manager.ask("role")["role"], role)


def _site(zookeeper: str) -> dict[str, str]:
    """Return the properties of yarn-site.xml that both have."""
    store = "org.apache.hadoop.yarn.server.resourcemanager.recovery.ZKRMStateStore"
    return {
        "hadoop.zk.address": zookeeper,
        f"{_MANAGER}.zk-address": zookeeper,  # which 3.5.0 asks for
        "hadoop.zk.timeout-ms": str(_SESSION_MILLIS),
        f"{_MANAGER}.cluster-id": "test",
        f"{_MANAGER}.ha.enabled": "true",
        f"{_MANAGER}.ha.rm-ids": ",".join(_NAMES),
        f"{_MANAGER}.recovery.enabled": "true",
        f"{_MANAGER}.store.class": store,
        "yarn.client.failover-sleep-base-ms": "50",
        "yarn.client.failover-sleep-max-ms": "200",
        **{
            f"{_MANAGER}.{port}.{name}": f"127.0.0.1:{free_port()}"
            for name in _NAMES
            for port in _PORTS
        },
    }


@contextmanager
def _running_zookeeper(folder: Path, release: str) -> Iterator[str]:
    """Run the server whose client a release contains, and yield its address."""
    port = free_port()
    data = folder / "zookeeper"
    with (
        (folder / "zookeeper.log").open("w") as log,
        subprocess.Popen(
            [
                *("java", "-Xmx128m", "-Dzookeeper.admin.enableServer=false"),
                *("-cp", f"{harness(release)}/lib/*"),
                "org.apache.zookeeper.server.ZooKeeperServerMain",
                *(str(port), str(data), str(_TICK_MILLIS)),
            ],
            stdout=log,
            stderr=log,
        ) as process,
    ):
        try:
            eventually(lambda: _listens(port), expected=True)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
