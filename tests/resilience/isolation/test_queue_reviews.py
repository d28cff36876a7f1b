"""A flood of reviews of queues is nobody else's outage, and occupies neither the webhook nor the
directory.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.promise import Observation, expect_isolation
from tests.resilience.isolation.webhook_floods import (
    MAX_NAMED,
    QUEUE,
    QUEUE_FLOODS,
    TEMPLATE,
    flooded,
    observed_webhook,
)
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.webhook import Webhook, running_webhook

SECONDS = 2.0
LOOKUP_SECONDS = 0.05


@pytest.fixture(scope="module")
def queue_webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """A webhook that does not verify its clients, and a directory that takes its time."""
    folder = tmp_path_factory.mktemp("webhook")
    directory = ScriptedDirectory(folder)
    directory.answer({"*": {"groups": ["others"], "seconds": LOOKUP_SECONDS}})
    queues = [{"name": f"q{number}", "submitacl": " staff"} for number in range(MAX_NAMED)]
    policy = {"partitions": [{"name": "default", "queues": [{"name": "root", "queues": queues}]}]}
    (folder / "queues.yaml").write_text(json.dumps(policy))
    settings = {
        "policy": {"path": str(folder / "queues.yaml")},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp"}},
        "admission": {"queues": {"mode": "deny", "schedulers": {"places": [{"label": QUEUE}]}}},
    }
    with running_webhook(
        folder,
        *("--config", settings_file(folder, settings)),
        environment=directory.environment,
    ) as webhook:
        yield webhook


@pytest.fixture(scope="module")
def beside(queue_webhook: Webhook) -> Iterator[Observation]:
    with observed_webhook(queue_webhook) as observation:
        yield observation


@pytest.mark.parametrize("flood", QUEUE_FLOODS)
def test_flood(queue_webhook: Webhook, beside: Observation, record: Record, flood: str) -> None:
    def act() -> None:
        with flooded(queue_webhook, flood):
            time.sleep(SECONDS)

    expect_isolation(beside, record, act)


def test_users_who_are_known_are_answered_beside_strangers(queue_webhook: Webhook) -> None:
    assert "bob may not submit to root.q0" in ask(queue_webhook, "bob")
    with flooded(queue_webhook, "strangers"):
        started = time.monotonic()
        for _ in range(20):
            assert "bob may not submit to root.q0" in ask(queue_webhook, "bob")
        # Far less than a lookup behind those of strangers would take.
        assert time.monotonic() - started < 20 * 0.5


def ask(webhook: Webhook, user: str) -> str:
    """Return why a user may not create an object that names a queue."""
    request: dict[str, Any] = {
        "uid": "u",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "dev",
        "userInfo": {"username": user},
        "object": json.loads(TEMPLATE % (QUEUE, 0)),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response = webhook.review("/queues", review)
    assert not response["allowed"]
    message: str = response["status"]["message"]
    return message
