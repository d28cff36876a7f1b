"""Placeholders of YuniKorn's gang scheduling, as its shim creates them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kube.cluster import YUNIKORN_SCHEDULER, ApiServer
from tests.e2e.kube.queue_checks import checked
from tests.e2e.kube.reviews import PODS, created, make_namespaces, refusal
from tests.support.rows import rows, table

pytestmark = pytest.mark.timeout(600)
QUEUE = "yunikorn.apache.org/queue"
PLACEHOLDER = "internal.yunikorn.apache.org/placeholder"
DRY = "?dryRun=All"


@pytest.fixture(scope="module", autouse=True)
def webhook(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    make_namespaces(cluster)
    schedulers: dict[str, Any] = {"yunikorn": {}, "kueue": {}}
    with checked(cluster, tmp_path_factory.mktemp("webhook"), schedulers=schedulers):
        yield


def driver(queue: str) -> Any:
    """Return the pod with which a user starts an application that has a task group."""
    return named("DRIVER", queue)


def placeholder(
    queue: str, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> Any:
    """Return what `newPlaceholder` makes (k8shim 1.9.0, pkg/cache/placeholder.go).

    Args:
        queue: The queue of the application.
        labels: Those that the user gave the task group.
        annotations: Those that the user gave the task group.
    """
    pod = named("PLACEHOLDER", queue)
    metadata = pod["metadata"]
    metadata["labels"] = {**(labels or {}), **metadata["labels"]}
    metadata["annotations"] = {**(annotations or {}), **metadata["annotations"]}
    return pod


def named(name: str, queue: str) -> Any:
    """Return an object of the tables with the name of a queue."""
    return json.loads(json.dumps(table(__file__, name)).replace('"QUEUE"', json.dumps(queue)))


def test_a_gang(cluster: ApiServer) -> None:
    """The user is checked for the application's first pod, and the scheduler fills the gang."""
    refused = cluster.ask("bob", "POST", f"{PODS}{DRY}", driver("root.closed"))
    assert "bob may not submit to root.closed" in refusal(refused)
    created(cluster.ask("bob", "POST", PODS, driver("root.open")))
    made = created(cluster.ask(YUNIKORN_SCHEDULER, "POST", PODS, placeholder("root.open")))
    assert made["metadata"]["labels"][QUEUE] == "root.open"
    # It replaces a placeholder with a pod of the user, and marks pods.
    path = f"{PODS}/{made['metadata']['name']}"
    marked = {"metadata": {"annotations": {"example.com/seen": "1"}}}
    created(cluster.ask(YUNIKORN_SCHEDULER, "PATCH", path, marked, "merge-patch+json"))
    created(cluster.ask(YUNIKORN_SCHEDULER, "DELETE", path))


@rows
def test_what_does_not_pass(
    cluster: ApiServer,
    user: str,
    labels: dict[str, str],
    annotations: dict[str, str],
    queue: str,
) -> None:
    """A user's own placeholder, and names that a task group adds to those of the scheduler."""
    own = "root.closed" if user == "bob" else "root.open"
    thing = placeholder(own, labels, annotations)
    message = refusal(cluster.ask(user, "POST", f"{PODS}{DRY}", thing))
    assert f"{user} may not submit to {queue}" in message


def test_a_placeholder_before_1_6(cluster: ApiServer) -> None:
    """The keys of `newPlaceholder` in k8shim 1.5.2."""
    thing = placeholder("root.open")
    thing["metadata"]["labels"] = {"applicationId": "app", "queue": "root.open"}
    del thing["metadata"]["annotations"][PLACEHOLDER]
    thing["metadata"]["annotations"]["yunikorn.apache.org/placeholder"] = "true"
    path = f"{PODS}{DRY}"
    created(cluster.ask(YUNIKORN_SCHEDULER, "POST", path, thing))
    thing["metadata"]["labels"]["queue"] = "root.closed"
    assert "bob may not submit to root.closed" in refusal(cluster.ask("bob", "POST", path, thing))
    thing["metadata"]["labels"][QUEUE] = "root.closed"  # as a task group would add it
    refusal(cluster.ask(YUNIKORN_SCHEDULER, "POST", path, thing))


def test_other_requests_of_the_scheduler(cluster: ApiServer) -> None:
    plain = placeholder("root.open")
    del plain["metadata"]["annotations"][PLACEHOLDER]
    refusal(cluster.ask(YUNIKORN_SCHEDULER, "POST", f"{PODS}{DRY}", plain))
    created(cluster.ask(YUNIKORN_SCHEDULER, "POST", PODS, placeholder("root.open")))
    path = f"{PODS}/tg-app-tg-1"
    moved = {"metadata": {"labels": {QUEUE: "root.closed"}}}
    refusal(cluster.ask(YUNIKORN_SCHEDULER, "PATCH", path, moved, "merge-patch+json"))
    impersonating = cluster.ask(
        "bob", "POST", f"{PODS}{DRY}", placeholder("root.closed"), impersonated="alice2"
    )
    assert "alice2 may not submit to root.closed" in refusal(impersonating)
    created(cluster.ask(YUNIKORN_SCHEDULER, "DELETE", path))
