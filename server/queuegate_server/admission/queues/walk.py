"""Finds the names of queues in an object. Pure.

Labels and annotations are searched at every depth, because custom resources contain templates in
places that only their controllers know. Fields are searched in the object and in all objects
within it, such as the components of an AppWrapper.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from queuegate.policy.decision import Access
from queuegate_server.admission.queues.kinds import HIDDEN, POD, RESOURCES, Kind
from queuegate_server.admission.queues.model import (
    EXPRESSION,
    NOT_TEXT,
    PATCH,
    TEXT,
    QueueName,
)
from queuegate_server.admission.queues.node_pools import NodePools, UnknownProjects
from queuegate_server.admission.queues.places import KeyPlace, Places
from queuegate_server.admission.queues.positions import (
    ANNOTATIONS,
    FLINK_CONFIGURATION,
    LABELS,
    LABELS_FROM,
    MAPS,
    OWN_METADATA,
    SPARK_CONF,
    Trail,
    has_expression,
    text_of,
    where,
)
from queuegate_server.admission.queues.properties import (
    Found,
    Property,
    TextCount,
    Unreadable,
    in_arguments,
    in_flink_configuration,
    in_spark_conf,
)
from queuegate_server.admission.queues.roles import (
    METADATA,
    WITHIN,
    MapRole,
    embedded_kind,
    is_spark,
    role_of,
    role_of_items,
)
from queuegate_server.admission.server.review_limits import MAX_DEPTH, MAX_FOUND

_MANAGED_FIELDS: Final = "managedFields"


class TooComplex(ValueError):
    """Raised for an object that is too large or too deep to be searched."""


class _Node(NamedTuple):
    value: Mapping[str, Any] | list[Any]
    trail: Trail | None
    depth: int
    role: MapRole
    kind: Kind | None
    """The kind of the object whose metadata this node is, if known."""
    in_spark: bool
    """Whether the node is in an object of the Spark operator."""
    owner: Kind
    """The kind of the object, or of the object within it, to which the node belongs."""
    groups: frozenset[str]
    """The API groups of the object, and of all maps around the node that look like objects."""
    node_pools: NodePools | None
    """Finds node pools whose project is unknown; None if there are none around the node."""


_OF_POD: Final = _Node(
    {}, None, 0, MapRole.POD, None, in_spark=False, owner=POD, groups=frozenset(), node_pools=None
)
"""A placeholder for the metadata of a pod that an operator creates from properties."""


class _Seen(NamedTuple):
    """What the search has found in one part of the object and needs in others."""

    names: list[tuple[QueueName, str]]
    """The names that are joined with labels, each with the label."""
    labels: dict[str, dict[str, None]]
    """The values of each label, in the order of the search."""
    flink: TextCount


def find_names(
    kind: Kind, value: Mapping[str, Any], places: Places, projects: UnknownProjects | None = None
) -> Iterator[QueueName | None]:
    """Yield the names of queues in an object, those in its own fields first.

    Yield None after each short step without a name, so that the caller can pause a long search.

    Args:
        kind: The object's group and kind.
        value: The object as JSON values.
        places: Where the schedulers read names.
        projects: Finds node pools whose project is unknown; None if there are none.

    Raises:
        TooComplex: The object has more than MAX_DEPTH levels or MAX_FOUND names.
    """
    seen = _Seen([], {}, TextCount())
    found = 0
    conditional = iter(()) if projects is None else projects.conditional_names()
    for names in (_search(kind, value, places, seen, projects), _joined(seen), conditional):
        for name in names:
            found += name is not None
            if found > MAX_FOUND:
                raise TooComplex(f"the object names queues in more than {MAX_FOUND} places")
            yield name


def _search(
    kind: Kind,
    value: Mapping[str, Any],
    places: Places,
    seen: _Seen,
    projects: UnknownProjects | None,
) -> Iterator[QueueName | None]:
    within = WITHIN.get(kind)
    # Iterators take less memory than the nodes themselves, and garbage collection visits each node.
    own = is_spark(kind), kind, frozenset({kind[0]}), None
    waiting = [iter([_Node(value, None, 0, MapRole.OTHER, None, *own)])]
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
        members = node.value
        of_object = kind if node.trail is None else embedded_kind(members)
        if of_object is not None:
            yield from _in_fields(of_object, node, places)
            yield from _hidden(of_object, node, places)
            if projects is not None:
                pools = projects.of_object(of_object, members, node.trail, node.node_pools)
                node = node._replace(node_pools=pools)
        if node.node_pools is not None:
            node.node_pools.note_reference(members)
        if node.in_spark or not MAPS.isdisjoint(members):
            yield from _in_maps(node, members, places, seen)
        is_object = node.trail is None or (within is not None and _levels(node.trail) == within)
        waiting.append(_members(of_object, node, members, is_object=is_object))


def _in_fields(kind: Kind, node: _Node, places: Places) -> Iterator[QueueName | None]:
    for place in places.fields.get(kind, ()):
        scheduler_field = ""
        if place.scheduler_field:
            chosen = {""}
            for text, _ in _fields(node.value, place.scheduler_field, None):
                chosen.add(text)
                yield None
            if len(chosen) == 1:
                scheduler_field = where(functools.reduce(Trail, place.scheduler_field, node.trail))
            elif place.scheduler not in chosen:
                continue
        for text, trail in _fields(node.value, place.path, node.trail):
            if text:
                is_known = not has_expression(text)
                yield QueueName(
                    place.scheduler,
                    text if is_known else EXPRESSION,
                    where(trail),
                    place.access,
                    place.template,
                    scheduler_field=scheduler_field,
                    text="" if is_known else text,
                )
            else:
                yield None


def _hidden(kind: Kind, node: _Node, places: Places) -> Iterator[QueueName | None]:
    """Yield the placeholders for the names in a template that cannot be searched."""
    for path, stands_for in HIDDEN.get(kind, ()):
        for text, trail in _fields(node.value, path, node.trail):
            if text and _hides(stands_for, text):
                yield from _unknown(stands_for, text, trail, _OF_POD, _all_keys(places))
            else:
                yield None


def _hides(stands_for: str, text: str) -> bool:
    """Return whether a text, or a map in its place, hides names of queues."""
    if stands_for == PATCH:
        # A patch may name labels and annotations in a path or a value, possibly escaped, or copy
        # them.
        return any(part in text.lower() for part in ("metadata", "\\", '"from"'))
    return stands_for != TEXT or text != NOT_TEXT


def _fields(
    value: object, path: Sequence[str], trail: Trail | None
) -> Iterator[tuple[str, Trail | None]]:
    """Yield the texts at a path, in each item of lists along it, and an empty text per item."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            below = Trail(trail, number)
            yield "", below
            if isinstance(item, list):
                yield NOT_TEXT, below
            else:
                yield from _fields(item, path, below)
    elif not path:
        yield text_of(value), trail
    elif isinstance(value, dict):
        yield from _fields(value.get(path[0]), path[1:], Trail(trail, path[0]))


