"""Placeholders of YuniKorn's gang scheduling. Pure.

The scheduler creates a placeholder for each member of a task group with its own account, and
labels it with the queue of the application (`newPlaceholder` in k8shim's
`pkg/cache/placeholder.go`). It took that queue from the pod that started the application, whose
creator was checked.

All other labels and annotations of a placeholder come from the annotation
`yunikorn.apache.org/task-groups` of that pod. They are text there, which nobody has checked, so the
names in them are checked as the scheduler's.
"""

from collections.abc import Iterable
from typing import Final

from queuegate_server.admission.queues.model import QueueName, QueueReview
from queuegate_server.settings.admission import YUNIKORN, QueueChecks

FLAGS: Final = (
    "internal.yunikorn.apache.org/placeholder",
    "yunikorn.apache.org/placeholder",
)
"""The annotations with which YuniKorn marks placeholders: since 1.6, and before."""
_TRUE: Final = "true"
_QUEUE: Final = 'metadata.labels["yunikorn.apache.org/queue"]'


def is_placeholder(review: QueueReview, settings: QueueChecks) -> bool:
    """Return whether YuniKorn's scheduler creates a placeholder.

    The annotation alone proves nothing, because everybody can write it.
    """
    yunikorn = settings.schedulers.yunikorn
    if yunikorn is None or not yunikorn.placeholder_account:
        return False
    return (
        review.user == yunikorn.placeholder_account
        and review.operation == "CREATE"
        and (review.group, review.kind, review.subresource) == ("", "Pod", "")
        and _is_marked(review)
    )


def without_queue_of_application(found: Iterable[QueueName]) -> list[QueueName]:
    """Return the names in a placeholder, without the one that the scheduler wrote."""
    return [each for each in found if (each.scheduler, each.where) != (YUNIKORN, _QUEUE)]


def _is_marked(review: QueueReview) -> bool:
    metadata = (review.new or {}).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and any(annotations.get(key) == _TRUE for key in FLAGS)
