"""Reads the properties in Hadoop's configuration files as Hadoop's `Configuration` does.

Later files override earlier files. The last value of a property wins unless an earlier value is
final. A property without a value sets nothing but may be final. Values are not trimmed; names are
trimmed if given as elements, not as attributes. Included files are not read.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.xml_reader import Element, read_xml
from queuegate_server.formats.yarn.variables import (
    ExpansionBudget,
    LocatedText,
    VariableError,
    expand,
)

_READ_ANYWHERE: Final = frozenset({"fallback", "final", "include", "name", "property", "value"})
"""The elements that Hadoop reads at any depth."""
_IN_PROPERTY: Final = frozenset({"name", "value", "final"})
_NOTHING: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class Configuration:
    """Properties from several files. Later files override earlier files."""

    _values: dict[str, LocatedText] = field(default_factory=dict)
    _final: dict[str, LocatedText] = field(default_factory=dict)
    """The positions of final properties by name."""
    _not_plain: dict[str, Element] = field(default_factory=dict)
    """The name or value element that is not plain text, by property name."""
    _files: list[str] = field(default_factory=list)
    is_incomplete: bool = False
    """Whether properties were not read because of an error, such as those of included files."""

    def copy(self) -> "Configuration":
        """Return a copy, to which files can be added without changing the original."""
        values, final, not_plain = dict(self._values), dict(self._final), dict(self._not_plain)
        return Configuration(values, final, not_plain, [*self._files], self.is_incomplete)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def position(self, name: str) -> LocatedText | None:
        """Return a property's unexpanded value with its position; None if it is unset."""
        return self._values.get(name)

    def add(self, data: bytes, diagnostics: Diagnostics, *, is_read: Callable[[str], bool]) -> bool:
        """Add a file that overrides the previously added files.

        Returns False and adds an error for anything but a Hadoop configuration file. Warns if this
        file overrides another file's value of a property selected by `is_read`.
        """
        root = read_xml(data, diagnostics)
        if root is None:
            return False
        if root.name != "configuration":
            diagnostics.add(root, finding("not-a-configuration", name=root.name))
            return False
        errors = diagnostics.error_count
        for element in _property_elements(root, diagnostics):
            self._add(_read_property(element, diagnostics), diagnostics, is_read)
        self.is_incomplete |= diagnostics.error_count > errors
        self._files.append(diagnostics.file)
        return True

    def read(
        self,
        diagnostics: Diagnostics,
        *,
        is_read: Callable[[str], bool],
        is_literal: Callable[[str], bool] = lambda _: False,
    ) -> dict[str, LocatedText]:
        """Return the properties by name, and add an error for each unreadable property.

        Properties selected by `is_read` must be plain text. Their variables are expanded, except in
        properties selected by `is_literal`.
        """
        values = dict(self._values)
        budget = ExpansionBudget()
        for name, value in self._values.items():
            if not is_read(name):
                continue
            if element := self._not_plain.get(name):
                position = LocatedText(element.line, element.column, "", value.file)
                diagnostics.add(position, finding("value-with-markup", name=quoted(name)))
            if "${" not in value.text or is_literal(name):
                continue
            try:
                values[name] = value._replace(text=self.expand(name, budget))
            except VariableError as error:
                found = finding("variable-not-expanded", name=quoted(name), why=error)
                diagnostics.add(error.position, found)
                if budget.left < 0:
                    break
        return values

    def expand(self, name: str, budget: ExpansionBudget) -> str:
        """Return an existing property's value with its variables expanded.

        Raises VariableError if a variable is unknown or recursive, or the value becomes too long.
        """
        files = self._files
        return expand(name, self._values, budget, " or ".join(files) if files[1:] else "this file")

    def _add(
        self, stated: "_Property", diagnostics: Diagnostics, is_read: Callable[[str], bool]
    ) -> None:
        """Apply Hadoop's rules for repeated, final and empty properties."""
        name, position, value = stated.name, stated.element, stated.value
        if not name:
            diagnostics.add(position, finding("property-without-name"))
            return
        if value is None:
            if is_acl(name):
                more = ", and is final: later values are ignored" if stated.is_final else ""
                found = finding("empty-acl-property", name=quoted(name), final=more)
                diagnostics.add(position, found)
        elif final := self._final.get(name):
            self._report_final(stated, final, diagnostics)
        else:
            self._report_replaced(stated, diagnostics, is_read)
            self._values[name] = value
            self._not_plain.pop(name, None)
            if stated.not_plain:
                self._not_plain[name] = stated.not_plain
        if stated.is_final:
            place = LocatedText(position.line, position.column, "", diagnostics.file)
            self._final.setdefault(name, place)

    def _report_final(
        self, stated: "_Property", final: LocatedText, diagnostics: Diagnostics
    ) -> None:
        """Report a value that an earlier, final value overrides, unless both are the same."""
        kept = self._values.get(stated.name)
        where, value = f"in {_place(final)}", ""
        if final.file == diagnostics.file:
            where = "above"
        elif kept is None:
            where = f"and empty in {_place(final)}"
        elif stated.value is None or kept.text == stated.value.text:
            return
        else:
            value = f": {quoted(kept.text)} applies"
        found = finding("final-property", name=quoted(stated.name), where=where, kept=value)
        diagnostics.add(stated.element, found)

    def _report_replaced(
        self, stated: "_Property", diagnostics: Diagnostics, is_read: Callable[[str], bool]
    ) -> None:
        replaced, value = self._values.get(stated.name), stated.value
        if replaced is None or value is None:
            return
        name = quoted(stated.name)
        if replaced.file == diagnostics.file:
            diagnostics.add(stated.element, finding("repeated-property", name=name))
        elif is_read(stated.name) and replaced.text != value.text:
            found = finding("property-replaced", name=name, place=_place(value))
            diagnostics.add(replaced, found)


