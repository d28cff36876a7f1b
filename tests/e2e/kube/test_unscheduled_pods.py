"""The label `queue` in namespaces that YuniKorn's admission controller does not process."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.queue_checks import (
    DRY,
    QueueWebhook,
    register,
    serving,
    write_settings,
)
from tests.e2e.kube.reviews import SPEC, created, refusal
from tests.support.eventually import eventually
from tests.support.rows import rows

pytestmark = pytest.mark.timeout(300)
LABEL = {"queue": "root.closed"}


@pytest.fixture(scope="module", autouse=True)
def webhook(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueWebhook]:
    for name in ("dev", "web"):
        created(cluster.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": name}}))
    folder = tmp_path_factory.mktemp("queues")
    queues = {"mode": "deny", "groups": "kubernetes", "schedulers": {"yunikorn": {}}}
    config, ca = write_settings(folder, queues)
    config_map = folder / "yunikorn-configs"
    config_map.mkdir()
    key = "admissionController.filtering.bypassNamespaces"
    (config_map / key).write_text("^kube-system$,^web$")
    with serving(config, ca, "--configs", str(config_map)) as running:
        register(cluster, config, ca, running.address)
        eventually(lambda: submitted(cluster, "dev", LABEL).status_code, 403)
        yield running


def submitted(cluster: ApiServer, namespace: str, labels: dict[str, str], **spec: Any) -> Any:
    """Return the answer to a new pod of bob, as a dry run."""
    pod = {"metadata": {"name": "p", "labels": labels}, "spec": {**SPEC, **spec}}
    return cluster.ask("bob", "POST", f"/api/v1/namespaces/{namespace}/pods{DRY}", pod)


def test_the_label_has_another_meaning_there(cluster: ApiServer) -> None:
    created(submitted(cluster, "web", LABEL))
    created(submitted(cluster, "web", LABEL, schedulerName="volcano"))


@rows
def test_what_is_still_checked(
    cluster: ApiServer, namespace: str, labels: dict[str, str], scheduler: str
) -> None:
    answer = submitted(cluster, namespace, labels, schedulerName=scheduler)
    assert "bob may not submit to root.closed" in refusal(answer)


def test_a_template_is_checked(cluster: ApiServer) -> None:
    """An annotation of the namespace may let YuniKorn schedule its pods after all."""
    template = {"metadata": {"labels": {"a": "b", **LABEL}}, "spec": SPEC}
    deployment = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    path = f"/apis/apps/v1/namespaces/web/deployments{DRY}"
    assert "bob may not submit to root.closed" in refusal(
        cluster.ask("bob", "POST", path, deployment)
    )
