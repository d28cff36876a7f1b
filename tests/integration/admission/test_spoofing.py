"""What a stranger tries against the running webhook, up to the decision about the pod."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate import user_info
from tests.integration.admission.test_bounds import review
from tests.support.rows import rows, table
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.webhook import Webhook, patch_of, running_webhook

POLICY: str = table(__file__, "POLICY")
NAMED = {"yunikorn.apache.org/username": "root"}


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    with running_webhook(tmp_path_factory.mktemp("webhook")) as running:
        yield running


def pod(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": {**labels, **NAMED}}, "spec": {"schedulerName": "yunikorn"}}


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@rows
def test_two_labels_name_nobody(
    webhook: Webhook, path: str, namespace: str, labels: dict[str, str]
) -> None:
    asked = review(user="mallory", object=pod(**labels), namespace=namespace)
    response = webhook.review(path, asked)
    assert not response["allowed"]
    assert "to set the label yunikorn.apache.org/username" in response["status"]["message"]
    old = {"metadata": {"labels": labels}, "spec": {}}
    update = review(
        user="mallory",
        object=pod(**labels),
        oldObject=old,
        namespace=namespace,
        operation="UPDATE",
    )
    assert not webhook.review(path, update)["allowed"]


def test_the_annotation_that_is_added_counts(webhook: Webhook) -> None:
    response = webhook.review("/mutate", review(user="mallory", object=pod()))
    assert response["allowed"]
    (operation,) = patch_of(response)
    owner = user_info.from_pod({**pod()["metadata"], "annotations": operation["value"]})
    assert owner.user == "mallory"


def test_the_decision_about_such_a_pod(tmp_path: Path) -> None:
    """Where no webhook looked at the pod, the client does not believe its label, either."""
    policy = tmp_path / "queues.yaml"
    policy.write_text(POLICY)
    owner = user_info.from_pod(pod(app="yunikorn")["metadata"])
    with (
        running_server("--policy", str(policy)) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        assert not client.check(owner.user, "root.finance", groups=["dev"])


def test_a_revision_that_is_made_anew(webhook: Webhook) -> None:
    template = {"metadata": {"annotations": {user_info.ANNOTATION: '{"user":"root"}'}}}
    revision = {"data": {"spec": {"template": template}}, "revision": 1}
    kind = {"group": "apps", "version": "v1", "kind": "ControllerRevision"}
    for user, allowed in (
        ("mallory", False),
        ("system:serviceaccount:kube-system:statefulset-controller", True),
    ):
        response = webhook.review("/validate", review(user=user, kind=kind, object=revision))
        assert response["allowed"] is allowed


def test_probable_mistakes_in_mounted_settings_are_logged(tmp_path: Path) -> None:
    access = "admissionController.accessControl."
    with running_webhook(tmp_path, environment={"ADMISSION_CONTROLLER_SYSTEM_USERS": "^s{1"}) as it:
        log = it.server.wait_for_log("probable mistake in a setting")
        assert log["level"] == "warning"
        assert log["warning"].startswith("ADMISSION_CONTROLLER_SYSTEM_USERS: the pattern '^s{1'")
        it.configure({f"{access}trustController": "false"})
        log = it.server.wait_for_log("probable mistake in a setting", count=2)
        assert log["warning"] == (
            f"{access}trustController: unknown key, which is ignored"
            f" (did you mean {access}trustControllers?)"
        )
