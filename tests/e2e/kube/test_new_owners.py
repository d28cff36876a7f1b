"""New owners of objects with a node pool, which KAI joins with the project of the owner."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.custom_resources import define
from tests.e2e.kube.queue_checks import checked
from tests.e2e.kube.reviews import PODS, SPEC, make_namespaces
from tests.e2e.kube.scenarios import play, scenarios
from tests.support.rows import table

pytestmark = pytest.mark.timeout(300)
POOL, PROJECT = {"kai.scheduler/node-pool": "gpu"}, {"project": "open"}
POLICY: str = table(__file__, "POLICY")


@pytest.fixture(scope="module", autouse=True)
def checks(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    make_namespaces(cluster)
    define(cluster)

    def is_asked(cluster: ApiServer) -> bool:
        probe = {"metadata": {"name": "probe", "labels": {"project": "closed"}}, "spec": SPEC}
        return cluster.ask("bob", "POST", f"{PODS}?dryRun=All", probe).status_code == 403

    folder, schedulers = tmp_path_factory.mktemp("queues"), {"kai": {"below": "root.kai"}}
    with checked(cluster, folder, POLICY, is_asked, schedulers=schedulers):
        yield


@scenarios("owner_scenarios.yaml")
def test_owners(cluster: ApiServer, steps: list[dict[str, Any]]) -> None:
    play(cluster, steps)
