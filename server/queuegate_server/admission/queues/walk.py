"""Finds the names of queues in an object. Pure.

Labels and annotations are searched at every depth, because custom resources contain templates in
places that only their controllers know. Fields are searched in the object and in all objects
within it, such as the components of an AppWrapper.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from queuegate.policy.decision import Access
from queuegate.policy.names import CONTROL_CHARACTER
from queuegate_server.admission.queues.model import EXPRESSION, NOT_TEXT, QueueName
from queuegate_server.admission.queues.places import (
    ANNOTATIONS,
    LABELS,
    KeyPlace,
    Kind,
    Places,
)
from queuegate_server.admission.queues.roles import (
    METADATA,
    WITHIN,
    Role,
    embedded_kind,
    is_spark,
    role_of,
    role_of_items,
)

MAX_DEPTH: Final = 100
"""The maximum number of nested maps and lists."""
MAX_FOUND: Final = 1_000
"""The maximum number of names in an object, repetitions included."""
_MAX_WHERE: Final = 500
_MANAGED_FIELDS: Final = "managedFields"
_EXPRESSION_START: Final = "{{"
_LABELS_FROM: Final = "labelsFrom"
"""Argo's `workflowMetadata.labelsFrom`, labels whose values are expressions."""
_SPARK_CONF: Final = "sparkConf"
_MAPS: Final = frozenset({LABELS, ANNOTATIONS, _LABELS_FROM, _SPARK_CONF})
"""Members whose entries may name queues."""
_SPARK_KEY: Final = re.compile(
    r"spark\.kubernetes\.(?:driver\.|executor\.)?(label|annotation)\.(.+)", re.DOTALL
)
"""A property of Spark that sets a label or annotation of a pod."""


class TooComplex(ValueError):
    """Raised for an object that is too large or too deep to be searched."""


class _Trail(NamedTuple):
    """The position of a node. It becomes text only if a name is found: the text of every node would
    fill the memory if long keys have many siblings below them.
    """

    above: "_Trail | None"
    step: str | int


class _Node(NamedTuple):
    value: Mapping[str, Any] | list[Any]
    trail: _Trail | None
    depth: int
    role: Role
    kind: Kind | None
    """The kind of the object whose metadata the node is, if it is known."""
    in_spark: bool
    """Whether the node is in an object of the Spark operator."""


class _Joins(NamedTuple):
    """Names that are joined with labels, which may stand elsewhere in the object."""

    names: list[tuple[QueueName, str]]
    """The names, each with the label with which it is joined."""
    labels: dict[str, dict[str, None]]
    """The values of each label, in the order of the search."""


def find_names(kind: Kind, value: Mapping[str, Any], places: Places) -> Iterator[QueueName | None]:
    """Yield the names of queues in an object, those in its own fields first.

    Yield None after each short step without a name, so that the caller can pause a long search.

    Args:
        kind: The object's group and kind.
        value: The object as JSON values.
        places: Where the schedulers read names.

    Raises:
        TooComplex: The object has more than MAX_DEPTH levels or MAX_FOUND names.
    """
    joins = _Joins([], {})
    found = 0
    for names in (_search(kind, value, places, joins), _joined(joins)):
        for name in names:
            found += name is not None
            if found > MAX_FOUND:
                raise TooComplex(f"the object names queues in more than {MAX_FOUND} places")
            yield name


def _search(
    kind: Kind, value: Mapping[str, Any], places: Places, joins: _Joins
) -> Iterator[QueueName | None]:
    within = WITHIN.get(kind)
    # Iterators take less memory than the nodes themselves, and garbage collection visits each node.
    waiting = [iter([_Node(value, None, 0, Role.OTHER, None, is_spark(kind))])]
    while waiting:
        node = next(waiting[-1], None)
        yield None
        if node is None:
            waiting.pop()
            continue
        if node.depth > MAX_DEPTH:
            raise TooComplex(f"the object has more than {MAX_DEPTH} levels")
        if isinstance(node.value, list):
            waiting.append(_items(node, node.value))
            continue
        of_object = kind if node.trail is None else embedded_kind(node.value)
        if of_object is not None:
            yield from _in_fields(of_object, node, places)
        if not _MAPS.isdisjoint(node.value):
            yield from _in_maps(node, node.value, places, joins)
        is_object = node.trail is None or (within is not None and _levels(node.trail) == within)
        waiting.append(_members(of_object, node, node.value, is_object=is_object))


