"""One webhook is enough: it does what YuniKorn's own admission controller does beside it."""

import json
from pathlib import Path
from typing import Any

import jsonpatch

from queuegate.user_info import ANNOTATION
from tests.support.admission_reviews import admission_review
from tests.support.servers.webhook import Webhook, patch_of, running_webhook

POD: dict[str, Any] = {"metadata": {"generateName": "p-"}, "spec": {"containers": []}}
APP_ID = "yunikorn.apache.org/app-id"


def mutated(webhook: Webhook, namespace: str, path: str = "/mutate") -> dict[str, Any]:
    review = admission_review("bob", POD, groups=["dev"], namespace=namespace)
    response = webhook.review(path, review)
    assert response["allowed"], response
    pod: dict[str, Any] = jsonpatch.apply_patch(POD, patch_of(response))
    return pod


def test_pods_get_all_that_yunikorn_needs(tmp_path: Path) -> None:
    settings = tmp_path / "queuegate.yaml"
    settings.write_text(json.dumps({"admission": {"yunikorn": {"enabled": True}}}))
    with running_webhook(tmp_path, "--config", str(settings)) as webhook:
        pod = mutated(webhook, "team")
        assert pod["spec"]["schedulerName"] == "yunikorn"
        assert pod["metadata"]["labels"][APP_ID] == "yunikorn-team-autogen"
        assert json.loads(pod["metadata"]["annotations"][ANNOTATION])["user"] == "bob"
        assert mutated(webhook, "kube-system") == POD
        webhook.configure(
            {
                "admissionController.filtering.generateUniqueAppId": "true",
                "admissionController.filtering.noLabelNamespaces": "^plain$",
            }
        )
        assert mutated(webhook, "team")["metadata"]["labels"][APP_ID] == "team-uniqueautogen"
        plain = mutated(webhook, "plain")
        assert "labels" not in plain["metadata"]
        assert plain["metadata"]["annotations"]["yunikorn.apache.org/ignore-application"] == "true"
        assert json.loads(plain["metadata"]["annotations"][ANNOTATION])["user"] == "bob"


def test_without_the_setting_only_the_annotation_is_added(tmp_path: Path) -> None:
    with running_webhook(tmp_path) as webhook:
        pod = mutated(webhook, "team")
        assert pod["spec"] == POD["spec"]
        assert pod["metadata"].keys() == {"generateName", "annotations"}