def _members(
    kind: Kind | None, node: _Node, members: Mapping[str, Any], *, is_object: bool
) -> Iterator[_Node]:
    """Yield the members of a map that may contain names; `kind` is the kind that the map states."""
    in_spark = node.in_spark or is_spark(kind)
    owner = kind if is_object and kind is not None else node.owner
    groups = node.groups
    if kind is not None and kind[0] not in groups:
        groups |= {kind[0]}
    above = _name_of(node.trail)
    for name, child in members.items():
        if not isinstance(child, dict | list):
            continue
        if name == _MANAGED_FIELDS and node.role is MapRole.OBJECT:
            continue  # large, and contains only names of fields
        role = role_of(
            name, members, kind, above, owner=owner, is_object=is_object, in_spark=in_spark
        )
        of_object = kind if name == METADATA else None
        trail = Trail(node.trail, name)
        below = in_spark, owner, groups, node.node_pools
        yield _Node(child, trail, node.depth + 1, role, of_object, *below)


def _items(node: _Node, items: Sequence[Any]) -> Iterator[_Node]:
    role = role_of_items(_name_of(node.trail), node.owner)
    for number, item in enumerate(items):
        if isinstance(item, dict | list):
            trail = Trail(node.trail, number)
            below = node.in_spark, node.owner, node.groups, node.node_pools
            yield _Node(item, trail, node.depth + 1, role, None, *below)


def _levels(trail: Trail | None) -> tuple[str, ...]:
    """Return the names of the members from the object to a node."""
    names: list[str] = []
    while trail is not None:
        if isinstance(trail.step, str):
            names.append(trail.step)
        trail = trail.above
    return tuple(reversed(names))


def _name_of(trail: Trail | None) -> str:
    """Return the name of the member that holds a node, directly or in a list."""
    if trail is not None and isinstance(trail.step, int):
        trail = trail.above
    return str(trail.step) if trail is not None else ""


def _in_maps(
    node: _Node, members: Mapping[str, Any], places: Places, seen: _Seen
) -> Iterator[QueueName | None]:
    """Yield the names in the labels, annotations and properties of a map."""
    for map_name in (LABELS, ANNOTATIONS, LABELS_FROM):
        entries = members.get(map_name)
        if not isinstance(entries, dict) or node.role is MapRole.OTHERS_LABELS:
            continue
        above = Trail(node.trail, map_name)
        is_expression = map_name == LABELS_FROM
        places_by_key = places.keys[LABELS if is_expression else map_name]
        for key, found in places_by_key.items():
            for place in found if text_of(entries.get(key)) else ():
                if _counts(place, node) and not _is_overridden(place, node, members):
                    yield from _named(
                        f"{{{{{entries[key]}}}}}" if is_expression else entries[key],
                        place,
                        Trail(above, key),
                        seen,
                        is_read=_is_read(place, node),
                    )
        for key in filter(has_expression, entries):
            readers = chain.from_iterable(places_by_key.values())
            text = text_of(entries[key])
            yield from _unknown(EXPRESSION, text, Trail(above, key), node, readers)
        if map_name == LABELS and node.role is not MapRole.OTHER:
            _note_labels(entries, places, seen)
        if map_name == LABELS and node.node_pools is not None:
            yield from node.node_pools.in_labels(entries, node.trail)
    yield from _in_properties(node, members, places, seen)


