"""Finds node pools that KAI joins with the project of another object. Pure.

KAI builds the name PROJECT-NODEPOOL from the label `project` of the pod's top owner, else of the
pod, and from the pod's node pool, unless one of the two has the label of a queue
(`CalcPodGroupQueue` in `default_grouper.go`). An object that has an owner, or a pod without a
project, does not say which project that will be. So a node pool is refused there, unless the pod
names its queue beside it. In an update, it is refused only if the node pool or an owner is new: the
garbage collector removes owners.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from queuegate_server.admission.queues.kinds import Kind
from queuegate_server.admission.queues.model import UNKNOWN_PROJECT, QueueName
from queuegate_server.admission.queues.places import PROJECT, SUBMIT
from queuegate_server.admission.queues.positions import LABELS, Trail, where
from queuegate_server.settings.admission import KaiScheduler

_POD: Final[Kind] = ("", "Pod")
_METADATA: Final = "metadata"
_SELECTORS: Final = ("selector", "Selector")


def unknown_projects(
    kind: Kind,
    value: Mapping[str, Any],
    kai: KaiScheduler | None,
    known_owners: Collection[str] = (),
) -> Iterator[QueueName | None]:
    """Yield a name for each node pool whose project is unknown, and None after other short steps.

    Args:
        kind: The object's group and kind.
        value: The object as JSON values. Its depth has been checked.
        kai: The settings of KAI; None if it is not listed.
        known_owners: The owners of the old object.
    """
    metadata = value.get(_METADATA)
    if kai is None or not kai.project_label or not isinstance(metadata, dict):
        return
    owners = metadata.get("ownerReferences")
    waiting: list[tuple[Any, Trail | None]]
    if kind == _POD:
        if not owners and _has(metadata, PROJECT):
            return
        waiting = [(metadata, Trail(None, _METADATA))]
    elif owners:
        # The object's own labels are not those of its pods.
        waiting = [(each, Trail(None, name)) for name, each in value.items() if name != _METADATA]
    else:
        return
    text = ",".join(sorted(owners_of(value).difference(known_owners)))
    while waiting:
        node, trail = waiting.pop()
        yield None
        if isinstance(node, list):
            waiting += [(each, Trail(trail, number)) for number, each in enumerate(node)]
        elif isinstance(node, dict):
            if _has(node, kai.node_pool_label) and not _has(node, kai.label):
                position = where(Trail(Trail(trail, LABELS), kai.node_pool_label))
                yield QueueName("kai", UNKNOWN_PROJECT, position, SUBMIT, is_read=False, text=text)
            waiting += [
                (child, Trail(trail, name))
                for name, child in node.items()
                if not name.endswith(_SELECTORS) and isinstance(child, dict | list)
            ]


def _has(node: Mapping[str, Any], key: str) -> bool:
    labels = node.get(LABELS)
    return isinstance(labels, dict) and bool(labels.get(key))


def owners_of(value: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the UIDs of an object's owners."""
    metadata = (value or {}).get(_METADATA)
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    items = owners if isinstance(owners, list) else []
    return frozenset(str(each.get("uid")) for each in items if isinstance(each, dict))
