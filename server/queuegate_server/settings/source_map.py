"""Locates errors in the settings by file:line:column, variable or option.

Converts pydantic's errors to diagnostics with our own messages.
"""

import json
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from types import UnionType
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from queuegate.policy.names import similar_name
from queuegate_server.config_fields import seconds, size, written_duration, written_size
from queuegate_server.files.toml import read_toml
from queuegate_server.formats.diagnostics import MAX_QUOTED, Diagnostic, quoted, shortened
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode
from queuegate_server.identity.resolver_types import (
    BadResolverType,
    ConfiguredResolver,
    options_type,
)
from queuegate_server.settings.model import RESOLVER_TYPE, Settings
from queuegate_server.settings.places import NAME, fields_by_key, where_it_belongs
from queuegate_server.settings.removed import explained, removed_setting

KeyPath = tuple[str, ...]
Location = tuple[str | int, ...]

_INVALID: Final = "invalid-setting"
"""The kind of a finding."""
_SECTION: Final = "must be a section of keys and values"
OPTION: Final = "--"
SET: Final = f"{OPTION}set"
"""The option that sets any key."""
_MESSAGES: Final[Mapping[str, str]] = read_toml(__file__, "messages.toml")
"""Messages by pydantic error type."""
_BOUNDS: Final = ("gt", "ge", "lt", "le")
_WRITERS: Final[dict[Any, Callable[[float], str]]] = {
    seconds: written_duration,
    size: written_size,
}
"""Formatters for a field's bounds, by the function that parses its value."""


@dataclass(frozen=True, slots=True)
class Override:
    """A value that overrides the file."""

    origin: str
    """The variable, or the option with its key, as shown in diagnostics."""
    path: KeyPath
    value: object


class SourceMap:
    """Finds the origin of each value in the settings."""

    def __init__(self, file: str, root: Node | None) -> None:
        self._file = file
        self._root = root
        self.origins: dict[KeyPath, str] = {}
        """The origins of the values that override the file."""

    def apply(self, tree: MutableMapping[str, Any], override: Override) -> Diagnostic | None:
        """Set the override's value in the tree. Return a diagnostic if a parent is a scalar."""
        *sections, last = override.path
        node = tree
        for depth, key in enumerate(sections):
            below = node.get(key)
            if below is None:
                below = node[key] = {}
            if not isinstance(below, MutableMapping):
                above = ".".join(override.path[: depth + 1])
                return error_in(override.origin, f"{above} is a single value, not a section")
            node = below
        node[last] = override.value
        for path in [path for path in self.origins if path[: len(override.path)] == override.path]:
            del self.origins[path]
        self.origins[override.path] = override.origin
        return None

    def nearest(self, path: KeyPath) -> tuple[str | None, bool]:
        """Return the origin of the override nearest to `path`, if any, and whether it set the value
        at `path`. If none set it, the nearest override is the one with the longest common path.
        """
        above = [path[:length] for length in range(len(path), 0, -1)]
        for part in above:
            if part in self.origins:
                return self.origins[part], True
        for part in above:
            for known, origin in self.origins.items():
                if known[: len(part)] == part:
                    return origin, False
        return None, False

    def diagnostic(
        self,
        location: Location,
        message: str,
        remedy: str = "",
        *,
        at_key: bool = False,
        value: object = None,
    ) -> Diagnostic:
        """Return a diagnostic about a key or its value, located at its origin.

        The value, if given, is shown only if it came from the command line.
        """
        path = tuple(str(part) for part in location)
        key = _written(location)
        origin, is_overridden = self.nearest(path)
        if origin and is_overridden and origin.startswith(OPTION):
            if value is not None and repr(value) not in message:
                message = f"{message}; got {_shown(value)}"
            if origin == f"{SET} {key}":
                return error_in(origin, message, remedy)
        text = f"{key}: {message}" if key else message
        if not is_overridden:
            depth, node = self._in_file(location, at_key=at_key)
            if node is not None and (depth == len(location) or origin is None):
                place = (self._file, node.line, node.column)
                return Diagnostic(*place, Severity.ERROR, text, remedy, finding=_INVALID)
        return error_in(origin or self._file, text, remedy)

    def warning(self, location: Location, message: str, remedy: str) -> Diagnostic:
        """Return a warning about a key or its value, located at its origin."""
        error = self.diagnostic(location, message, remedy)
        return replace(error, severity=Severity.WARNING, finding="suspicious-setting")

    def _in_file(self, location: Location, *, at_key: bool) -> tuple[int, Node | None]:
        """Return the number of leading parts found in the file, and the node to report."""
        node, reported, depth = self._root, self._root, 0
        for part in location:
            depth += 1
            if isinstance(part, int) and isinstance(node, MappingNode):
                continue  # a one-item list may be written as a single section
            below = _below(node, part)
            if below is None:
                return depth - 1, reported
            key, node = below
            is_value = isinstance(node, ScalarNode) and not node.is_null
            reported = node if is_value and not at_key else key
        return depth, reported


def error_in(origin: str, message: str, remedy: str = "") -> Diagnostic:
    """Return an error about a file, a variable or an option."""
    return Diagnostic(origin, 0, 0, Severity.ERROR, message, remedy, finding=_INVALID)