def _unknown(
    stands_for: str, text: str, trail: Trail | None, node: _Node, readers: Iterable[KeyPlace]
) -> Iterator[QueueName]:
    """Yield a placeholder for each scheduler that may read a name there, if names are unknown."""
    position = where(trail)
    for scheduler in dict.fromkeys(each.scheduler for each in readers if _counts(each, node)):
        yield QueueName(scheduler, stands_for, position, Access.SUBMIT, text=text)


def _counts(place: KeyPlace, node: _Node) -> bool:
    if place.groups is not None and place.groups.isdisjoint(node.groups):
        return False
    if place.in_pods and node.role is MapRole.POD:
        return True
    if place.kinds is not None:
        return node.kind is not None and node.kind in place.kinds
    return not place.in_pods or node.role in {MapRole.OBJECT, MapRole.OWNER}


def _is_overridden(place: KeyPlace, node: _Node, members: Mapping[str, Any]) -> bool:
    """Return whether the scheduler ignores a key of a pod because another key is beside it.

    Elsewhere, both are checked: an operator may copy only one of them, or remove one.
    """
    if node.kind != POD or node.trail != OWN_METADATA:
        return False
    return any(
        isinstance(entries := members.get(map_name), dict)
        and isinstance(entries.get(key), str)
        and entries[key]
        for map_name, key in place.overridden_by
    )


def _is_read(place: KeyPlace, node: _Node) -> bool:
    """Return whether the scheduler reads a key in a map."""
    if node.role is MapRole.OTHER:
        # Other members with labels are the metadata of volume claims, except in unknown kinds.
        if node.owner in RESOURCES or _name_of(node.trail) == METADATA:
            return False
    elif node.kind in place.ignored_in:
        return False
    is_read = place.is_read or node.owner[0] in place.read_in
    return is_read and (place.is_read_in_templates or node.role is not MapRole.POD)


def _in_properties(
    node: _Node, members: Mapping[str, Any], places: Places, seen: _Seen
) -> Iterator[QueueName | None]:
    """Yield the names in the properties of Spark and Flink."""
    spark, flink = members.get(SPARK_CONF), members.get(FLINK_CONFIGURATION)
    pools = node.node_pools
    if isinstance(spark, dict):
        above = Trail(node.trail, SPARK_CONF)
        yield from _in_found(in_spark_conf(spark), above, places, seen, pools)
    if isinstance(flink, dict):
        found = in_flink_configuration(flink, seen.flink)
        above = Trail(node.trail, FLINK_CONFIGURATION)
        yield from _in_found(found, above, places, seen, pools)
    if node.in_spark:
        yield from _in_found(in_arguments(members), node.trail, places, seen, pools)


def _in_found(
    properties: Iterator[Found],
    above: Trail | None,
    places: Places,
    seen: _Seen,
    node_pools: NodePools | None,
) -> Iterator[QueueName | None]:
    """Yield the names that properties set, and None for each other step of their search."""
    labels: list[Property] = []
    for each in properties:
        if each is None:
            yield None
            continue
        trail = Trail(above, each.name)
        if isinstance(each, Unreadable):
            yield from _unknown(each.stands_for, each.text, trail, _OF_POD, _all_keys(places))
            continue
        if each.map_name == LABELS:
            labels.append(each)
        for place in places.keys[each.map_name].get(each.key, ()):
            if _counts(place, _OF_POD):
                yield from _named(each.value, place, trail, seen, is_read=place.is_read)
    _note_labels({each.key: each.value for each in labels}, places, seen)
    if node_pools is not None:
        yield from node_pools.in_properties(labels, above)


def _all_keys(places: Places) -> Iterator[KeyPlace]:
    for by_key in places.keys.values():
        yield from chain.from_iterable(by_key.values())


def _note_labels(labels: Mapping[str, Any], places: Places, seen: _Seen) -> None:
    """Record the values of the labels with which names are joined."""
    for key in places.joined_labels:
        text = text_of(labels.get(key))
        if text:
            seen.labels.setdefault(key, {})[text] = None


def _named(
    value: object, place: KeyPlace, trail: Trail, seen: _Seen, *, is_read: bool
) -> Iterator[QueueName]:
    """Yield the names in a value."""
    text = text_of(value)
    if has_expression(text):
        position = where(trail)
        yield QueueName(
            place.scheduler, EXPRESSION, position, place.access, is_read=is_read, text=text
        )
        return
    for name in text.split(place.separator) if place.separator else [text]:
        if name:  # an empty value names no queue
            found = QueueName(place.scheduler, name, where(trail), place.access, is_read=is_read)
            yield found
            if place.joined_label:
                seen.names.append((found, place.joined_label))


def _joined(seen: _Seen) -> Iterator[QueueName]:
    """Yield the joined names. Which of the names is read depends on the scheduler's settings."""
    for found, label in seen.names:
        for value in seen.labels.get(label, ()):
            yield found._replace(name=f"{found.name}-{value}", is_joined=True)
