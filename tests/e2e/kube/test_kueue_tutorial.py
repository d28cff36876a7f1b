"""docs/tutorials/kueue.md: a real API server and Kueue manager, and the containers of the base."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest
import yaml

from tests.e2e.documentation.pages import blocks_of
from tests.e2e.kube.cluster import KUEUE_MANAGER, ApiServer, program
from tests.e2e.kube.installed_base import (
    certificate_pod,
    cluster_with_rbac,
    is_trusted,
    tools,
    webhook_pod,
)
from tests.e2e.kube.kueue_manager import running_manager
from tests.e2e.kube.page_reader import reader_with_kubectl
from tests.e2e.kube.reviews import created
from tests.support.eventually import eventually

pytestmark = pytest.mark.timeout(900)
PAGE: Final = blocks_of("docs/tutorials/kueue.md")
JOBS: Final = "/apis/batch/v1/namespaces/ml/jobs"
ADMITTED: Final = "admitted"


def test_the_page(tmp_path: Path) -> None:
    """Followed up to each `kubectl apply -k`; then the pods that it would start are started."""
    programs, kueue = tools(), program("kueue")
    if programs is None or kueue is None:
        pytest.skip("no Kueue and kubectl here: `make kube-tools` builds them (Go, 15 min)")
    etcd, kube_apiserver, _ = programs
    ends = [at + 1 for at, block in enumerate(PAGE) if "kubectl apply -k" in block.text]
    assert len(ends) == 2
    with (
        cluster_with_rbac(tmp_path, etcd, kube_apiserver) as cluster,
        reader_with_kubectl(cluster) as reader,
    ):
        trust_kueue(cluster)
        with running_manager(tmp_path, cluster, kueue):
            reader.follow(PAGE[: ends[0]])
            with started_pods(cluster, tmp_path / "warn"):
                eventually(lambda: "Warning" in bob_creates_a_job(cluster).headers, True)
                reader.follow(PAGE[ends[0] : ends[1]])
            with started_pods(cluster, tmp_path / "deny"):
                eventually(lambda: bob_creates_a_job(cluster).status_code, 403)
                reader.follow(PAGE[ends[1] :])
            # All but the one that is refused: two before, two with a warning, one at last.
            eventually(lambda: jobs(cluster), [ADMITTED] * 5)


def trust_kueue(cluster: ApiServer) -> None:
    """Let its manager do everything, instead of the roles of its manifests."""
    binding = {
        "metadata": {"name": "kueue"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"kind": "User", "name": KUEUE_MANAGER}],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    created(cluster.ask("admin", "POST", path, binding))


@contextmanager
def started_pods(cluster: ApiServer, folder: Path) -> Iterator[None]:
    """Run the containers of the base in a block."""
    with certificate_pod(cluster, folder / "certificate"):
        eventually(lambda: is_trusted(cluster), True)
        with webhook_pod(cluster, folder / "webhook"):
            yield


def bob_creates_a_job(cluster: ApiServer) -> httpx2.Response:
    """Create the page's Job as bob, without storing it."""
    [text] = [block.text for block in PAGE if block.file == "job.yaml"]
    return cluster.ask("bob", "POST", f"{JOBS}?dryRun=All", yaml.safe_load(text))


def jobs(cluster: ApiServer) -> list[str]:
    """Return whether Kueue has admitted each Job."""
    found = created(cluster.ask("admin", "GET", JOBS))["items"]
    return ["waiting" if each["spec"]["suspend"] else ADMITTED for each in found]