def locate(error: ErrorDetails, source_map: SourceMap, tree: Mapping[str, object]) -> Diagnostic:
    """Convert a pydantic error to a diagnostic, with our own message if there is one."""
    unknown, is_missing = error["type"] == "extra_forbidden", error["type"] == "missing"
    location = _without_tags(error["loc"], tree, is_missing=is_missing)
    template = _MESSAGES.get(error["type"])
    # Our own validators put a more specific message in the context.
    specific = error.get("ctx", {}).get("message")
    if specific is not None:
        message = str(specific)
    elif template is not None:
        write = _writer_of_bounds(location, tree)
        message = template.format_map(
            {
                name: write(value) if name in _BOUNDS else value
                for name, value in error.get("ctx", {}).items()
            }
        )
    else:
        message = error["msg"].replace("Input should ", "must ", 1).removeprefix("Value error, ")
    remedy = _known_keys(location, tree) if unknown else ""
    if template == _SECTION:
        keys = ", ".join(sorted(_fields_at(location, tree)))
        remedy = _missing_name(location) or (keys and f"known keys are {keys}")
    removed = removed_setting(location, _resolver_type(_keys(location), tree)) if unknown else None
    if removed is not None:
        message, remedy = explained(removed)
    value = error["input"]
    if unknown or is_missing or (template is None and not isinstance(value, str)):
        value = None
    return source_map.diagnostic(location, message, remedy, at_key=unknown, value=value)


def _shown(value: object) -> str:
    """Format a command-line value as YAML, and truncate it."""
    if isinstance(value, str):
        return quoted(value)
    return shortened(json.dumps(value, ensure_ascii=False, default=str), MAX_QUOTED)


def _writer_of_bounds(location: Location, tree: Mapping[str, object]) -> Callable[[float], str]:
    """Return the function that formats the bounds on the value at the given location."""
    bounded = _fields_at(location[:-1], tree).get(str(location[-1])) if location else None
    for constraint in bounded.metadata if bounded is not None else ():
        if isinstance(constraint, BeforeValidator) and constraint.func in _WRITERS:
            return _WRITERS[constraint.func]
    return "{:.15g}".format


def _below(node: Node | None, part: str | int) -> tuple[Node, Node] | None:
    """Return the key and value nodes for part of a location. A list item serves as both."""
    if isinstance(node, MappingNode):
        return node.entries.get(str(part))
    if isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.items):
        return node.items[part], node.items[part]
    return None


def _without_tags(location: Location, tree: object, *, is_missing: bool) -> Location:
    """Drop the parts of a pydantic location that name a union member instead of a key."""
    kept: list[str | int] = []
    for position, part in enumerate(location):
        if isinstance(tree, Mapping) and part in tree:
            tree = tree[part]
        elif isinstance(tree, Sequence) and not isinstance(tree, str) and isinstance(part, int):
            tree = tree[part] if part < len(tree) else None
        elif not (is_missing and position == len(location) - 1):
            continue
        kept.append(part)
    return tuple(kept)


def _written(location: Location) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _known_keys(location: Location, tree: Mapping[str, object]) -> str:
    """Suggest a key similar to an unknown key, or say where the key belongs, or list known keys."""
    known = sorted(_fields_at(location[:-1], tree))
    if location[:-2] == ("resolvers",):
        known = sorted((*known, RESOLVER_TYPE))
    *section, key = _keys(location)
    place = where_it_belongs(key, section, _resolver_type(section, tree))
    if similar := similar_name(key, known):
        return f"did you mean {similar}?" + (f" or write it {place}" if place else "")
    if place:
        return f"write it {place}; known keys here are {', '.join(known)}"
    return f"known keys are {', '.join(known)}"


def _missing_name(location: Location) -> str:
    """Say where a key belongs if it is in the place of a name, such as partitions.resolver."""
    *section, key = _keys(location)
    place = where_it_belongs(key, section, within=(*section, NAME))
    return f"write it {place}" if place else ""


def _keys(location: Location) -> list[str]:
    return [part for part in location if isinstance(part, str)]


def _resolver_type(section: Sequence[str], tree: Any) -> str:
    """Return the type of the resolver that contains a section; empty for other sections."""
    if section[:1] != ["resolvers"]:
        return ""
    for key in section[:2]:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return str(tree.get(RESOLVER_TYPE)) if isinstance(tree, Mapping) else ""


def _fields_at(location: Location, tree: Any) -> Mapping[str, FieldInfo]:
    """Return the fields of the section at the given location, except a resolver's `type`."""
    kind: Any = Settings
    for part in location:
        if isinstance(part, int):
            tree = tree[part] if isinstance(tree, Sequence) else None
        else:
            tree = tree.get(part) if isinstance(tree, Mapping) else None
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = fields_by_key(kind)[str(part)].annotation
        else:
            kind = get_args(kind)[0 if isinstance(part, int) else -1]
        if isinstance(kind, UnionType):
            kind = get_args(kind)[0]
        kind = _plain(kind)
        if kind is ConfiguredResolver:
            kind = _options(tree)
    if get_origin(kind) is tuple:
        # A one-item list may be written as a single section.
        kind = _plain(get_args(kind)[0])
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return fields_by_key(kind)
    return {}


def _plain(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _options(tree: Any) -> type[BaseModel] | None:
    try:
        return options_type(str(tree[RESOLVER_TYPE]))
    except (BadResolverType, KeyError, TypeError):
        return None
