"""A second reader of YAML and queues.yaml: PyYAML's nodes, recursion, and no positions.

It expects documents that load.
"""

from typing import Any, Final

import yaml

_NULLS: Final = {"", "~", "null", "Null", "NULL"}
_LOADER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_MAX_NODES: Final = 20_000


class NotComparable(Exception):
    """Raised for a document with an anchor that is defined twice, aliases that stand for too much,
    or tags, which PyYAML's nodes do not distinguish from missing ones.
    """


def plain(data: bytes) -> Any:
    """Return the first document as dicts, lists, texts and None. Raises NotComparable."""
    if b"!" in data:
        raise NotComparable
    loader = _LOADER(data)
    try:
        node = loader.get_node() if loader.check_node() else None
    except yaml.composer.ComposerError:  # YAML permits it
        raise NotComparable from None
    return _Reader().read(node)


class _Reader:
    def __init__(self) -> None:
        self._nodes = 0

    def read(self, node: Any) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise NotComparable
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        return None if node is None or _is_null(node) else node.value

    def _mapping(self, node: Any) -> dict[str, Any]:
        mapping = {}
        merged: list[dict[str, Any]] = []
        for key, value in node.value:
            if key.value == "<<" and not key.style:
                below = self.read(value)
                merged += below if isinstance(below, list) else [below]
            else:
                mapping[key.value] = self.read(value)
        for source in merged:
            for name, value in source.items():
                mapping.setdefault(name, value)
        return mapping


def _is_null(node: Any) -> bool:
    return not node.style and node.value in _NULLS


def partitions(document: Any) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the texts of both ACLs of each queue, by path and partition. Null list entries are
    skipped, as in go-yaml.
    """
    acls = {}
    for partition in _entries(document or {}, "partitions"):
        name = partition.get("name") or "default"
        stated = _entries(partition, "queues")
        queues: dict[str, tuple[str, str]] = {}
        if len(stated) == 1 and (stated[0].get("name") or "").lower() == "root":
            _take(stated[0], "", queues)
        else:
            queues["root"] = ("", "")
            for queue in stated:
                _take(queue, "root.", queues)
        acls["default" if name.lower() == "default" else name] = queues
    return acls


def _take(queue: Any, above: str, queues: dict[str, tuple[str, str]]) -> None:
    path = above + (queue.get("name") or "").lower()
    queues[path] = (queue.get("submitacl") or "", queue.get("adminacl") or "")
    for child in _entries(queue, "queues"):
        _take(child, f"{path}.", queues)


def _entries(mapping: Any, key: str) -> list[Any]:
    return [entry for entry in mapping.get(key) or [] if entry is not None]
