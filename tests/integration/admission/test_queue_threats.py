"""Attacks on the checks of queues, and the ways around them that the threat model names."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.admission_reviews import admission_review
from tests.support.rows import rows, table
from tests.support.servers.webhook import Webhook, running_webhook

POLICY: str = table(__file__, "POLICY")
KEY = "yunikorn.apache.org/queue"
OPERATOR = "system:serviceaccount:operators:operator"


def review(user: str, metadata: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a review of a new custom resource that no rule lists."""
    thing = {"apiVersion": "example.com/v1", "kind": "Training", "metadata": metadata, **spec}
    return admission_review(user, thing, groups=["operators"])


@contextmanager
def checking(folder: Path, **queues: Any) -> Iterator[Webhook]:
    """Run a webhook with an audit log that denies what the policy does not allow."""
    policy, settings = folder / "queues.yaml", folder / "queuegate.yaml"
    policy.write_text(POLICY)
    checks = {"mode": "deny", "schedulers": {"yunikorn": {}}, **queues}
    content = {
        "policy": {"path": str(policy)},
        "partitions": {"default": {"acl_names": "any"}},
        "admission": {"queues": checks},
        "audit": {"path": str(folder / "audit.log")},
    }
    settings.write_text(json.dumps(content))
    with running_webhook(folder, "--config", str(settings)) as webhook:
        yield webhook


def test_strangers_learn_nothing_about_other_queues(tmp_path: Path) -> None:
    """Anyone who reaches the port may post a review in alice's name."""
    with checking(tmp_path) as webhook:
        answer = webhook.review("/queues", review("alice", {"labels": {KEY: "prod"}}))
        assert not answer["allowed"]
        message = answer["status"]["message"]
        assert message.startswith("alice may not submit to root.prod")
        assert "root.dev" not in message
        assert "operators" not in message
        record = json.loads((tmp_path / "audit.log").read_text())
        assert record["unverified"] is True
        assert (record["user"], record["queue"]) == ("alice", "root.prod")


@pytest.mark.parametrize("mode", ["deny", "warn"])
def test_an_object_that_is_too_large_to_be_searched_is_no_way_around(
    tmp_path: Path, mode: str
) -> None:
    """kubectl shows the reason, which it would not for an HTTP error."""
    hidden = {"template": {"metadata": {"labels": {KEY: "prod"}}}}
    spec = {"args": [0] * 200_000, **hidden}
    reason = "the object has more than 100000 entries"
    with checking(tmp_path, mode=mode) as webhook:
        answer = webhook.review("/queues", review("alice", {}, spec=spec))
    if mode == "deny":
        assert not answer["allowed"]
        assert answer["status"]["message"] == reason
    else:
        assert answer["allowed"]
        assert answer["warnings"] == [reason]
    record = json.loads((tmp_path / "audit.log").read_text())
    assert (record["user"], record["reason"]) == ("alice", "invalid_field")


@rows
def test_only_listed_controllers_are_trusted(tmp_path: Path, user: str, is_trusted: bool) -> None:
    with checking(tmp_path, controllers=[f"^{OPERATOR}$"]) as webhook:
        answer = webhook.review("/queues", review(user, {"labels": {KEY: "prod"}}))
        assert answer["allowed"] == is_trusted


@pytest.mark.parametrize(("groups", "allowed"), [("directory", False), ("kubernetes", True)])
def test_owner_references_and_asserted_groups_open_nothing(
    tmp_path: Path, groups: str, allowed: bool
) -> None:
    """Anyone can write an owner reference. Groups in a request count only by setting."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    metadata = {"labels": {KEY: "prod"}, "ownerReferences": [owner]}
    with checking(tmp_path, groups=groups) as webhook:
        assert webhook.review("/queues", review("carol", metadata))["allowed"] == allowed


def test_a_name_in_a_template_of_any_kind_is_found(tmp_path: Path) -> None:
    template = {"metadata": {"annotations": {KEY: "prod"}}}
    with checking(tmp_path) as webhook:
        nested = review("alice", {}, spec={"groups": [{"template": template}]})
        answer = webhook.review("/queues", nested)
        assert not answer["allowed"]
        where = f'spec.groups[0].template.metadata.annotations["{KEY}"]'
        assert where in answer["status"]["message"]


def test_an_object_inside_another_is_checked_like_one_of_its_kind(tmp_path: Path) -> None:
    options = {"batchScheduler": "yunikorn", "batchSchedulerOptions": {"queue": "prod"}}
    application = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication"}
    components = [{"template": {**application, "spec": options}}]
    with checking(tmp_path) as webhook:
        answer = webhook.review("/queues", review("alice", {}, spec={"components": components}))
        assert not answer["allowed"]
        where = "spec.components[0].template.spec.batchSchedulerOptions.queue"
        assert f"root.prod (set in {where})" in answer["status"]["message"]
        labels = {"labelsFrom": {KEY: {"expression": "workflow.parameters.queue"}}}
        answer = webhook.review("/queues", review("bob", {}, spec={"workflowMetadata": labels}))
        assert "the key or the value is an expression" in answer["status"]["message"]


def test_ways_that_remain(tmp_path: Path) -> None:
    """Joining an application, and a name inside a string, name no queue."""
    manifest = json.dumps({"metadata": {"labels": {KEY: "prod"}}})
    with checking(tmp_path) as webhook:
        joining = review("alice", {"labels": {"applicationId": "of-bob"}})
        assert webhook.review("/queues", joining)["allowed"]
        hidden = review("alice", {}, spec={"manifest": manifest})
        assert webhook.review("/queues", hidden)["allowed"]


def test_warn_mode_refuses_nothing_and_counts(tmp_path: Path) -> None:
    with checking(tmp_path, mode="warn") as webhook:
        answer = webhook.review("/queues", review("alice", {"labels": {KEY: "prod"}}))
        assert answer["allowed"]
        (warning,) = answer["warnings"]
        assert warning.startswith("alice may not submit to root.prod")
        name = "queuegate_admission_queue_decisions_total"
        labels = 'mode="warn",outcome="denied",scheduler="yunikorn"'
        assert webhook.metric(name, labels) == 1
        assert json.loads((tmp_path / "audit.log").read_text())["mode"] == "warn"
