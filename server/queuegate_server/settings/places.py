"""Finds the section where a misplaced key of the settings belongs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Any, Final, NamedTuple, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from queuegate_server.identity.resolver_types import (
    CHAIN,
    RESOLVER_TYPES,
    ConfiguredResolver,
    options_type,
)
from queuegate_server.settings.model import RESOLVER_TYPE, Settings

NAME: Final = "NAME"
"""A placeholder for a name that users choose, such as a partition's."""
_ALTERNATIVES: Final = ("admission", "queues", "schedulers")
"""A section with unrelated subsections. A key of one makes no sense in another."""
_RESOLVER: Final = len(("resolvers", NAME))


class SettingPlace(NamedTuple):
    """A section of the settings."""

    path: tuple[str, ...]
    resolver_type: str
    """The type of the resolver whose options these are; empty for any other section."""
    keys: frozenset[str]


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return a section's fields by the keys that users write."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


@cache
def places() -> tuple[SettingPlace, ...]:
    """Return all sections, including those of each built-in type of resolver that is installed."""
    return tuple(_places(Settings, (), ""))


def _places(kind: Any, path: tuple[str, ...], resolver_type: str) -> Iterator[SettingPlace]:
    if kind is ConfiguredResolver:
        for name in sorted({CHAIN, *RESOLVER_TYPES}):
            try:
                model = options_type(name)
            except ImportError:  # its driver is not installed
                continue
            options, *sections = _places(model, path, name)
            yield options._replace(keys=options.keys | {RESOLVER_TYPE})
            yield from sections
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = fields_by_key(kind)
        yield SettingPlace(path, resolver_type, frozenset(fields))
        for key, field in fields.items():
            yield from _places(field.annotation, (*path, key), resolver_type)
    else:
        below = (*path, NAME) if get_origin(kind) is Mapping else path
        for each in get_args(kind):
            yield from _places(each, below, resolver_type)


def where_it_belongs(
    key: str, section: Sequence[str], resolver_type: str = "", within: tuple[str, ...] = ()
) -> str:
    """Return where to write a key that is unknown in a section: "under log", "at the top level".

    Args:
        key: The key.
        section: The path of the section that contains it.
        resolver_type: The type of the resolver that contains the section, if any.
        within: Only places whose paths begin with these keys count.

    Returns:
        The nearest places; empty if no other section has the key.
    """
    distances: dict[tuple[str, ...], int] = {}
    for place in places():
        if key not in place.keys or place.path[: len(within)] != within:
            continue
        shared = _shared(section, place.path)
        above, below = section[shared:], [part for part in place.path[shared:] if part != NAME]
        if len(section) == len(place.path) == shared:
            return ""  # only another type of resolver has the key
        if tuple(section[:-1]) == place.path[:-1] == _ALTERNATIVES:
            continue
        if shared < _RESOLVER or place.resolver_type == resolver_type:
            distances[place.path] = len(above) + len(below)
    nearest = [path for path in distances if distances[path] == min(distances.values())]
    texts = ["at the top level"] if () in nearest else []
    if sections := sorted(_written(path, section) for path in nearest if path):
        texts.append(f"under {' or '.join(sections)}")
    return " or ".join(texts)


def _shared(section: Sequence[str], path: tuple[str, ...]) -> int:
    """Return the number of leading keys that a section's path shares with the path of a place."""
    pairs = zip(section, path, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[1] in {pair[0], NAME}, pairs))


def _written(path: tuple[str, ...], section: Sequence[str]) -> str:
    """Return a place's path, with the user's names where the section's path agrees with it."""
    parts = [*section[: _shared(section, path)], *path[_shared(section, path) :]]
    for depth, part in enumerate(path):
        if part == NAME and any(
            parts[depth] in place.keys for place in places() if place.path == path[: depth + 1]
        ):
            parts[depth] = NAME  # the path has a key where a name belongs
    return ".".join(parts)
