"""The properties of a Hadoop configuration file, by the rules of Hadoop's `Configuration`.

Names are trimmed, values are not. An empty value sets nothing. The last property of a name
wins, unless an earlier one is final. Included files are not read.

Hadoop looks a variable up in its process first and then among its properties
(`Configuration.substituteVars`). Only the properties of the same file are known here, so a
variable that may come from elsewhere is an error; its value is never guessed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostics, Positioned, quoted
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.formats.xml_reader import Element, read_xml

_VARIABLE: Final = re.compile(r"\$\{([^}$ ]+)\}")
_MAX_SUBSTITUTIONS: Final = 20
"""Hadoop's own bound, `MAX_SUBST` of its `Configuration`."""
_MAX_VALUE_LENGTH: Final = 1_048_576
_PROCESS_PREFIXES: Final = (
    "env.",
    "file.",
    "java.",
    "jdk.",
    "line.",
    "os.",
    "path.",
    "sun.",
    "user.",
)
"""Prefixes of the names that Hadoop takes from its environment and from the virtual machine."""
_READ_ANYWHERE: Final = frozenset({"property", "name", "value", "final", "include"})
"""The elements that Hadoop reads, whatever they are in."""
_IN_PROPERTY: Final = frozenset({"name", "value", "final"})
_NOTHING: Final[frozenset[str]] = frozenset()


class Text(NamedTuple):
    """A value and its position."""

    line: int
    column: int
    text: str


def read_properties(
    data: bytes, diagnostics: Diagnostics, *, is_read: Callable[[str], bool]
) -> dict[str, Text] | None:
    """Return the properties of a file by name, or None if it is not a Hadoop configuration.

    `is_read` selects the properties that matter: only their variables are replaced, and only
    their values must be plain text.
    """
    root = read_xml(data, diagnostics)
    if root is None:
        return None
    if root.name != "configuration":
        message = f"the top element is <{root.name}>, not <configuration>"
        diagnostics.error(root, message, "use a configuration file of Hadoop")
        return None
    found: dict[str, Text] = {}
    final: set[str] = set()
    for element in _property_elements(root, diagnostics):
        stated = _read_property(element)
        if stated.not_plain is not None and is_read(stated.name):
            message = f"the value of {quoted(stated.name)} is not plain text"
            remedy = "remove the elements, processing instructions and CDATA sections from it"
            diagnostics.error(stated.not_plain, message, remedy)
        _add(stated, found, final, diagnostics)
    original = dict(found)
    budget = ExpansionBudget()
    for name, value in original.items():
        if "${" not in value.text or not is_read(name):
            continue
        try:
            found[name] = value._replace(text=expand(name, original, budget))
        except VariableError as error:
            message = f"a variable in {quoted(name)} cannot be replaced: {error}"
            diagnostics.error(error.position, message, "write its value instead", "")
            if budget.left < 0:
                break
    return found


def boolean(text: Text) -> bool | None:
    """Return a value as a boolean, as Hadoop reads it; None if it is neither true nor false."""
    return {"true": True, "false": False}.get(text.text.strip(TRIMMED).lower())


@dataclass(slots=True)
class _Property:
    element: Element
    name: str = ""
    value: Text | None = None
    is_final: bool = False
    not_plain: Element | None = None
    """The element of the value or the name if it contains more than text."""


def _add(
    stated: _Property, properties: dict[str, Text], final: set[str], diagnostics: Diagnostics
) -> None:
    """Apply Hadoop's rules for repeated, final and empty properties."""
    name, position, remedy = quoted(stated.name), stated.element, "remove one of them"
    if not stated.name:
        diagnostics.warning(position, "a property without a name sets nothing", "give it a name")
        return
    if stated.value is None:
        message = f"{name} has an empty value, which sets nothing"
        remedy = "for nobody write a single space as the value"
        diagnostics.warning(position, message, remedy)
    elif stated.name in final:
        message = f"{name} is final above, so this value is ignored"
        diagnostics.warning(position, message, remedy)
    else:
        if stated.name in properties:
            message = f"{name} is already set above; this value replaces that one"
            diagnostics.warning(position, message, remedy)
        properties[stated.name] = stated.value
    if stated.is_final:
        final.add(stated.name)


