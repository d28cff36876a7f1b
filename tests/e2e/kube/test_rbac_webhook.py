"""A webhook whose policy is the RBAC of the API server that asks it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import yaml

from tests.e2e.kube.cluster import ApiServer, program
from tests.e2e.kube.queue_checks import DRY, submit
from tests.e2e.kube.rbac_grants import can_i, create
from tests.e2e.kube.rbac_webhook import running_rbac_cluster
from tests.e2e.kube.reviews import created, refusal
from tests.support.eventually import eventually
from tests.support.rows import rows

pytestmark = pytest.mark.timeout(1_800)
SCHEDULERS: Final = ("kueue", "kai", "volcano", "koordinator")
SETTINGS: Final = {"mode": "deny", "schedulers": {name: {} for name in SCHEDULERS}}
SECONDS: Final = 600


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def settings(folder: Path) -> Path:
    """The settings of the webhook."""
    return folder / "webhook" / "queuegate.yaml"


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[ApiServer]:
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None:
        pytest.skip("no etcd and kube-apiserver here: `make kube-tools` builds them (Go, 15 min)")
    programs = etcd, kube_apiserver
    with running_rbac_cluster(folder, programs, ("dev",), SETTINGS, is_asked) as api:
        yield api


def is_asked(api: ApiServer) -> bool:
    answer = submit(api, "probe", "missing")
    return answer.status_code == 403 and "queuegate explain" in answer.text


@rows
def test_a_denial_shows_the_grant(
    cluster: ApiServer, path: str, thing: Any, grant: str, asked: dict[str, str]
) -> None:
    """bob creates an object in a queue: refused, granted as the message says, and taken back."""

    def ask() -> httpx2.Response:
        return cluster.ask("bob", "POST", f"{path}{DRY}", thing)

    def state() -> tuple[bool, bool]:
        return ask().status_code == 201, can_i(cluster, asked)

    eventually(state, (False, False), SECONDS)
    message = refusal(ask())
    assert f"bob may not {grant} (set in " in message
    assert "no binding grants it to bob or bob's groups" in message
    assert "To see why: queuegate explain bob root." in message
    manifests = [*yaml.safe_load_all(message.partition("This would grant it:\n")[2])]
    paths = [create(cluster, each["kind"], each) for each in manifests]
    eventually(state, (True, True), SECONDS)
    for each in reversed(paths):
        created(cluster.ask("admin", "DELETE", each))
    eventually(state, (False, False), SECONDS)


def test_a_group_may_use_one_queue(cluster: ApiServer, settings: Path) -> None:
    queues = "/apis/kueue.x-k8s.io/v1beta2/namespaces/dev/localqueues"
    for name in ("open", "closed"):
        queue = {"metadata": {"name": name}, "spec": {"clusterQueue": "gpu"}}
        version = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"}
        created(cluster.ask("admin", "POST", queues, {**version, **queue}))
    rule = {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["localqueues"],
        "resourceNames": ["open"],
        "verbs": ["use"],
    }
    metadata = {"name": "open", "namespace": "dev"}
    create(cluster, "Role", {"metadata": metadata, "rules": [rule]})
    api = "rbac.authorization.k8s.io"
    binding = {
        "metadata": metadata,
        "roleRef": {"apiGroup": api, "kind": "Role", "name": "open"},
        "subjects": [{"apiGroup": api, "kind": "Group", "name": "dev"}],
    }
    create(cluster, "RoleBinding", binding)
    eventually(lambda: submit(cluster, "x", "open").status_code, 201, SECONDS)
    message = refusal(submit(cluster, "x", "closed"))
    assert "bob may not use localqueues.kueue.x-k8s.io/closed in dev" in message
    assert explained(settings, "open") == (0, True)
    assert explained(settings, "closed") == (1, False)


def explained(settings: Path, queue: str) -> tuple[int, bool]:
    """Return the exit status of `queuegate explain`, which reads the cluster by itself, and whether
    it names the binding.
    """
    question = ("bob", f"root.localqueues.dev.{queue}", "--group", "dev")
    command = (sys.executable, "-m", "queuegate", "explain", "--config", str(settings), *question)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert not done.stderr
    return done.returncode, "RoleBinding dev/open" in done.stdout
