"""The webhook with settings: it decides in its own process, with a policy that it follows."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.servers.webhook import Webhook, running_webhook

POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: dev
            submitacl: alice,system:serviceaccount:ci:runner
          - name: prod
            submitacl: bob
"""
DEV_FOR_BOB = POLICY.replace("alice", "bob,alice")
TWO_OF_ONE_NAME = POLICY + "            queues: [{name: dev}]\n"
SETTINGS: Mapping[str, Any] = {"mode": "deny", "schedulers": {"volcano": {}}}
JOB = {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"}


def review(user: str, queue: str = "dev") -> dict[str, Any]:
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"queue": queue},
    }
    request = {
        "uid": "1",
        "kind": JOB,
        "resource": {"group": JOB["group"], "version": JOB["version"], "resource": "jobs"},
        "namespace": "team",
        "name": "train",
        "operation": "CREATE",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": job,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def write_settings(folder: Path, queues: Mapping[str, Any] | None = None, **others: Any) -> Path:
    """Write queuegate.yaml (JSON is YAML) and, unless it exists, the policy."""
    policy = folder / "queues.yaml"
    if not policy.exists():
        policy.write_text(POLICY)
    settings = {
        "policy": {"path": str(policy)},
        "admission": {"queues": {**SETTINGS, **(queues or {})}},
        **others,
    }
    file = folder / "queuegate.yaml"
    replace(file, json.dumps(settings))
    return file


@contextmanager
def webhook_of(folder: Path, *arguments: str, **settings: Any) -> Iterator[Webhook]:
    file = write_settings(folder, **settings)
    with running_webhook(folder, "--config", str(file), *arguments) as webhook:
        yield webhook


def allowed(webhook: Webhook, user: str, queue: str = "dev") -> bool:
    answer: bool = webhook.review("/queues", review(user, queue))["allowed"]
    return answer


def test_the_policy_is_followed(tmp_path: Path) -> None:
    """A changed file is applied, and one that cannot be used leaves the last good one in use."""
    with webhook_of(tmp_path) as webhook:
        assert allowed(webhook, "alice")
        # Service accounts may be listed without a setting, because YuniKorn does not read the file.
        assert allowed(webhook, "system:serviceaccount:ci:runner")
        assert not allowed(webhook, "bob")
        assert not allowed(webhook, "alice", "unheard-of")
        policy = tmp_path / "queues.yaml"
        replace(policy, TWO_OF_ONE_NAME)
        found = webhook.server.wait_for_log("policy diagnostic")["diagnostic"]
        assert "dev may be root.dev or root.prod.dev" in found
        assert not allowed(webhook, "bob")
        assert webhook.metric("queuegate_policy_last_reload_successful") == 0
        assert webhook.plain.get("/readyz").status_code == 200
        replace(policy, DEV_FOR_BOB)
        eventually(lambda: allowed(webhook, "bob"), True)
        assert webhook.metric("queuegate_policy_last_reload_successful") == 1
        assert webhook.metric("queuegate_ready") == 1
        # Annotations are written as without settings.
        assert webhook.review("/mutate", review("alice"))["allowed"]
        assert webhook.server.stop() == 0
