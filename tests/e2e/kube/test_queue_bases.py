"""The bases in deploy/queues: one command installs each, and nothing stops without the webhook."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.kube import custom_resources
from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.installed_base import (
    CONFIGURATION,
    REGISTRATION,
    SECRET,
    Kubectl,
    a_checkout,
    bundles,
    certificate_of,
    certificate_pod,
    changed,
    cluster_with_rbac,
    is_trusted,
    tools,
    webhook_pod,
)
from tests.e2e.kube.reviews import created
from tests.e2e.kube.test_warn_mode import emergency_command
from tests.support.eventually import eventually
from tests.support.rows import table
from tests.support.servers.queuegate_server import RunningServer

pytestmark = pytest.mark.timeout(900)
BASES: Final[dict[str, dict[str, Any]]] = table(__file__, "BASES")
"""For each base, objects that name a queue of the example that bob may not use, each with a user to
whom `grants.yaml` grants it, and the namespace in which that holds."""
NAMESPACES: Final = ("dev", "ml", "web")
GROUPS: Final = {"secrets": "", "clusterroles": "rbac.authorization.k8s.io"}
RIGHTS: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/queuegate-admission-rbac"
DEV: Final = "namespaces/dev"
DEPLOYMENTS: Final = f"/apis/apps/v1/{DEV}/deployments"
DRY: Final = "?dryRun=All"


@dataclass(frozen=True, slots=True)
class Cluster:
    api: ApiServer
    kubectl: Kubectl


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    programs = tools()
    if programs is None:
        pytest.skip("no kube-apiserver or kubectl here: `make kube-tools` builds them (Go, 15 min)")
    etcd, kube_apiserver, kubectl = programs
    folder = tmp_path_factory.mktemp("cluster")
    with cluster_with_rbac(folder, etcd, kube_apiserver) as api:
        for name in NAMESPACES:
            created(api.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": name}}))
        custom_resources.define(api)
        yield Cluster(api, Kubectl(kubectl, folder, api))


@pytest.fixture(params=BASES)
def base(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """A base of a checkout, installed with its one command."""
    folder = a_checkout(tmp_path) / "queues" / request.param
    cluster.kubectl.run("apply", "-k", str(folder))
    yield folder
    cluster.kubectl.run("delete", "-k", str(folder), "--wait=false")
    # Nobody finalizes the namespace here.
    path = "/api/v1/namespaces/queuegate/finalize"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "queuegate"}}
    cluster.api.ask("admin", "PUT", path, {**namespace, "spec": {"finalizers": []}})
    eventually(
        lambda: cluster.api.ask("admin", "GET", path.removesuffix("/finalize")).status_code, 404
    )


def objects(base: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return objects with a queue that bob may not use, each with the path to create it."""
    return [(each["path"], each["object"]) for each in BASES[base.name]["objects"]]


def answers(cluster: Cluster, base: Path) -> list[tuple[int, bool]]:
    """Return, for each object that bob creates, the status, and whether he is warned."""
    answers = [cluster.api.ask("bob", "POST", f"{path}{DRY}", each) for path, each in objects(base)]
    return [(answer.status_code, "Warning" in answer.headers) for answer in answers]


def answers_to_granted(cluster: Cluster, base: Path) -> list[tuple[int, bool]]:
    """Return the same for each object that a user creates to whom its queue is granted."""
    found = []
    namespace = f"namespaces/{BASES[base.name]['namespace']}"
    for each in BASES[base.name]["objects"]:
        path = each["path"].replace(DEV, namespace) + DRY
        who = {"impersonated": each["user"], "groups": ["dev", *each.get("groups", ())]}
        answer = cluster.api.ask("admin", "POST", path, each["object"], **who)
        found.append((answer.status_code, "Warning" in answer.headers))
    return found


def test_a_base_warns(cluster: Cluster, base: Path, tmp_path: Path) -> None:
    """The certificate comes by itself, and everyone is warned to whom no binding grants a queue."""
    count = len(objects(base))
    assert certificate_of(cluster.api) == {}
    assert answers(cluster, base) == [(201, False)] * count
    with certificate_pod(cluster.api, tmp_path / "certificate") as keeper:
        eventually(lambda: is_trusted(cluster.api), True)
        with webhook_pod(cluster.api, tmp_path / "webhook") as webhook:
            eventually(lambda: answers(cluster, base), [(201, True)] * count)
            assert answers_to_granted(cluster, base) == [(201, True)] * count
            cluster.kubectl.run("apply", "--filename", str(base / "grants.yaml"))
            eventually(lambda: answers_to_granted(cluster, base), [(201, False)] * count)
            assert answers(cluster, base) == [(201, True)] * count
            cluster.kubectl.run("delete", "--filename", str(base / "grants.yaml"))
            eventually(lambda: answers_to_granted(cluster, base), [(201, True)] * count)
            webhook.process.kill()
            webhook.process.wait(30)
        assert answers(cluster, base) == [(201, False)] * count
        assert not [line for line in keeper.errors if '"error"' in line]


