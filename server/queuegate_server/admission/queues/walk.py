"""Finds the names of queues in an object. Pure.

Labels and annotations are searched at every depth, because custom resources contain templates in
places that only their controllers know.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from queuegate.policy.names import CONTROL_CHARACTER
from queuegate_server.admission.queues.model import QueueName
from queuegate_server.admission.queues.places import (
    ANNOTATIONS,
    LABELS,
    KeyPlace,
    Kind,
    Places,
)

MAX_NODES: Final = 100_000
"""The maximum number of entries of maps and lists in an object."""
MAX_DEPTH: Final = 100
"""The maximum number of nested maps and lists."""
MAX_FOUND: Final = 1_000
"""The maximum number of names in an object, repetitions included."""
NOT_TEXT: Final = "{…}"
"""Stands for a map or a list in place of a name. No queue has this name."""
_MAX_WHERE: Final = 500
_SELECTORS: Final = ("selector", "Selector")
"""How the names of members end whose labels describe other objects. Metadata below them counts: in
some maps of templates, such as Kubeflow's `pytorchReplicaSpecs`, users choose the keys."""
_METADATA: Final = "metadata"
_METADATA_OF_PODS: Final = "Metadata"
"""How the names of members end that are the metadata of pods, such as Argo's `podMetadata`."""
_TEMPLATES: Final = ("template", "jobTemplate")
_CLAIMS: Final = frozenset({"volumeClaimTemplate", "volumeClaimTemplates"})
_MANAGED_FIELDS: Final = "managedFields"
_SPARK_GROUP: Final = "sparkoperator.k8s.io"
_SPARK_PODS: Final = frozenset({"driver", "executor"})
_SPARK_CONF: Final = "sparkConf"
_MAPS: Final = frozenset({LABELS, ANNOTATIONS, _SPARK_CONF})
"""Members whose entries may name queues."""
_SPARK_KEY: Final = re.compile(
    r"spark\.kubernetes\.(?:driver\.|executor\.)?(label|annotation)\.(.+)", re.DOTALL
)
"""A property of Spark that sets a label or annotation of a pod."""


class TooComplex(ValueError):
    """Raised for an object that is too large or too deep to be searched."""


class _Role(Enum):
    """What a map's labels and annotations belong to."""

    OTHER = auto()
    OBJECT = auto()
    """The object itself."""
    POD = auto()
    """Pods that may be created from a template."""
    OTHERS_LABELS = auto()
    """Other objects, which the map selects."""


class _Trail(NamedTuple):
    """The position of a node. It becomes text only if a name is found: the text of every node would
    fill the memory if long keys have many siblings below them.
    """

    above: "_Trail | None"
    step: str | int


class _Node(NamedTuple):
    value: object
    trail: _Trail | None
    depth: int
    role: _Role


def find_names(kind: Kind, value: Mapping[str, Any], places: Places) -> Iterator[QueueName]:
    """Yield the names of queues in an object: first those in fields, then those in labels and
    annotations.

    Args:
        kind: The object's group and kind.
        value: The object as JSON values.
        places: Where the schedulers read names.

    Raises:
        TooComplex: The object has more than MAX_NODES entries, MAX_DEPTH levels or MAX_FOUND names.
    """
    found = 0
    for search in (_in_fields, _in_keys):
        for name in search(kind, value, places):
            found += 1
            if found > MAX_FOUND:
                raise TooComplex(f"the object names queues in more than {MAX_FOUND} places")
            yield name


def _in_fields(kind: Kind, value: Mapping[str, Any], places: Places) -> Iterator[QueueName]:
    for place in places.fields.get(kind, ()):
        if place.scheduler_field:
            chosen = [text for text, _ in _fields(value, place.scheduler_field, None) if text]
            if chosen and place.scheduler not in chosen:
                continue
        for text, trail in _fields(value, place.path, None):
            if text:
                yield QueueName(
                    place.scheduler, text, _where(trail), place.access, place.is_cluster_queue
                )


