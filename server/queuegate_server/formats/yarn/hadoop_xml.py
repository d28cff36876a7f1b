"""The properties of a Hadoop configuration file, by Hadoop's rules.

Names are trimmed, values are not. A value that is empty sets nothing. Of properties of
one name the last one counts, unless one before it is final. Files that others include
are not read.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.xml_tree import Element, read
from queuegate_server.formats.yarn.model import Text
from queuegate_server.formats.yarn.variables import Room, VariableError, replaced

_TRUTHS: Final = {"true": True, "false": False}


@dataclass(slots=True)
class _Property:
    element: Element
    name: str = ""
    value: Text | None = None
    is_final: bool = False
    mixed: Element | None = None
    """The element of the value or the name if it holds more than a text."""


def read_properties(
    data: bytes, file: str, diagnostics: Diagnostics, *, is_read: Callable[[str], bool]
) -> dict[str, Text] | None:
    """Return the properties by name, with the positions of their values; None if the file is
    none of Hadoop's. Notes what is wrong, and what is likely not meant. Variables are
    replaced in those that are read.
    """
    document = read(data, file)
    for diagnostic in document.diagnostics:
        diagnostics.add(diagnostic)
    root = document.root
    if root is None:
        return None
    if root.name != "configuration":
        message = f"the top element is <{root.name}>, not <configuration>"
        diagnostics.error(root, message, "give a configuration file of Hadoop")
        return None
    collected = _Collected(diagnostics)
    for element in _properties(root, diagnostics):
        stated = _property(element)
        if stated.mixed is not None and is_read(stated.name):
            message = f"the value of {quoted(stated.name)} holds more than a text"
            remedy = "write it without elements, instructions and CDATA sections"
            diagnostics.error(stated.mixed, message, remedy)
        collected.take(stated)
    found = collected.found
    written = dict(found)
    room = Room()
    for name, value in written.items():
        if "${" not in value.text or not is_read(name):
            continue
        try:
            found[name] = value._replace(text=replaced(name, written, room))
        except VariableError as error:
            message = f"a variable in {quoted(name)} cannot be replaced: {error}"
            diagnostics.error(error.position, message, "write out what it stands for", "")
            if room.left < 0:
                break
    return found


class _Collected:
    """The properties so far."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._final: set[str] = set()
        self.found: dict[str, Text] = {}

    def take(self, stated: _Property) -> None:
        name = quoted(stated.name)
        warn = self._diagnostics.warning
        if not stated.name:
            warn(stated.element, "a property without a name sets nothing", "give it a name")
            return
        if stated.value is None:
            message = f"{name} has an empty value, which sets nothing"
            warn(stated.element, message, "for nobody write a single space as the value")
        elif stated.name in self._final:
            message = f"{name} is final above, so this value is ignored"
            warn(stated.element, message, "remove one of them")
        else:
            if stated.name in self.found:
                message = f"{name} is set above, too: this value replaces that one"
                warn(stated.element, message, "remove one of them")
            self.found[stated.name] = stated.value
        if stated.is_final:
            self._final.add(stated.name)


def truth(text: Text | None, *, default: bool) -> bool:
    """Return the truth value of a text as Hadoop reads it: what is neither is the default."""
    return _TRUTHS.get(_lower(text) if text else "", default)


def is_truth(text: Text) -> bool:
    """Say whether a text is a truth value."""
    return _lower(text) in _TRUTHS


def _lower(text: Text) -> str:
    return text.text.strip(TRIMMED).lower()


def _properties(root: Element, diagnostics: Diagnostics) -> Iterator[Element]:
    waiting = [iter(root.children)]
    while waiting:
        for element in waiting[-1]:
            name = element.name.rpartition(":")[2]
            if name == "property":
                yield element
            elif name == "configuration":
                waiting.append(iter(element.children))
                break
            elif name == "include":
                message = "included files are not read"
                diagnostics.error(element, message, "put their properties into this file")
        else:
            waiting.pop()


def _property(element: Element) -> _Property:
    found = _Property(element)
    attributes = element.attributes
    found.name = attributes.get("name", "").strip(TRIMMED)
    if attributes.get("value"):
        found.value = Text(element.line, element.column, attributes["value"])
    found.is_final = attributes.get("final", "").strip() == "true"
    for child in element.children:
        if child.name in {"name", "value"} and (child.children or not child.is_plain):
            found.mixed = child
        match child.name:
            case "name" if child.text:
                found.name = child.text.strip(TRIMMED)
            case "value" if child.text:
                found.value = Text(child.line, child.column, child.text)
            case "final":
                found.is_final = child.text.strip() == "true"
            case _:
                pass
    return found
