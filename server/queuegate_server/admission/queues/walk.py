"""Finds the queue names in an object. Pure.

Labels and annotations are searched at every depth, because custom resources contain templates in
places that only their controllers know. Fields are searched in the object and in all objects
within it, such as the components of an AppWrapper.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from queuegate_server.admission.queues.kinds import HIDDEN, Kind
from queuegate_server.admission.queues.map_names import (
    OF_POD,
    Node,
    Seen,
    all_keys,
    in_maps,
    joined_names,
    unknown_names,
)
from queuegate_server.admission.queues.model import (
    EXPRESSION,
    NOT_TEXT,
    PATCH,
    TEXT,
    QueueName,
)
from queuegate_server.admission.queues.node_pools import UnknownProjects
from queuegate_server.admission.queues.places import Places
from queuegate_server.admission.queues.positions import (
    MAPS,
    Trail,
    has_expression,
    holding_member,
    text_of,
    where,
)
from queuegate_server.admission.queues.properties import TextCount
from queuegate_server.admission.queues.roles import (
    METADATA,
    WITHIN,
    MapRole,
    embedded_kind,
    is_spark,
    role_of,
    role_of_items,
)
from queuegate_server.admission.server.webhook_limits import MAX_DEPTH, MAX_FOUND

_MANAGED_FIELDS: Final = "managedFields"


class TooComplex(ValueError):
    """Raised for an object that is too large or too deep to be searched."""


def find_names(
    kind: Kind, value: Mapping[str, Any], places: Places, projects: UnknownProjects | None = None
) -> Iterator[QueueName | None]:
    """Yield the queue names in an object, starting with those in its own fields.

    Yield None after each short step without a name, so that the caller can pause a long search.

    Args:
        kind: The object's group and kind.
        value: The object as JSON values.
        places: Where the schedulers read names.
        projects: Finds node pools whose project is unknown; None if there are none.

    Raises:
        TooComplex: The object has more than MAX_DEPTH levels or MAX_FOUND names.
    """
    seen = Seen([], {}, TextCount())
    found = 0
    conditional = iter(()) if projects is None else projects.conditional_names()
    for names in (_search(kind, value, places, seen, projects), joined_names(seen), conditional):
        for name in names:
            found += name is not None
            if found > MAX_FOUND:
                raise TooComplex(f"the object names queues in more than {MAX_FOUND} places")
            yield name


def _search(
    kind: Kind,
    value: Mapping[str, Any],
    places: Places,
    seen: Seen,
    projects: UnknownProjects | None,
) -> Iterator[QueueName | None]:
    within = WITHIN.get(kind)
    # Iterators take less memory than the nodes themselves, and garbage collection visits each node.
    own = is_spark(kind), kind, frozenset({kind[0]}), None
    waiting = [iter([Node(value, None, 0, MapRole.OTHER, None, *own)])]
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
            yield from in_maps(node, members, places, seen)
        is_object = node.trail is None or (within is not None and _levels(node.trail) == within)
        waiting.append(_members(of_object, node, members, is_object=is_object))


def _in_fields(kind: Kind, node: Node, places: Places) -> Iterator[QueueName | None]:
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


def _hidden(kind: Kind, node: Node, places: Places) -> Iterator[QueueName | None]:
    """Yield the placeholders for the names in a template that cannot be searched."""
    for path, stands_for in HIDDEN.get(kind, ()):
        for text, trail in _fields(node.value, path, node.trail):
            if text and _hides(stands_for, text):
                yield from unknown_names(stands_for, text, trail, OF_POD, all_keys(places))
            else:
                yield None


def _hides(stands_for: str, text: str) -> bool:
    """Return whether a string, or a map in its place, hides queue names."""
    if stands_for == PATCH:
        # A patch may name labels and annotations in a path or a value, possibly escaped, or copy
        # them.
        return any(part in text.lower() for part in ("metadata", "\\", '"from"'))
    return stands_for != TEXT or text != NOT_TEXT


def _fields(
    value: object, path: Sequence[str], trail: Trail | None
) -> Iterator[tuple[str, Trail | None]]:
    """Yield the strings at a path, in each item of lists along it, and an empty string per item."""
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
    kind: Kind | None, node: Node, members: Mapping[str, Any], *, is_object: bool
) -> Iterator[Node]:
    """Yield the members of a map that may contain names; `kind` is the kind that the map states."""
    in_spark = node.in_spark or is_spark(kind)
    owner = kind if is_object and kind is not None else node.owner
    groups = node.groups
    if kind is not None and kind[0] not in groups:
        groups |= {kind[0]}
    above = holding_member(node.trail)
    for name, child in members.items():
        if not isinstance(child, dict | list):
            continue
        if name == _MANAGED_FIELDS and node.role is MapRole.OBJECT:
            continue  # large, and contains only field names
        role = role_of(
            name, members, kind, above, owner=owner, is_object=is_object, in_spark=in_spark
        )
        of_object = kind if name == METADATA else None
        trail = Trail(node.trail, name)
        below = in_spark, owner, groups, node.node_pools
        yield Node(child, trail, node.depth + 1, role, of_object, *below)


def _items(node: Node, items: Sequence[Any]) -> Iterator[Node]:
    role = role_of_items(holding_member(node.trail), node.owner)
    for number, item in enumerate(items):
        if isinstance(item, dict | list):
            trail = Trail(node.trail, number)
            below = node.in_spark, node.owner, node.groups, node.node_pools
            yield Node(item, trail, node.depth + 1, role, None, *below)


def _levels(trail: Trail | None) -> tuple[str, ...]:
    """Return the names of the members from the object to a node."""
    names: list[str] = []
    while trail is not None:
        if isinstance(trail.step, str):
            names.append(trail.step)
        trail = trail.above
    return tuple(reversed(names))
