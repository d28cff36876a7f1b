"""Turns what pydantic found wrong into findings that name their place."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from queuegate_server.formats import yaml_nodes
from queuegate_server.formats.diagnostics import Diagnostic, Severity
from queuegate_server.formats.yaml_nodes import Node, Scalar
from queuegate_server.identity.registry import (
    BrokenResolverType,
    UnknownResolverType,
    options_model,
)
from queuegate_server.settings.model import Settings
from queuegate_server.settings.overrides import Overrides
from queuegate_server.settings.resolvers import TYPE, ConfiguredResolver

Location = tuple[str | int, ...]

_SECTION: Final = "must be a section of keys and values"
_LIST: Final = "must be a list"
_NUMBER: Final = "must be a whole number"
_TEXT: Final = "must be a text"
_MESSAGES: Final = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": _SECTION,
    "mapping_type": _SECTION,
    "model_type": _SECTION,
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "extra_forbidden": "unknown key",
    "finite_number": "must be a number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "int_from_float": _NUMBER,
    "int_parsing": _NUMBER,
    "int_type": _NUMBER,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "missing": "is required",
    "path_type": _TEXT,
    "string_pattern_mismatch": "must be of the form {pattern}",
    "string_type": _TEXT,
    "too_short": "must not be empty",
}
"""By pydantic's type of fault. Values are not repeated: one might be a secret at the
wrong key."""


class Places:
    """Where the values of the settings came from."""

    def __init__(self, file: str, root: Node | None, overrides: Overrides) -> None:
        """Take the file's name and content, and what was laid over it."""
        self._file = file
        self._root = root
        self._overrides = overrides

    def problem(
        self, location: Location, message: str, remedy: str = "", *, at_key: bool = False
    ) -> Diagnostic:
        """Return a finding about a key or its value, with the place it came from."""
        path = tuple(str(part) for part in location)
        text = f"{_written(location)}: {message}" if location else message
        origin = self._overrides.origin(path)
        if origin is None:
            depth, place = self._in_file(location, at_key=at_key)
            nearest = self._overrides.nearest(path)
            if place is not None and (depth == len(location) or nearest is None):
                return Diagnostic(
                    self._file, place.line, place.column, Severity.ERROR, text, remedy
                )
            origin = nearest or self._file
        return Diagnostic(origin, 0, 0, Severity.ERROR, text, remedy)

    def _in_file(self, location: Location, *, at_key: bool) -> tuple[int, Node | None]:
        """Return how much of a location the file has, and the node to point at."""
        node, place, depth = self._root, self._root, 0
        for part in location:
            below = _below(node, part)
            if below is None:
                break
            key, node = below
            depth += 1
            is_value = isinstance(node, Scalar) and not node.is_null
            place = node if is_value and not at_key else key
        return depth, place


def located(error: ErrorDetails, places: Places, tree: Mapping[str, object]) -> Diagnostic:
    """Return a finding of pydantic with its place, in our words where we have any."""
    location = _without_tags(error["loc"], tree, is_missing=error["type"] == "missing")
    template = _MESSAGES.get(error["type"])
    # A text of our own, which says more than the type, is in the context.
    own = error.get("ctx", {}).get("message")
    if own is not None:
        message = str(own)
    elif template is not None:
        message = template.format_map(_plain(error.get("ctx", {})))
    else:
        message = error["msg"].replace("Input should ", "must ", 1).removeprefix("Value error, ")
    unknown = error["type"] == "extra_forbidden"
    remedy = _known_keys(location, tree) if unknown else ""
    return places.problem(location, message, remedy, at_key=unknown)


def _plain(context: Mapping[str, Any]) -> dict[str, Any]:
    """Write bounds as people do: 3600, not 3600.0."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in context.items()
    }


def _below(node: Node | None, part: str | int) -> tuple[Node, Node] | None:
    """Return the key and value, or the item twice, that a part of a location names."""
    if isinstance(node, yaml_nodes.Mapping):
        return node.entries.get(str(part))
    if isinstance(node, yaml_nodes.Sequence) and isinstance(part, int) and part < len(node.items):
        return node.items[part], node.items[part]
    return None


def _without_tags(location: Location, tree: object, *, is_missing: bool) -> Location:
    """Drop what names no key but the branch of a union that pydantic tried."""
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
    """Return the remedy for an unknown key."""
    known = sorted(_keys_at(location[:-1], tree))
    near = difflib.get_close_matches(str(location[-1]), known, 1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _keys_at(location: Location, tree: Any) -> Iterator[str]:
    """Yield the keys that the section at a location may have."""
    kind: Any = Settings
    for part in location:
        if isinstance(part, int):
            tree = tree[part] if isinstance(tree, Sequence) else None
        else:
            tree = tree.get(part) if isinstance(tree, Mapping) else None
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = kind.model_fields[str(part)].annotation
        else:
            kind = get_args(kind)[0 if isinstance(part, int) else -1]
        if isinstance(kind, UnionType):
            kind = get_args(kind)[0]
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        if kind is ConfiguredResolver:
            yield TYPE
            kind = _options(tree)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from kind.model_fields


def _options(tree: Any) -> type[BaseModel] | None:
    try:
        return options_model(str(tree[TYPE]))
    except (UnknownResolverType, BrokenResolverType, KeyError, TypeError):
        return None
