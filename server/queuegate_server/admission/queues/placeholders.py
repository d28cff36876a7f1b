"""Recognizes the placeholder pods that YuniKorn creates for gang scheduling. Pure.

For each member of a task group, the scheduler creates a placeholder under its own account, and
labels it with the application's queue (`newPlaceholder` in k8shim's `pkg/cache/placeholder.go`;
YUNIKORN-2503 and YUNIKORN-2504 changed the keys in 1.6). That queue comes from the pod that started
the application, whose creator was checked.

All other labels and annotations of a placeholder come from that pod's annotation
`yunikorn.apache.org/task-groups`. There, they are text that nobody has checked, so the names in
them are checked as if the scheduler itself had chosen them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from queuegate_server.admission.queues.model import QueueName, QueueReview
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.queue_schedulers import YUNIKORN

QUEUES: Final[Mapping[str, str]] = {
    "internal.yunikorn.apache.org/placeholder": "yunikorn.apache.org/queue",
    "yunikorn.apache.org/placeholder": "queue",
}
"""The annotations that mark placeholders in YuniKorn since 1.6 and before 1.6, each with the label
for the application's queue. If a pod has both, the first applies, because a task group may add the
other annotation.
"""
_TRUE: Final = "true"


def is_placeholder(review: QueueReview, settings: QueueChecks) -> bool:
    """Return whether YuniKorn's scheduler creates a placeholder.

    The annotation alone proves nothing, because anyone can write it.
    """
    yunikorn = settings.schedulers.yunikorn
    if yunikorn is None or not yunikorn.placeholder_account:
        return False
    return (
        review.user == yunikorn.placeholder_account
        and review.operation == "CREATE"
        and (review.group, review.kind, review.subresource) == ("", "Pod", "")
        and bool(_label_of_queue(review))
    )


def without_queue_of_application(
    review: QueueReview, found: Iterable[QueueName]
) -> list[QueueName]:
    """Return the names in a placeholder, except the name that the scheduler wrote."""
    written = f'metadata.labels["{_label_of_queue(review)}"]'
    return [each for each in found if (each.scheduler, each.where) != (YUNIKORN, written)]


def _label_of_queue(review: QueueReview) -> str:
    """Return the label that contains the queue of a placeholder's application; empty for other
    pods.
    """
    metadata = (review.new or {}).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict):
        return ""
    return next((key for flag, key in QUEUES.items() if annotations.get(flag) == _TRUE), "")
