"""The resolver types: a table of ours, and the entry points of other distributions.

A resolver type is a class with a class attribute `Options`, a subclass of `ResolverOptions`. It
is built from an instance of these; building does no I/O. Our types are named in the table as
text, since reading the settings must not need every driver. Other distributions register theirs
in the entry-point group `queuegate.resolvers`.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol, cast

from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import Resolver

RESOLVER_TYPES: Final[Mapping[str, str]] = {
    "ldap": "queuegate_server.identity.resolvers.ldap.resolver:LdapResolver",
    "none": "queuegate_server.identity.resolvers.local:NoResolver",
    "os": "queuegate_server.identity.resolvers.nss:NssResolver",
    "test": "queuegate_server.identity.resolvers.local:StaticTableResolver",
}
"""Our types, as `module:class`. An entry point cannot replace them."""

DEFAULT_TYPE: Final = "none"
"""The type that an empty name means."""

ENTRY_POINT_GROUP: Final = "queuegate.resolvers"


@dataclass(frozen=True, slots=True)
class ConfiguredResolver:
    """A resolver of the settings."""

    type: str
    options: ResolverOptions


class UnknownResolverType(Exception):
    """There is no resolver type of that name."""

    def __init__(self, name: str, known: frozenset[str]) -> None:
        """Build it from the name asked for and the types that exist."""
        names = ", ".join(f"`{known_name}`" for known_name in sorted(known))
        super().__init__(f"this build has no `{name}` resolver; it has {names}")
        self.name = name
        self.known = known


class BrokenResolverType(Exception):
    """A resolver type of another distribution cannot be used; the text says why."""


class ResolverType(Protocol):
    """A class whose instances are resolvers."""

    Options: type[ResolverOptions]

    def __call__(self, options: ResolverOptions, /) -> Resolver:
        """Build a resolver."""


def types() -> frozenset[str]:
    """Return the names of all types."""
    return frozenset(RESOLVER_TYPES) | _entry_points().keys()


def options_model(name: str) -> type[ResolverOptions]:
    """Return the options model of a type. An empty name means `none`.

    Raises:
        UnknownResolverType: There is no such type.
        BrokenResolverType: The type cannot be used.
    """
    return _load(name or DEFAULT_TYPE).Options


def build(name: str, options: ResolverOptions) -> Resolver:
    """Build a resolver of a type from options of its model, without any I/O.

    Raises:
        UnknownResolverType: There is no such type.
        BrokenResolverType: The type cannot be used.
    """
    resolver_type = _load(name or DEFAULT_TYPE)
    if not isinstance(options, resolver_type.Options):
        raise TypeError(f"options of `{name}` are {resolver_type.Options.__name__}")
    return resolver_type(options)


def _load(name: str) -> ResolverType:
    path = RESOLVER_TYPES.get(name)
    if path is not None:
        module, _, class_name = path.partition(":")
        return cast("ResolverType", getattr(importlib.import_module(module), class_name))
    found = _entry_points().get(name, [])
    if not found:
        raise UnknownResolverType(name, types())
    if len(found) > 1:
        sources = " and ".join(sorted(_distribution(point) for point in found))
        raise BrokenResolverType(f"the resolver `{name}` comes from {sources}: remove one")
    return _checked(found[0])


def _checked(point: EntryPoint) -> ResolverType:
    source = f"the resolver `{point.name}` of {_distribution(point)}"
    try:
        loaded: Any = point.load()
    except Exception as error:
        raise BrokenResolverType(
            f"{source} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    options = getattr(loaded, "Options", None)
    if not (isinstance(options, type) and issubclass(options, ResolverOptions)):
        raise BrokenResolverType(f"{source} has no `Options` derived from ResolverOptions")
    return cast("ResolverType", loaded)


def _entry_points() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name not in RESOLVER_TYPES:
            found.setdefault(point.name, []).append(point)
    return found


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