@pytest.mark.parametrize("base", ["kueue"], indirect=True)
def test_the_webhook_waits_until_it_knows_rbac(
    cluster: Cluster, base: Path, tmp_path: Path
) -> None:
    """Without the right to read RBAC, it answers nothing, so nothing is allowed by mistake."""
    count = len(objects(base))
    created(cluster.api.ask("admin", "DELETE", RIGHTS))
    account = "system:serviceaccount:queuegate:queuegate-admission"
    eventually(lambda: may(cluster, account, "list", "clusterroles"), False)

    def refused(server: RunningServer) -> None:
        entry = server.wait_for_log("RBAC or queues cannot be followed")
        assert "403" in entry["error"]
        assert server.process.poll() is None
        assert answers(cluster, base) == [(201, False)] * count
        cluster.kubectl.run("apply", "--filename", str(base.parent / "base/rights.yaml"))

    with certificate_pod(cluster.api, tmp_path / "certificate"):
        eventually(lambda: is_trusted(cluster.api), True)
        with webhook_pod(cluster.api, tmp_path / "webhook", refused):
            eventually(lambda: answers(cluster, base), [(201, True)] * count)


def test_only_the_queues_are_registered(cluster: Cluster, base: Path) -> None:
    mutating = created(
        cluster.api.ask("admin", "GET", f"{REGISTRATION}/mutatingwebhookconfigurations")
    )
    assert mutating["items"] == []
    registered = created(cluster.api.ask("admin", "GET", CONFIGURATION.rpartition("/")[0]))["items"]
    assert [each["metadata"]["name"] for each in registered] == ["queuegate-admission-queues"]
    webhooks = registered[0]["webhooks"]
    assert {each["failurePolicy"] for each in webhooks} == {"Ignore"}
    assert {each["clientConfig"]["service"]["path"] for each in webhooks} == {"/queues"}


def test_applying_again_changes_nothing(cluster: Cluster, base: Path, tmp_path: Path) -> None:
    """Nor is the certificate lost if the emergency command of the page deletes the registration."""
    with certificate_pod(cluster.api, tmp_path / "certificate"):
        eventually(lambda: is_trusted(cluster.api), True)
        before = certificate_of(cluster.api)
        printed = cluster.kubectl.run("apply", "-k", str(base))
        assert changed(printed) == []
        assert "secret/queuegate-admission-tls unchanged\n" in printed
        assert is_trusted(cluster.api)
        cluster.kubectl.run(*shlex.split(emergency_command())[1:])
        assert cluster.api.ask("admin", "GET", CONFIGURATION).status_code == 404
        cluster.kubectl.run("apply", "-k", str(base))
        eventually(lambda: is_trusted(cluster.api), True)
        assert certificate_of(cluster.api) == before


def test_a_lost_certificate_is_replaced(cluster: Cluster, base: Path, tmp_path: Path) -> None:
    with certificate_pod(cluster.api, tmp_path / "certificate"):
        eventually(lambda: is_trusted(cluster.api), True)
        before = certificate_of(cluster.api)
        patch = [{"op": "replace", "path": "/data/tls.key", "value": "YQ=="}]
        created(cluster.api.ask("admin", "PATCH", SECRET, patch))
        eventually(
            lambda: certificate_of(cluster.api)["tls.key"] not in {b"a", before["tls.key"]}, True
        )
        eventually(lambda: is_trusted(cluster.api), True)


def test_a_failure_is_logged_and_tried_again(cluster: Cluster, base: Path, tmp_path: Path) -> None:
    created(cluster.api.ask("admin", "DELETE", SECRET))
    with certificate_pod(cluster.api, tmp_path / "certificate") as keeper:
        keeper.wait_for_log("the certificate cannot be kept")
        assert f"GET {SECRET}: the API server responded with status 404" in keeper.errors[0]
        assert set(bundles(cluster.api)) == {""}
        cluster.kubectl.run("apply", "-k", str(base))
        eventually(lambda: is_trusted(cluster.api), True)


def test_the_account_may_do_nothing_else(cluster: Cluster, base: Path, tmp_path: Path) -> None:
    """Not read another Secret, not create one, and not change another registration."""
    account = "system:serviceaccount:queuegate:queuegate-admission-certificate"
    allowed = {
        ("get", "secrets/queuegate-admission-tls"),
        ("update", "secrets/queuegate-admission-tls"),
        ("get", "validatingwebhookconfigurations/queuegate-admission-queues"),
        ("patch", "validatingwebhookconfigurations/queuegate-admission-queues"),
    }
    names = {
        "secrets": "queuegate-admission-tls",
        "validatingwebhookconfigurations": "queuegate-admission-queues",
        "mutatingwebhookconfigurations": "queuegate-admission",
    }
    for granted in allowed:  # The API server follows roles and bindings with a delay.
        eventually(lambda granted=granted: may(cluster, account, *granted), True)  # type: ignore[misc]
    for resource, name in names.items():
        for verb in ("get", "list", "create", "update", "patch", "delete"):
            for each in (f"{resource}/{name}", f"{resource}/other", resource):
                assert may(cluster, account, verb, each) == ((verb, each) in allowed), (verb, each)


def may(cluster: Cluster, account: str, verb: str, named: str) -> bool:
    resource, _, name = named.partition("/")
    group = GROUPS.get(resource, "admissionregistration.k8s.io")
    attributes = {"verb": verb, "resource": resource, "name": name, "group": group}
    if resource == "secrets":
        attributes["namespace"] = "queuegate"
    review = {"spec": {"user": account, "resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    allowed: bool = created(cluster.api.ask("admin", "POST", path, review))["status"]["allowed"]
    return allowed
