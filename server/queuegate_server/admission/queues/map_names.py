"""Finds the queue names in an object's maps: labels, annotations and properties. Pure.

`walk` finds the maps, and says what each map belongs to.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from queuegate.policy.decision import Access
from queuegate_server.admission.queues.kinds import POD, RESOURCES, Kind
from queuegate_server.admission.queues.model import EXPRESSION, QueueName
from queuegate_server.admission.queues.node_pools import NodePools
from queuegate_server.admission.queues.places import KeyPlace, Places
from queuegate_server.admission.queues.positions import (
    ANNOTATIONS,
    FLINK_CONFIGURATION,
    LABELS,
    LABELS_FROM,
    OWN_METADATA,
    SPARK_CONF,
    Trail,
    has_expression,
    holding_member,
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
from queuegate_server.admission.queues.roles import METADATA, MapRole


class Node(NamedTuple):
    """A map or list in an object, and what the search knows about it."""

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


OF_POD: Final = Node(
    {}, None, 0, MapRole.POD, None, in_spark=False, owner=POD, groups=frozenset(), node_pools=None
)
"""A placeholder for the metadata of a pod that an operator creates from properties."""


class Seen(NamedTuple):
    """What the search has found in one part of the object and needs in other parts."""

    names: list[tuple[QueueName, str]]
    """The names that are joined with a label's value, each with that label's key."""
    labels: dict[str, dict[str, None]]
    """The values of each label, in the order of the search."""
    flink: TextCount


def in_maps(
    node: Node, members: Mapping[str, Any], places: Places, seen: Seen
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
            yield from unknown_names(EXPRESSION, text, Trail(above, key), node, readers)
        if map_name == LABELS and node.role is not MapRole.OTHER:
            _note_labels(entries, places, seen)
        if map_name == LABELS and node.node_pools is not None:
            yield from node.node_pools.in_labels(entries, node.trail)
    yield from _in_properties(node, members, places, seen)


def unknown_names(
    stands_for: str, text: str, trail: Trail | None, node: Node, readers: Iterable[KeyPlace]
) -> Iterator[QueueName]:
    """Yield a placeholder for unknown names, one per scheduler that may read a name at `trail`."""
    position = where(trail)
    for scheduler in dict.fromkeys(each.scheduler for each in readers if _counts(each, node)):
        yield QueueName(scheduler, stands_for, position, Access.SUBMIT, text=text)


def _counts(place: KeyPlace, node: Node) -> bool:
    if place.groups is not None and place.groups.isdisjoint(node.groups):
        return False
    if place.in_pods and node.role is MapRole.POD:
        return True
    if place.kinds is not None:
        return node.kind is not None and node.kind in place.kinds
    return not place.in_pods or node.role in {MapRole.OBJECT, MapRole.OWNER}


def _is_overridden(place: KeyPlace, node: Node, members: Mapping[str, Any]) -> bool:
    """Return whether the scheduler ignores a pod's key because another key is next to it.

    Elsewhere, both keys are checked, because an operator may copy or remove only one of them.
    """
    if node.kind != POD or node.trail != OWN_METADATA:
        return False
    return any(
        isinstance(entries := members.get(map_name), dict)
        and isinstance(entries.get(key), str)
        and entries[key]
        for map_name, key in place.overridden_by
    )


def _is_read(place: KeyPlace, node: Node) -> bool:
    """Return whether the scheduler reads a key in a map."""
    if node.role is MapRole.OTHER:
        # Other members with labels are the metadata of volume claims, except in unknown kinds.
        if node.owner in RESOURCES or holding_member(node.trail) == METADATA:
            return False
    elif node.kind in place.ignored_in:
        return False
    is_read = place.is_read or node.owner[0] in place.read_in
    return is_read and (place.is_read_in_templates or node.role is not MapRole.POD)


def _in_properties(
    node: Node, members: Mapping[str, Any], places: Places, seen: Seen
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
    seen: Seen,
    node_pools: NodePools | None,
) -> Iterator[QueueName | None]:
    """Yield the names that properties set, and None after each step of the search without one."""
    labels: list[Property] = []
    for each in properties:
        if each is None:
            yield None
            continue
        trail = Trail(above, each.name)
        if isinstance(each, Unreadable):
            yield from unknown_names(each.stands_for, each.text, trail, OF_POD, all_keys(places))
            continue
        if each.map_name == LABELS:
            labels.append(each)
        for place in places.keys[each.map_name].get(each.key, ()):
            if _counts(place, OF_POD):
                yield from _named(each.value, place, trail, seen, is_read=place.is_read)
    _note_labels({each.key: each.value for each in labels}, places, seen)
    if node_pools is not None:
        yield from node_pools.in_properties(labels, above)


def all_keys(places: Places) -> Iterator[KeyPlace]:
    """Yield the places of all labels and annotations that name queues."""
    for by_key in places.keys.values():
        yield from chain.from_iterable(by_key.values())


def _note_labels(labels: Mapping[str, Any], places: Places, seen: Seen) -> None:
    """Record the values of the labels with which names are joined."""
    for key in places.joined_labels:
        text = text_of(labels.get(key))
        if text:
            seen.labels.setdefault(key, {})[text] = None


def _named(
    value: object, place: KeyPlace, trail: Trail, seen: Seen, *, is_read: bool
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
        if name:  # an empty value does not name a queue
            found = QueueName(place.scheduler, name, where(trail), place.access, is_read=is_read)
            yield found
            if place.joined_label:
                seen.names.append((found, place.joined_label))


def joined_names(seen: Seen) -> Iterator[QueueName]:
    """Yield the joined names. Which of the names is read depends on the scheduler's settings."""
    for found, label in seen.names:
        for value in seen.labels.get(label, ()):
            yield found._replace(name=f"{found.name}-{value}", is_joined=True)