def _fields(
    value: object, path: Sequence[str], trail: _Trail | None
) -> Iterator[tuple[str, _Trail | None]]:
    """Yield the texts at a path. Each item of a list counts."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            below = _Trail(trail, number)
            if isinstance(item, list):
                yield NOT_TEXT, below
            else:
                yield from _fields(item, path, below)
    elif not path:
        yield _text(value), trail
    elif isinstance(value, dict):
        yield from _fields(value.get(path[0]), path[1:], _Trail(trail, path[0]))


def _in_keys(kind: Kind, value: Mapping[str, Any], places: Places) -> Iterator[QueueName]:
    nodes = 0
    waiting = [_Node(value, None, 0, _Role.OTHER)]
    while waiting:
        node = waiting.pop()
        if node.depth > MAX_DEPTH:
            raise TooComplex(f"the object has more than {MAX_DEPTH} levels")
        if isinstance(node.value, dict):
            nodes += len(node.value)
            if not _MAPS.isdisjoint(node.value):
                yield from _in_map(kind, node, node.value, places)
            children = _members(kind, node, node.value)
        elif isinstance(node.value, list):
            nodes += len(node.value)
            children = _items(node, node.value)
        else:
            continue
        if nodes > MAX_NODES:
            raise TooComplex(f"the object has more than {MAX_NODES} entries")
        waiting.extend(reversed(children))


def _members(kind: Kind, node: _Node, members: Mapping[str, Any]) -> list[_Node]:
    children = []
    is_object = node.trail is None
    for name, child in members.items():
        if not isinstance(child, dict | list):
            continue
        role = _Role.OTHER
        if name == _METADATA:
            if is_object:
                role = _Role.OBJECT
            elif _may_be_of_pod(node, members):
                role = _Role.POD
        elif name.endswith(_METADATA_OF_PODS):
            role = _Role.POD
        elif name.endswith(_SELECTORS):
            role = _Role.OTHERS_LABELS
        elif name in _SPARK_PODS and kind[0] == _SPARK_GROUP:
            role = _Role.POD
        elif name == _MANAGED_FIELDS and node.role is _Role.OBJECT:
            continue  # large, and contains only names of fields
        children.append(_Node(child, _Trail(node.trail, name), node.depth + 1, role))
    return children


def _items(node: _Node, items: Sequence[Any]) -> list[_Node]:
    return [
        _Node(item, _Trail(node.trail, number), node.depth + 1, _Role.OTHER)
        for number, item in enumerate(items)
        if isinstance(item, dict | list)
    ]


def _may_be_of_pod(node: _Node, members: Mapping[str, Any]) -> bool:
    """Return whether metadata below the object's own may be that of a pod.

    It is not if it certainly belongs to a volume claim, or to a Job or another object with a
    template. Templates of pods have many names, and need not list containers.
    """
    spec = members.get("spec")
    if isinstance(spec, dict):
        if "containers" in spec:
            return True
        if any(isinstance(spec.get(name), dict) for name in _TEMPLATES):
            return False
    trail = node.trail
    if trail is not None and isinstance(trail.step, int):
        trail = trail.above
    return trail is None or trail.step not in _CLAIMS


def _in_map(
    kind: Kind, node: _Node, members: Mapping[str, Any], places: Places
) -> Iterator[QueueName]:
    for map_name in (LABELS, ANNOTATIONS):
        entries = members.get(map_name)
        if not isinstance(entries, dict) or node.role is _Role.OTHERS_LABELS:
            continue
        for key, found in places.keys[map_name].items():
            if entries.get(key):
                trail = _Trail(_Trail(node.trail, map_name), key)
                counting = [
                    place
                    for place in found
                    if _counts(place, kind, node.role) and not _is_overridden(place, members)
                ]
                yield from _named(entries[key], counting, trail, entries.items())
    properties = members.get(_SPARK_CONF)
    if isinstance(properties, dict):
        yield from _in_spark_conf(properties, _Trail(node.trail, _SPARK_CONF), places)


def _counts(place: KeyPlace, kind: Kind, role: _Role) -> bool:
    if place.in_pods and role is _Role.POD:
        return True
    if place.kinds is None:
        return role is _Role.OBJECT or not place.in_pods
    return role is _Role.OBJECT and kind in place.kinds


def _is_overridden(place: KeyPlace, members: Mapping[str, Any]) -> bool:
    """Return whether the scheduler ignores a key because another one beside it is set."""
    for map_name, key in place.overridden_by:
        entries = members.get(map_name)
        if isinstance(entries, dict) and entries.get(key):
            return True
    return False


def _in_spark_conf(
    properties: Mapping[str, Any], trail: _Trail, places: Places
) -> Iterator[QueueName]:
    matches = [(match, name) for name in properties if (match := _SPARK_KEY.fullmatch(name))]
    labels = [(match[2], properties[name]) for match, name in matches if match[1] == "label"]
    for match, name in matches:
        found = places.keys[f"{match[1]}s"].get(match[2], ())
        counting = [place for place in found if place.kinds is None or place.in_pods]
        yield from _named(properties[name], counting, _Trail(trail, name), labels)


def _named(
    value: object,
    places: Sequence[KeyPlace],
    trail: _Trail,
    beside: Iterable[tuple[str, object]],
) -> Iterator[QueueName]:
    """Yield the names in a value; `beside` are the keys and values in the same map."""
    text = _text(value)
    for place in places:
        names = text.split(place.separator) if place.separator else [text]
        if text and place.joined_label:
            # Which of the names is read depends on the scheduler's settings.
            joined = [_text(each) for key, each in beside if key == place.joined_label]
            names += [f"{text}-{each}" for each in joined if each]
        for name in names:
            if name:  # an empty value names no queue
                yield QueueName(
                    place.scheduler, name, _where(trail), place.access, is_read=place.is_read
                )


def _text(value: object) -> str:
    """Return a name. Other values are not ignored, because a controller may convert them."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return NOT_TEXT if isinstance(value, dict | list) else str(value).lower()


def _where(trail: _Trail | None) -> str:
    """Return a position as text, such as `spec.template.metadata.labels["queue"]`."""
    steps: list[str | int] = []
    while trail is not None:
        steps.append(trail.step)
        trail = trail.above
    text = ""
    above = ""
    for step in reversed(steps):
        if isinstance(step, int):
            text += f"[{step}]"
        elif above in (LABELS, ANNOTATIONS, _SPARK_CONF):
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
        above = str(step)
        if len(text) > _MAX_WHERE:
            text = f"{text[:_MAX_WHERE]}…"
            break
    return CONTROL_CHARACTER.sub("?", text)
