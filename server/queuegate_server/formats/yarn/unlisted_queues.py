"""Warns about the properties of unlisted queues.

A misspelled `queues` property leaves a whole subtree unlisted. The misspelling is reported once,
and the unlisted queues' properties are counted instead of reported individually.
"""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR, parent_path, similar_name
from queuegate_server.formats.diagnostics import Diagnostics, Positioned, quoted
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.yarn.variables import LocatedText

LIST: Final = "queues"
_ROOT_LIST: Final = f"{ROOT}{SEPARATOR}{LIST}"


@dataclass(frozen=True, slots=True)
class UnlistedQueues:
    """Warns about the properties of unlisted queues, or counts them per faulty list."""

    _paths: Container[str]
    _lists: Mapping[str, Positioned]
    """The missing or misspelled lists of queues, by path."""
    _diagnostics: Diagnostics
    _ignored: Counter[str] = field(default_factory=Counter)

    def add(self, position: Positioned, found: Finding, path: str) -> None:
        """Count a property if a faulty list leaves out its queue; otherwise, add the finding."""
        above = path
        while above and above not in self._paths:
            above = parent_path(above)
        if above != path and above in self._lists:
            self._ignored[above] += 1
        else:
            self._diagnostics.add(position, found, path)

    def summarize(self) -> None:
        """Add a warning for each faulty list that states how many properties were counted."""
        for path, count in self._ignored.items():
            words = {"properties": f"{count} properties are", "queues": "their queues are"}
            if count == 1:
                words = {"properties": "1 property is", "queues": "its queue is"}
            found = finding("ignored-with-unlisted-queues", above=quoted(path), **words)
            self._diagnostics.add(self._lists[path], found, path)


def misspelled_lists(
    properties: Mapping[str, LocatedText], paths: Container[str], prefix: str
) -> Mapping[str, str]:
    """Return the names of properties that probably misspell a `queues` property.

    Each name is keyed by the path of the queue whose children the property should list. `prefix` is
    the prefix of the scheduler's property names.
    """
    misspelled: dict[str, str] = {}
    for name in properties:
        key = name.removeprefix(prefix)
        if key == name:
            path = _of_misspelled_prefix(name, prefix)
        elif key.rpartition(SEPARATOR)[2] == LIST:
            path = _of_misspelled_root(key)
        else:
            path = _of_misspelled_list(key, paths)
        if path is not None:
            misspelled.setdefault(path, name)
    return misspelled


def _of_misspelled_prefix(name: str, prefix: str) -> str | None:
    """Return the root if a property is its list of queues with a misspelled prefix."""
    start = name.removesuffix(_ROOT_LIST)
    return ROOT if start != name and similar_name(start, (prefix,)) else None


def _of_misspelled_root(key: str) -> str | None:
    """Return the root if a list of queues names it wrongly, or not at all.

    Only the root is recognized, because the names of other queues are unknown.
    """
    above = key.rpartition(SEPARATOR)[0]
    return ROOT if not above or (SEPARATOR not in above and _is_like(above, ROOT)) else None


def _of_misspelled_list(key: str, paths: Container[str]) -> str | None:
    """Return the queue whose list of queues a property misspells."""
    above, _, last = key.rpartition(SEPARATOR)
    return above if above in paths and _is_like(last, LIST) else None


def _is_like(text: str, known: str) -> bool:
    return text != known and bool(similar_name(text.lower(), (known,)))
