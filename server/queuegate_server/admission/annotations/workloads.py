"""Locates pod metadata in workloads, and creates patches for the annotation. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from queuegate.user_info import ANNOTATION
from queuegate_server.admission.server.review import Patch

POD: Final = "Pod"
REPLICA_SET: Final = "ReplicaSet"
REVISION: Final = "ControllerRevision"
"""The kind that stores the template of a StatefulSet or DaemonSet, as a patch."""
_TEMPLATE: Final = ("spec", "template", "metadata")

METADATA: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        POD: ("metadata",),
        "Deployment": _TEMPLATE,
        "DaemonSet": _TEMPLATE,
        "StatefulSet": _TEMPLATE,
        REPLICA_SET: _TEMPLATE,
        "ReplicationController": _TEMPLATE,
        "Job": _TEMPLATE,
        "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
    }
)
"""The path to the pod metadata, by kind."""

APPLICATION_ID: Final = "yunikorn.apache.org/app-id"
"""The key of the application ID, both as a label and as an annotation."""
_APPLICATION_ID_LABELS: Final = (APPLICATION_ID, "applicationId", "spark-app-selector")


class UnreadableObject(ValueError):
    """The object does not match the schema of its kind; the message says where."""


@dataclass(frozen=True, slots=True)
class PodMetadata:
    """A pod's metadata, or the pod metadata in a workload's template."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    _parents: int
    """The number of path elements that already exist in the object."""
    _path: tuple[str, ...]

    @property
    def user_info(self) -> str | None:
        """The user info annotation; None if it is unset."""
        return self.annotations.get(ANNOTATION)

    @property
    def has_application_id(self) -> bool:
        """Whether the labels or annotations contain an application ID for YuniKorn's shim."""
        named = any(self.labels.get(key) for key in _APPLICATION_ID_LABELS)
        return named or bool(self.annotations.get(APPLICATION_ID))

    def patch(self, text: str) -> Patch:
        """Return a patch that sets the annotation.

        Its single operation also creates missing parent objects, because `add` would otherwise
        fail.
        """
        value: Mapping[str, Any] = {**self.annotations, ANNOTATION: text}
        steps = [*self._path, "annotations"]
        for step in reversed(steps[self._parents + 1 :]):
            value = {step: value}
        path = "".join(f"/{step}" for step in steps[: self._parents + 1])
        return ({"op": "add", "path": path, "value": value},)


def pod_metadata(kind: str, value: object) -> PodMetadata:
    """Return an object's pod metadata. `kind` must be in METADATA. Raises UnreadableObject."""
    if isinstance(value, UnreadableObject):
        raise value
    path = METADATA[kind]
    node = _mapping(value, f"the {kind}")
    parents = 0
    above = node
    for number, step in enumerate(path, start=1):
        above, below = node, node.get(step)
        node = _mapping({} if below is None else below, ".".join(path[:number]))
        if below is not None:
            parents = number
    where = ".".join(path)
    if above.get("spec") is not None:
        _mapping(above["spec"], ".".join((*path[:-1], "spec")))
    return PodMetadata(
        _strings(node.get("annotations"), f"{where}.annotations"),
        _strings(node.get("labels"), f"{where}.labels"),
        parents,
        path,
    )


def revision_values(value: object, keys: Collection[str]) -> tuple[tuple[str, object], ...]:
    """Return all members with the given keys, at any depth, in a ControllerRevision's data.

    The members' paths are not checked, because controllers ignore the case of path elements. Raises
    UnreadableObject.
    """
    if isinstance(value, UnreadableObject):
        raise value
    values: list[tuple[str, object]] = []
    nodes = [_mapping(value, f"the {REVISION}").get("data")]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            values += [(key, node[key]) for key in keys if key in node]
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node
    return tuple(values)


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableObject(f"{where} is missing or not a JSON object")
    return value


def _strings(value: object, where: str) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(
        text is None or isinstance(text, str) for text in value.values()
    ):
        raise UnreadableObject(f"{where} is not a map of strings to strings")
    # As in Go, null values become empty strings.
    return {key: text or "" for key, text in value.items()}
