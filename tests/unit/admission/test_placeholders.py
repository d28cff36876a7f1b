"""Placeholders of YuniKorn's gang scheduling, created with the scheduler's account."""

from typing import Any

import pytest

from queuegate_server.admission.queues.placeholders import QUEUES
from tests.support.queue_reviews import Reviewing
from tests.support.rows import rows

SCHEDULER = "system:serviceaccount:yunikorn:yunikorn-admin"
QUEUE = "yunikorn.apache.org/queue"
KUEUE = "kueue.x-k8s.io/queue-name"
FLAG, OLD_FLAG = QUEUES
MARK = {FLAG: "true"}
SCHEDULERS: dict[str, Any] = {"yunikorn": {}, "kueue": {}}
pytestmark = pytest.mark.usefixtures("no_task_left")


def placeholder(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a pod as k8shim's `newPlaceholder` makes it, with what a task group adds."""
    return {
        "metadata": {
            "name": "tg-app-1",
            "labels": {**(labels or {}), QUEUE: "root.prod", "yunikorn.apache.org/app-id": "app"},
            "annotations": {
                **(annotations or {}),
                **MARK,
                "yunikorn.apache.org/task-group-name": "workers",
            },
        },
        "spec": {"schedulerName": "yunikorn", **spec},
    }


async def is_allowed(
    new: dict[str, Any],
    user: str = SCHEDULER,
    *,
    kind: tuple[str, str] = ("", "Pod"),
    schedulers: dict[str, Any] = SCHEDULERS,
    unqueued: str = "allow",
    **request: Any,
) -> bool:
    reviewing = Reviewing(schedulers=schedulers, unqueued=unqueued)
    response = await reviewing.review(user, object=new, kind=kind, **request)
    return response.allowed


def old_placeholder(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return a pod as `newPlaceholder` made it before 1.6 (k8shim 1.5.2)."""
    new = placeholder()
    new["metadata"]["labels"] = {**(labels or {}), "queue": "root.prod", "applicationId": "app"}
    new["metadata"]["annotations"] = {
        **(annotations or {}),
        OLD_FLAG: "true",
        "yunikorn.apache.org/task-group-name": "workers",
    }
    return new


@pytest.mark.parametrize("new", [placeholder(), old_placeholder()])
async def test_the_scheduler_creates_placeholders_in_the_queue_of_their_application(
    new: dict[str, Any],
) -> None:
    assert await is_allowed(new)
    assert not await is_allowed(new, "eve")


async def test_what_a_task_group_adds_is_checked_before_1_6() -> None:
    """Whichever annotation it adds, no name of its own passes."""
    assert not await is_allowed(old_placeholder({QUEUE: "root.prod"}))
    assert not await is_allowed(old_placeholder({KUEUE: "closed"}))
    assert not await is_allowed(old_placeholder(annotations={QUEUE: "root.prod"}))
    both = placeholder({"queue": "root.prod"}, {OLD_FLAG: "true"})
    assert await is_allowed(both)  # YuniKorn reads its own label, and ignores the other one
    both["metadata"]["labels"][QUEUE] = ""
    assert not await is_allowed(both)
    assert not await is_allowed(old_placeholder(annotations={FLAG: "true"}))


@rows
async def test_only_one_account_creates_them(
    user: str, account: str | None, *, allowed: bool
) -> None:
    yunikorn = {} if account is None else {"placeholder_account": account}
    assert await is_allowed(placeholder(), user, schedulers={"yunikorn": yunikorn}) is allowed


@pytest.mark.parametrize(
    "annotations",
    [{}, {FLAG: "false"}, {FLAG: ""}, {FLAG: True}, {"placeholder": "true"}, None, []],
)
async def test_other_pods_of_the_scheduler_are_checked(annotations: Any) -> None:
    new = placeholder()
    new["metadata"]["annotations"] = annotations
    assert not await is_allowed(new)


@rows
async def test_what_a_task_group_adds_is_checked(
    labels: dict[str, str], annotations: dict[str, str], spec: dict[str, Any]
) -> None:
    """It is text of a user, which nobody has checked."""
    assert not await is_allowed(placeholder(labels, annotations, **spec))


async def test_nothing_else_passes_with_the_annotation() -> None:
    new, old = placeholder(), placeholder()
    old["metadata"]["labels"][QUEUE] = "root.dev"
    assert not await is_allowed(new, operation="UPDATE", oldObject=old)
    assert not await is_allowed(new, kind=("apps", "ReplicaSet"))
    assert not await is_allowed(new, kind=("", "Binding"), subResource="binding")
    # Anybody can write a reference to an owner.
    new["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "driver", "uid": "u"}]
    assert not await is_allowed(new, "eve")


async def test_a_placeholder_of_an_application_without_a_queue() -> None:
    """Whoever started the application was asked about `unqueued`."""
    new = placeholder()
    new["metadata"]["labels"][QUEUE] = ""
    assert await is_allowed(new, unqueued="root.prod")
    assert not await is_allowed(new, "eve", unqueued="root.prod")


async def test_without_yunikorn_there_are_no_placeholders() -> None:
    new = placeholder({KUEUE: "closed"})
    assert not await is_allowed(new, schedulers={"kueue": {}})
