"""Finds the names of queues in an object. Pure.

Labels and annotations are searched at every depth, because custom resources contain templates in
places that only their controllers know.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from queuegate_server.admission.queues.model import QueueName
from queuegate_server.admission.queues.places import (
    ANNOTATIONS,
    LABELS,
    KeyPlace,
    Kind,
    Places,
)

MAX_NODES: Final = 100_000
"""The maximum number of objects, lists and entries in one object."""
MAX_DEPTH: Final = 100
MAX_NAME: Final = 1_024
"""The maximum length of a name. Label values have up to 63 characters."""
_SELECTORS: Final = frozenset({"selector", "labelSelector", "matchLabels", "managedFields"})
"""Members that refer to other objects' labels, or repeat the names of fields."""
_SPARK_CONF: Final = "sparkConf"
_SPARK_KEY: Final = re.compile(
    r"spark\.kubernetes\.(?:driver\.|executor\.)?(label|annotation)\.(.+)"
)
"""A property of Spark that sets a label or annotation of a pod."""


class TooComplex(ValueError):
    """Raised for an object that is too large or too deep to be searched."""


def find_names(kind: Kind, value: Mapping[str, Any], places: Places) -> Iterator[QueueName]:
    """Yield the names of queues in an object.

    Args:
        kind: The object's group and kind.
        value: The object as JSON values.
        places: Where the schedulers read names.

    Raises:
        TooComplex: The object has more than MAX_NODES nodes or MAX_DEPTH levels, or a name is too
            long.
    """
    for place in places.fields.get(kind, ()):
        name = _field(value, place.path)
        if name:
            where = ".".join(place.path)
            yield QueueName(
                place.scheduler,
                _text(name, where),
                where,
                place.access,
                place.is_cluster_queue,
            )
    yield from _search(kind, value, places)


def _search(kind: Kind, value: Mapping[str, Any], places: Places) -> Iterator[QueueName]:
    keys = places.keys
    nodes = 0
    waiting: list[tuple[object, str, int]] = [(value, "", 0)]
    while waiting:
        node, where, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise TooComplex(f"the object has more than {MAX_DEPTH} levels")
        if isinstance(node, dict):
            nodes += len(node)
            for name, child in node.items():
                if name in (LABELS, ANNOTATIONS) and isinstance(child, dict):
                    yield from _in_map(kind, child, keys[name], _below(where, name))
                elif name == _SPARK_CONF and isinstance(child, dict):
                    yield from _in_spark_conf(kind, child, _below(where, name), places)
                if isinstance(child, dict | list) and name not in _SELECTORS:
                    waiting.append((child, _below(where, name), depth + 1))
        elif isinstance(node, list):
            nodes += len(node)
            waiting.extend(
                (child, f"{where}[{number}]", depth + 1)
                for number, child in enumerate(node)
                if isinstance(child, dict | list)
            )
        if nodes > MAX_NODES:
            raise TooComplex(f"the object has more than {MAX_NODES} entries")


def _in_map(
    kind: Kind,
    entries: Mapping[str, Any],
    keys: Mapping[str, Sequence[KeyPlace]],
    where: str,
) -> Iterator[QueueName]:
    for key, places in keys.items():
        if key in entries:
            yield from _named(kind, entries[key], places, f'{where}["{key}"]')


def _in_spark_conf(
    kind: Kind, entries: Mapping[str, Any], where: str, places: Places
) -> Iterator[QueueName]:
    for key, value in entries.items():
        if match := _SPARK_KEY.fullmatch(key):
            found = places.keys[f"{match[1]}s"].get(match[2], ())
            yield from _named(kind, value, found, f'{where}["{key}"]')


def _named(
    kind: Kind, value: object, places: Sequence[KeyPlace], where: str
) -> Iterator[QueueName]:
    if value is None or value == "":
        return  # an empty value names no queue
    for place in places:
        if place.kinds is None or kind in place.kinds:
            yield QueueName(place.scheduler, _text(value, where), where, place.access)


def _field(value: object, path: tuple[str, ...]) -> object:
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise TooComplex(f"{where} is not text")
    if len(value) > MAX_NAME:
        raise TooComplex(f"{where} has more than {MAX_NAME} characters")
    return value


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
