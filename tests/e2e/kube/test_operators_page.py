"""docs/how-to/queue-access-operators.md: its blocks, and the accounts of its settings."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import yaml

from tests.e2e.documentation.pages import blocks_of
from tests.e2e.kube.cluster import ApiServer, program
from tests.e2e.kube.custom_resources import RESOURCES, Resource, define
from tests.e2e.kube.page_reader import reader_with_kubectl
from tests.e2e.kube.queue_checks import KUEUE, checked
from tests.e2e.kube.reviews import SPEC, created, refusal

pytestmark = pytest.mark.timeout(600)
PAGE: Final = blocks_of("docs/how-to/queue-access-operators.md")
FILES: Final = {block.file: block.text for block in PAGE if block.file}
QUEUES: Final[dict[str, Any]] = yaml.safe_load(FILES["queuegate.yaml"])["admission"]["queues"]
FLINK: Final = "system:serviceaccount:ml:flink"
PODS: Final = "/api/v1/namespaces/ml/pods?dryRun=All"


def accounts(entries: list[str]) -> list[str]:
    """Return the names that patterns spell out, with each alternative of a group."""
    names = []
    for entry in entries:
        match = re.fullmatch(r"\^(.*?)(?:\((.*)\)(.*))?\$", entry)
        assert match, entry
        start, alternatives, end = match.groups(default="")
        names += [f"{start}{each}{end}" for each in alternatives.split("|")]
    return names


LISTED: Final = accounts(QUEUES["controllers"])
EXEMPT: Final = [
    account
    for file in ("worker.yaml", "tekton.yaml")
    for account in accounts(yaml.safe_load(FILES[file])["admission"]["queues"]["exempt"])
]


MANIFESTS: Final = [
    thing
    for thing in map(yaml.safe_load, FILES.values())
    if "kind" in thing and thing["kind"] != "ConfigMap"
]


def resource_of(manifest: Mapping[str, Any]) -> Resource:
    kind = (manifest["apiVersion"].partition("/")[0], manifest["kind"])
    [found] = [each for each in RESOURCES if (each.group, each.kind) == kind]
    return found


@pytest.fixture(scope="module", autouse=True)
def namespaces(cluster: ApiServer) -> None:
    for name in ("ml", "tekton-pipelines-resolvers"):
        created(cluster.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": name}}))
    define(cluster, [resource_of(each) for each in MANIFESTS])


def is_asked(cluster: ApiServer) -> bool:
    return create_pod(cluster, "system:serviceaccount:ml:nobody").status_code == 403


def create_pod(cluster: ApiServer, account: str) -> httpx2.Response:
    """Create a pod with a queue's name, as the controller of a workload does."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "worker-0", "labels": {KUEUE: "training"}},
        "spec": SPEC,
    }
    return cluster.ask("admin", "POST", PODS, pod, impersonated=account)


@pytest.fixture(scope="class")
def denying(
    cluster: ApiServer, namespaces: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The page's settings, with `mode: deny`."""
    exempt = {"exempt": [f"^{account}$" for account in EXEMPT]}
    queues = {**QUEUES, **exempt, "mode": "deny"}
    folder = tmp_path_factory.mktemp("denying")
    with checked(cluster, folder, FILES["queues.yaml"], is_asked, **queues):
        yield


@pytest.mark.usefixtures("denying")
class TestTheSettings:
    def test_the_page(self, cluster: ApiServer) -> None:
        if program("kubectl") is None:
            pytest.skip("no kubectl here: `make kube-tools` builds it (Go, 15 min)")
        with reader_with_kubectl(cluster) as reader:
            reader.follow(PAGE)

    @pytest.mark.parametrize("account", [*LISTED, *EXEMPT, FLINK])
    def test_an_account_that_the_page_lists(self, cluster: ApiServer, account: str) -> None:
        created(create_pod(cluster, account))

    def test_the_manifests_are_refused_to_others(self, cluster: ApiServer) -> None:
        assert len(MANIFESTS) == 8
        for each in MANIFESTS:
            plural = resource_of(each).plural
            path = f"/apis/{each['apiVersion']}/namespaces/ml/{plural}"
            message = refusal(cluster.ask("bob", "POST", path, each))
            assert re.search(r"bob may not submit to root\.\S+\.training \(set in ", message)


def test_accounts_without_entries(cluster: ApiServer, tmp_path: Path) -> None:
    """Each entry is needed: without it, its account is a user like any other."""
    policy = FILES["queues.yaml"].replace(FLINK, "")
    queues = {**QUEUES, "mode": "deny", "controllers": []}
    with checked(cluster, tmp_path, policy, is_asked, **queues):
        for account in (*LISTED, *EXEMPT, FLINK):
            message = refusal(create_pod(cluster, account))
            assert f"{account} may not submit to root.namespaces.ml.training" in message
