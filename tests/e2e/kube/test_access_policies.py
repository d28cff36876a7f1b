"""ValidatingAdmissionPolicies that ask RBAC about queues: no webhook, and no queuegate, runs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import yaml

from tests.e2e.kube import custom_resources, test_rbac_webhook
from tests.e2e.kube.cluster import ApiServer, program, running_cluster
from tests.e2e.kube.queue_checks import DRY, JOBS, KUEUE, REGISTRATION, job
from tests.e2e.kube.rbac_grants import can_i, granted, let_bob_create
from tests.e2e.kube.reviews import SPEC, created, refusal
from tests.support.eventually import eventually
from tests.support.rows import rows, table

pytestmark = pytest.mark.timeout(1_800)
SCHEDULERS: Final = {"kueue": {}, "kai": {"mode": "deny"}, "volcano": {}, "koordinator": {}}
SETTINGS: Final = {
    "policy": {"kubernetes": {}},
    "admission": {"queues": {"mode": "deny", "schedulers": SCHEDULERS, "exempt": ["^alice$"]}},
}
SECONDS: Final = 600
GRANTS: Final = table(test_rbac_webhook.__file__, "test_a_denial_shows_the_grant")
"""An object for each kind of queue, and the grant that bob needs for it."""
IN_DEV: Final = {
    "group": "kueue.x-k8s.io",
    "resource": "localqueues",
    "name": "training",
    "namespace": "dev",
}
CRON: Final = "/apis/batch/v1/namespaces/dev/cronjobs"


def printed(settings: Any, folder: Path) -> list[dict[str, Any]]:
    config = folder / "queuegate.yaml"
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "queuegate_server", "admission", "manifest", "--vap"]
    text = subprocess.check_output([*command, "--config", str(config)], text=True)
    return [*yaml.safe_load_all(text)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None:
        pytest.skip("no etcd and kube-apiserver here: `make kube-tools` builds them (Go, 15 min)")
    folder = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, etcd, kube_apiserver, {"authorization-mode": "RBAC"}) as api:
        created(api.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": "dev"}}))
        custom_resources.define(api)
        let_bob_create(api)
        apply(api, printed(SETTINGS, folder))
        wait_until_enforced(api)
        yield api


def apply(api: ApiServer, documents: list[dict[str, Any]]) -> None:
    """Create policies and bindings, or replace their specifications."""
    for each in documents:
        kind = "validatingadmissionpolicies"
        plural = kind if each["kind"] == "ValidatingAdmissionPolicy" else f"{kind[:-3]}ybindings"
        path = f"{REGISTRATION}/{plural}"
        answer = api.ask("admin", "POST", path, each)
        if answer.status_code == 409:
            patch = {"spec": each["spec"]}
            path = f"{path}/{each['metadata']['name']}"
            answer = api.ask("admin", "PATCH", path, patch, "merge-patch+json")
        created(answer)


def wait_until_enforced(api: ApiServer) -> None:
    """Wait until each of the policies refuses bob's objects."""
    for row in GRANTS:

        def ask(row: dict[str, Any] = row) -> int:
            return api.ask("bob", "POST", f"{row['path']}{DRY}", row["thing"]).status_code

        eventually(ask, 403, SECONDS)


@pytest.mark.parametrize("row", GRANTS, ids=[row["id"] for row in GRANTS])
def test_a_grant_decides(cluster: ApiServer, row: dict[str, Any]) -> None:
    """The same objects and grants as with the webhook."""

    def ask() -> httpx2.Response:
        return cluster.ask("bob", "POST", f"{row['path']}{DRY}", row["thing"])

    def state() -> tuple[bool, bool]:
        return ask().status_code == 201, can_i(cluster, row["asked"])

    eventually(state, (False, False), SECONDS)
    assert f"bob may not {row['grant']}: no binding grants it" in refusal(ask())
    namespace = "dev" if row["grant"].endswith(" in dev") else ""
    with granted(cluster, row["asked"], namespace):
        eventually(state, (True, True), SECONDS)
    eventually(state, (False, False), SECONDS)