def boolean(text: LocatedText) -> bool | None:
    """Parse a boolean as Hadoop does; None if it is invalid."""
    return {"true": True, "false": False}.get(text.text.strip(TRIMMED).lower())


def is_acl(name: str) -> bool:
    """Return whether the named property is an ACL."""
    return name == "yarn.admin.acl" or name.rpartition(".")[2].startswith("acl_")


@dataclass(slots=True)
class _Property:
    element: Element
    name: str = ""
    value: LocatedText | None = None
    is_final: bool = False
    not_plain: Element | None = None
    """The name or value element that is not plain text."""


def _place(text: LocatedText) -> str:
    return f"{text.file}:{text.line}:{text.column}"


def _property_elements(root: Element, diagnostics: Diagnostics) -> Iterator[Element]:
    """Yield the elements of properties, including nested configurations; report other elements."""
    stack = [iter(root.children)]
    while stack:
        for element in stack[-1]:
            name = _local(element.name)
            if name == "property":
                _check_nesting(element, _IN_PROPERTY, diagnostics)
                yield element
            elif name == "configuration":
                stack.append(iter(element.children))
                break
            elif name == "include":
                file = quoted(_attributes(element).get("href", ""))
                diagnostics.add(element, finding("include", file=file))
            elif name == "fallback":
                diagnostics.add(element, finding("fallback"))
            else:
                _check_nesting(element, _NOTHING, diagnostics)
        else:
            stack.pop()


def _check_nesting(element: Element, expected: frozenset[str], diagnostics: Diagnostics) -> None:
    """Report a misplaced element that Hadoop would read. `expected` names the valid children."""
    stack = [(child, expected) for child in element.children]
    while stack:
        inner, expected = stack.pop()
        name = _local(inner.name)
        if name in _READ_ANYWHERE and name not in expected:
            found = finding("misplaced-element", name=inner.name, outer=element.name)
            diagnostics.add(inner, found)
            return
        stack += [(below, _NOTHING) for below in inner.children]


def _read_property(element: Element, diagnostics: Diagnostics) -> _Property:
    """Return a property as Hadoop reads it: a child element takes precedence over an attribute."""
    result = _Property(element)
    file, attributes = diagnostics.file, _attributes(element)
    # Hadoop trims only the text of elements, and accepts an empty attribute as a value.
    result.name = attributes.get("name", "")
    if "value" in attributes:
        result.value = LocatedText(element.line, element.column, attributes["value"], file)
    final = attributes.get("final", "")
    for child in element.children:
        name = _local(child.name)
        if name in {"name", "value"} and (child.children or not child.is_plain):
            result.not_plain = child
        match name:
            case "name" if child.text:
                result.name = child.text.strip(TRIMMED)
            case "value" if child.text:
                result.value = LocatedText(child.line, child.column, child.text, file)
            case "final":
                final = child.text
    if result.name != result.name.strip(TRIMMED):
        diagnostics.add(element, finding("white-space-around-name", name=quoted(result.name)))
    result.is_final = final == "true"
    if not result.is_final and final.strip().lower() == "true":
        diagnostics.add(element, finding("final-in-other-words", text=quoted(final)))
    return result


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _attributes(element: Element) -> Mapping[str, str]:
    return {_local(name): value for name, value in element.attributes.items()}
