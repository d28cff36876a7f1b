"""Names that schedulers ignore because another key is set beside them. Pure.

An operator may join the labels in several members of an object, such as those of a
SparkApplication and of its driver. One of them may remove the other key again, with an empty value
or, in a strategic merge patch, with null or a directive. Then the schedulers read the names.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from queuegate_server.admission.queues.model import QueueName
from queuegate_server.admission.queues.positions import text_of

MapKey = tuple[str, str]
"""A map, labels or annotations, and a key in it."""
_DIRECTIVES: Final = ("$patch", "$retainKeys")
"""Keys with which a strategic merge patch may remove all others."""


def set_beside(keys: Iterable[MapKey], members: Mapping[str, Any]) -> list[MapKey]:
    """Return those of the keys that are set in a map with labels and annotations."""
    return [
        (map_name, key)
        for map_name, key in keys
        # A controller may drop a value that is not text.
        if isinstance(entries := members.get(map_name), dict)
        and isinstance(entries.get(key), str)
        and entries[key]
    ]


class Overrides:
    """The names in an object that are ignored, unless a key that overrides them is removed.

    Args:
        keys: The keys that override others.
    """

    def __init__(self, keys: Collection[MapKey]) -> None:
        self._keys = keys
        self._removed: set[MapKey] = set()
        self._ignored: list[tuple[Collection[MapKey], Iterable[QueueName]]] = []

    def note(self, map_name: str, entries: Mapping[str, Any]) -> None:
        """Note the keys that a map in the object removes."""
        if any(directive in entries for directive in _DIRECTIVES):
            self._removed.update(self._keys)
        for each in self._keys:
            if each[0] == map_name and each[1] in entries and not text_of(entries[each[1]]):
                self._removed.add(each)

    def ignore(self, names: Iterable[QueueName], keys: Collection[MapKey]) -> None:
        """Ignore names beside which keys are set."""
        self._ignored.append((keys, names))

    def read(self) -> Iterator[QueueName]:
        """Yield the ignored names beside which a key is set that is removed elsewhere."""
        for keys, names in self._ignored:
            if not self._removed.isdisjoint(keys):
                yield from names