def _property_elements(root: Element, diagnostics: Diagnostics) -> Iterator[Element]:
    stack = [iter(root.children)]
    while stack:
        for element in stack[-1]:
            name = element.name.rpartition(":")[2]
            if name == "property":
                _check_nesting(element, _IN_PROPERTY, diagnostics)
                yield element
            elif name == "configuration":
                stack.append(iter(element.children))
                break
            elif name == "include":
                message = "included files are not read"
                diagnostics.error(element, message, "copy their properties into this file")
            else:
                _check_nesting(element, _NOTHING, diagnostics)
        else:
            stack.pop()


def _check_nesting(element: Element, expected: frozenset[str], diagnostics: Diagnostics) -> None:
    """Report an element that Hadoop reads wherever it is, unless it is `expected` right inside."""
    stack = [(child, expected) for child in element.children]
    while stack:
        inner, expected = stack.pop()
        if inner.name in _READ_ANYWHERE and inner.name not in expected:
            message = f"<{inner.name}> is inside <{element.name}>, where only Hadoop reads it"
            diagnostics.error(inner, message, "move it out, or remove it")
            return
        stack += [(below, _NOTHING) for below in inner.children]


def _read_property(element: Element) -> _Property:
    found = _Property(element)
    attributes = element.attributes
    found.name = attributes.get("name", "").strip(TRIMMED)
    if attributes.get("value"):
        found.value = Text(element.line, element.column, attributes["value"])
    found.is_final = attributes.get("final", "").strip() == "true"
    for child in element.children:
        if child.name in {"name", "value"} and (child.children or not child.is_plain):
            found.not_plain = child
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


class VariableError(ValueError):
    """A variable cannot be replaced; the message gives the reason."""

    def __init__(self, message: str, position: Positioned) -> None:
        """Keep the message and the position of the value that contains the variable."""
        super().__init__(message)
        self.position = position


@dataclass(slots=True)
class ExpansionBudget:
    """The number of characters that replacing variables may still produce in a file, so that a
    small file cannot fill the memory.
    """

    left: int = MAX_BYTES


def expand(name: str, properties: Mapping[str, Text], budget: ExpansionBudget) -> str:
    """Return the value of a property with its variables replaced.

    Raises:
        VariableError: A variable is unknown or recursive, or the value becomes too long.
    """
    values = [properties[name]]
    text = values[0].text
    for _ in range(_MAX_SUBSTITUTIONS):
        found = _VARIABLE.search(text)
        if found is None:
            return text
        variable = found[1]
        position = next((one for one in reversed(values) if found[0] in one.text), values[0])
        if variable.startswith(_PROCESS_PREFIXES):
            message = f"{quoted(variable)} comes from the environment of Hadoop's process"
            raise VariableError(message, position)
        if variable not in properties:
            raise VariableError(f"{quoted(variable)} is not set in this file", position)
        value = properties[variable]
        budget.left -= len(text) + len(value.text)
        if budget.left < 0:
            message = "all values of the file together become too long"
            raise VariableError(message, position)
        if variable in _reachable(value.text, properties):
            raise VariableError(f"{quoted(variable)} contains itself", value)
        values.append(value)
        text = f"{text[: found.start()]}{value.text}{text[found.end() :]}"
        if len(text) > _MAX_VALUE_LENGTH:
            raise VariableError(f"{quoted(variable)} makes the value too long", position)
    if _VARIABLE.search(text):
        raise VariableError(f"there are more than {_MAX_SUBSTITUTIONS} variables", values[0])
    return text


def _reachable(text: str, properties: Mapping[str, Text]) -> set[str]:
    """Return the variables in a text and in their values, up to the bound on substitutions."""
    reachable: set[str] = set()
    stack = [text]
    while stack:
        for found in _VARIABLE.finditer(stack.pop()):
            if found[1] not in reachable and found[1] in properties:
                reachable.add(found[1])
                stack.append(properties[found[1]].text)
            if len(reachable) >= _MAX_SUBSTITUTIONS:
                return reachable
    return reachable