def _in_fields(kind: Kind, node: _Node, places: Places) -> Iterator[QueueName | None]:
    for place in places.fields.get(kind, ()):
        scheduler_field = ""
        if place.scheduler_field:
            chosen = {""}
            for text, _ in _fields(node.value, place.scheduler_field, None):
                chosen.add(text)
                yield None
            if len(chosen) == 1:
                scheduler_field = _where(
                    functools.reduce(_Trail, place.scheduler_field, node.trail)
                )
            elif place.scheduler not in chosen:
                continue
        for text, trail in _fields(node.value, place.path, node.trail):
            if text:
                yield QueueName(
                    place.scheduler,
                    text,
                    _where(trail),
                    place.access,
                    place.is_cluster_queue,
                    scheduler_field=scheduler_field,
                )
            else:
                yield None


def _fields(
    value: object, path: Sequence[str], trail: _Trail | None
) -> Iterator[tuple[str, _Trail | None]]:
    """Yield the texts at a path. Each item of a list counts. Also yield an empty text per item."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            below = _Trail(trail, number)
            yield "", below
            if isinstance(item, list):
                yield NOT_TEXT, below
            else:
                yield from _fields(item, path, below)
    elif not path:
        yield _text(value), trail
    elif isinstance(value, dict):
        yield from _fields(value.get(path[0]), path[1:], _Trail(trail, path[0]))


def _members(
    kind: Kind | None, node: _Node, members: Mapping[str, Any], *, is_object: bool
) -> Iterator[_Node]:
    """Yield the members of a map that may contain names; `kind` is what it claims to be."""
    in_spark = node.in_spark or is_spark(kind)
    above = _name_of(node.trail)
    for name, child in members.items():
        if not isinstance(child, dict | list):
            continue
        if name == _MANAGED_FIELDS and node.role is Role.OBJECT:
            continue  # large, and contains only names of fields
        role = role_of(name, members, kind, above, is_object=is_object, in_spark=in_spark)
        of_object = kind if name == METADATA else None
        trail = _Trail(node.trail, name)
        yield _Node(child, trail, node.depth + 1, role, of_object, in_spark)


def _items(node: _Node, items: Sequence[Any]) -> Iterator[_Node]:
    role = role_of_items(_name_of(node.trail))
    for number, item in enumerate(items):
        if isinstance(item, dict | list):
            trail = _Trail(node.trail, number)
            yield _Node(item, trail, node.depth + 1, role, None, node.in_spark)


def _levels(trail: _Trail | None) -> tuple[str, ...]:
    """Return the names of the members from the object to a node."""
    names: list[str] = []
    while trail is not None:
        if isinstance(trail.step, str):
            names.append(trail.step)
        trail = trail.above
    return tuple(reversed(names))


def _name_of(trail: _Trail | None) -> str:
    """Return the name of the member that a node is, or an item of which it is."""
    if trail is not None and isinstance(trail.step, int):
        trail = trail.above
    return str(trail.step) if trail is not None else ""


def _in_maps(
    node: _Node, members: Mapping[str, Any], places: Places, joins: _Joins
) -> Iterator[QueueName | None]:
    """Yield the names in the labels, annotations and properties of a map."""
    for map_name in (LABELS, ANNOTATIONS, _LABELS_FROM):
        entries = members.get(map_name)
        if not isinstance(entries, dict) or node.role is Role.OTHERS_LABELS:
            continue
        is_expression = map_name == _LABELS_FROM
        places_by_key = places.keys[LABELS if is_expression else map_name]
        for key, found in places_by_key.items():
            if entries.get(key):
                trail = _Trail(_Trail(node.trail, map_name), key)
                text = EXPRESSION if is_expression else _text(entries[key])
                for place in found:
                    if _counts(place, node) and not _is_overridden(place, members):
                        is_read = _is_read(place, node)
                        yield from _named(text, place, trail, joins, is_read=is_read)
        keys = [key for key in entries if _EXPRESSION_START in key]
        if keys:
            above = _Trail(node.trail, map_name)
            yield from _with_expressions(keys, above, node, places_by_key)
        if map_name == LABELS and node.role is not Role.OTHER:
            _note_labels(entries, places, joins)
    properties = members.get(_SPARK_CONF)
    if isinstance(properties, dict):
        yield from _in_spark_conf(properties, _Trail(node.trail, _SPARK_CONF), places, joins)


def _with_expressions(
    keys: Sequence[str],
    above: _Trail,
    node: _Node,
    places_by_key: Mapping[str, Sequence[KeyPlace]],
) -> Iterator[QueueName]:
    """Yield a name for each key with an expression and each scheduler that may read the result.

    Argo substitutes the expressions in a whole template, keys included.
    """
    readers = dict.fromkeys(
        place.scheduler
        for found in places_by_key.values()
        for place in found
        if _counts(place, node)
    )
    for key in keys:
        for scheduler in readers:
            yield QueueName(scheduler, EXPRESSION, _where(_Trail(above, key)), Access.SUBMIT)


def _counts(place: KeyPlace, node: _Node) -> bool:
    if place.in_pods and node.role is Role.POD:
        return True
    if place.kinds is not None:
        return node.kind is not None and node.kind in place.kinds
    return not place.in_pods or node.role in {Role.OBJECT, Role.OWNER}


def _is_read(place: KeyPlace, node: _Node) -> bool:
    """Return whether the scheduler reads a key in a map."""
    if node.role is Role.OTHER or node.kind in place.ignored_in:
        return False
    return place.is_read and (place.is_read_in_templates or node.role is not Role.POD)


def _is_overridden(place: KeyPlace, members: Mapping[str, Any]) -> bool:
    """Return whether the scheduler ignores a key because another one beside it is set."""
    for map_name, key in place.overridden_by:
        entries = members.get(map_name)
        if isinstance(entries, dict) and entries.get(key):
            return True
    return False


def _in_spark_conf(
    properties: Mapping[str, Any], trail: _Trail, places: Places, joins: _Joins
) -> Iterator[QueueName | None]:
    labels = {}
    for name, value in properties.items():
        yield None
        match = _SPARK_KEY.fullmatch(name)
        if match is None:
            continue
        map_name, key = f"{match[1]}s", match[2]
        if map_name == LABELS:
            labels[key] = value
        for place in places.keys[map_name].get(key, ()):
            if place.kinds is None or place.in_pods:
                position = _Trail(trail, name)
                yield from _named(_text(value), place, position, joins, is_read=place.is_read)
    _note_labels(labels, places, joins)


def _note_labels(labels: Mapping[str, Any], places: Places, joins: _Joins) -> None:
    """Note the labels with which names are joined."""
    for key in places.joined_labels:
        text = _text(labels.get(key))
        if text:
            joins.labels.setdefault(key, {})[text] = None


def _named(
    text: str, place: KeyPlace, trail: _Trail, joins: _Joins, *, is_read: bool
) -> Iterator[QueueName]:
    """Yield the names in a value."""
    for name in text.split(place.separator) if place.separator else [text]:
        if name:  # an empty value names no queue
            found = QueueName(place.scheduler, name, _where(trail), place.access, is_read=is_read)
            yield found
            if place.joined_label and name != EXPRESSION:
                joins.names.append((found, place.joined_label))


def _joined(joins: _Joins) -> Iterator[QueueName]:
    """Yield the joined names. Which of the names is read depends on the scheduler's settings."""
    for found, label in joins.names:
        for value in joins.labels.get(label, ()):
            yield found._replace(name=f"{found.name}-{value}")


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
        elif above in _MAPS or "/" in step:
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
        above = str(step)
        if len(text) > _MAX_WHERE:
            text = f"{text[:_MAX_WHERE]}…"
            break
    return CONTROL_CHARACTER.sub("?", text)