@rows
def test_what_it_sees(cluster: ApiServer, path: str, thing: Any, status: int) -> None:
    """bob may use no queue. An expression that fails refuses an object with another status."""
    answer = cluster.ask("bob", "POST", f"{path}{DRY}", thing)
    assert answer.status_code == status, answer.text


def ask_about_a_job(cluster: ApiServer, user: str = "bob") -> httpx2.Response:
    return cluster.ask(user, "POST", f"{JOBS}{DRY}", job("a", {KUEUE: "training"}))


def test_only_new_names_count(cluster: ApiServer) -> None:
    """bob may change an object whose queue he may no longer use, but not give it another one."""
    with granted(cluster, IN_DEV, "dev"):
        eventually(lambda: ask_about_a_job(cluster).status_code, 201, SECONDS)
        made = created(cluster.ask("bob", "POST", JOBS, job("kept", {KUEUE: "training"})))
    eventually(lambda: ask_about_a_job(cluster).status_code, 403, SECONDS)
    made["metadata"]["labels"]["team"] = "x"
    created(cluster.ask("bob", "PUT", f"{JOBS}/kept{DRY}", made))
    made["metadata"]["labels"][KUEUE] = "other"
    message = refusal(cluster.ask("bob", "PUT", f"{JOBS}/kept{DRY}", made))
    assert "bob may not use localqueues.kueue.x-k8s.io/other in dev" in message


def cron_job(values: dict[str, str]) -> dict[str, Any]:
    """Return a CronJob with labels and annotations in all places that it has."""
    keys = {"labels": values, "annotations": values}
    template = {"metadata": keys, "spec": {**SPEC, "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "all", **keys},
        "spec": {
            "schedule": "0 0 * * *",
            "jobTemplate": {"metadata": keys, "spec": {"template": template}},
        },
    }


def test_a_name_in_every_place(cluster: ApiServer) -> None:
    """The questions about it stay below the API server's limit for the cost of a policy."""

    def ask(*keys: str) -> httpx2.Response:
        made = cron_job(dict.fromkeys(keys, "training"))
        return cluster.ask("bob", "POST", f"{CRON}{DRY}", made)

    assert ask(KUEUE).status_code == 403
    with granted(cluster, {**IN_DEV, "group": "*", "resource": "*"}, ""):
        eventually(lambda: ask(KUEUE).status_code, 201, SECONDS)
        message = refusal(ask("volcano.sh/queue-name", "scheduling.volcano.sh/queue-name"))
        assert "the object names queues in more than 6 places" in message
    eventually(lambda: ask(KUEUE).status_code, 403, SECONDS)


def test_who_is_not_checked(cluster: ApiServer) -> None:
    """Those whom the settings exempt, and all who may do everything."""
    assert ask_about_a_job(cluster, "admin").status_code == 201
    answer = ask_about_a_job(cluster, "alice")
    assert "may not use" not in answer.text
    assert "cannot create resource" in answer.text, "RBAC itself refuses her"


def test_warn_mode_refuses_nothing(cluster: ApiServer, tmp_path: Path) -> None:
    settings = json.loads(json.dumps(SETTINGS))
    settings["admission"]["queues"]["mode"] = "warn"
    apply(cluster, printed(settings, tmp_path))
    eventually(lambda: ask_about_a_job(cluster).status_code, 201, SECONDS)
    [warning] = ask_about_a_job(cluster).headers.get_list("Warning")
    assert "bob may not use localqueues.kueue.x-k8s.io/training in dev" in warning
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"kai.scheduler/queue": "training"}},
        "spec": SPEC,
    }
    answer = cluster.ask("bob", "POST", f"/api/v1/namespaces/dev/pods{DRY}", pod)
    assert "use queues.scheduling.run.ai/training" in refusal(answer), "a mode of its own"
    apply(cluster, printed(SETTINGS, tmp_path))
    wait_until_enforced(cluster)
