"""Resolver types: built-in types, and entry points in other distributions.

A resolver type is a class whose `Options` attribute is a subclass of `ResolverOptions`. Its
constructor takes an instance of `Options` and does no I/O. Built-in types are imported on demand
so that only the drivers in use need to be installed. Other distributions register their types in
the entry-point group `queuegate.resolvers`.
"""

import importlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol, cast

from queuegate_server.identity.options import ChainOptions, ResolverOptions
from queuegate_server.identity.resolver import Resolver

RESOLVER_TYPES: Final[Mapping[str, str]] = {
    "entra": "queuegate_server.identity.resolvers.entra.entra_resolver:EntraResolver",
    "keycloak": "queuegate_server.identity.resolvers.keycloak.keycloak_resolver:KeycloakResolver",
    "ldap": "queuegate_server.identity.resolvers.ldap.ldap_resolver:LdapResolver",
    "no_groups": "queuegate_server.identity.resolvers.local:NoGroupsResolver",
    "none": "queuegate_server.identity.resolvers.local:NoResolver",
    "okta": "queuegate_server.identity.resolvers.okta.okta_resolver:OktaResolver",
    "os": "queuegate_server.identity.resolvers.nss:NssResolver",
    "test": "queuegate_server.identity.resolvers.local:StaticTableResolver",
}
"""The built-in types, as `module:class`. Entry points cannot replace them."""

CHAIN: Final = "chain"
"""The `type` of a chain in the settings; not available in policies."""

YUNIKORN_DEFAULT: Final = "none"
"""The default type for YuniKorn partitions if neither the settings nor the policy names one."""
YARN_DEFAULT: Final = "no_groups"
"""The default type for YARN partitions, and for Kubernetes RBAC, if the settings name none."""

WITHOUT_SOURCE: Final = frozenset({YUNIKORN_DEFAULT, YARN_DEFAULT})
"""The types that look up no groups."""

ENTRY_POINT_GROUP: Final = "queuegate.resolvers"

_METHODS: Final = ("open", "resolve", "close")


@dataclass(frozen=True, slots=True)
class ConfiguredResolver:
    """A resolver or chain in the settings."""

    type: str
    options: ResolverOptions | ChainOptions


class BadResolverType(Exception):
    """The resolver type does not exist or cannot be used; the message states the reason."""


class ResolverType(Protocol):
    """The interface of a resolver type (a class whose instances are resolvers)."""

    Options: type[ResolverOptions]

    def __call__(self, options: ResolverOptions, /) -> Resolver:
        """Construct a resolver with the given options."""


def types() -> frozenset[str]:
    """Return the names of all resolver types."""
    return frozenset(RESOLVER_TYPES) | _entry_points().keys()


def resolver_type(name: str) -> ResolverType:
    """Return the resolver type with the given name. Raises BadResolverType."""
    path = RESOLVER_TYPES.get(name)
    if path is not None:
        module, _, class_name = path.partition(":")
        return cast("ResolverType", getattr(importlib.import_module(module), class_name))
    points = _entry_points().get(name, [])
    if not points:
        raise _unknown_type(name, types())
    if len(points) > 1:
        sources = " and ".join(sorted(_distribution(point) for point in points))
        raise BadResolverType(f"the resolver `{name}` comes from {sources}: remove one")
    return _load(points[0])


def options_type(name: str) -> type[ResolverOptions | ChainOptions]:
    """Return the settings model for the given resolver type. Raises BadResolverType."""
    if name == CHAIN:
        return ChainOptions
    if name not in types():
        raise _unknown_type(name, {CHAIN, *types()})
    return resolver_type(name).Options


def _unknown_type(name: str, known: Collection[str]) -> BadResolverType:
    names = ", ".join(f"`{each}`" for each in sorted(known))
    return BadResolverType(f"this build has no `{name}` resolver; it has {names}")


def _load(point: EntryPoint) -> ResolverType:
    """Import a resolver type from another distribution, and check it. Raises BadResolverType."""
    source = f"the resolver `{point.name}` of {_distribution(point)}"
    try:
        loaded: Any = point.load()
    except Exception as error:
        raise BadResolverType(
            f"{source} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    options = getattr(loaded, "Options", None)
    if not (isinstance(options, type) and issubclass(options, ResolverOptions)):
        raise BadResolverType(f"{source} has no `Options` derived from ResolverOptions")
    missing = [name for name in _METHODS if not callable(getattr(loaded, name, None))]
    if missing:
        raise BadResolverType(f"{source} does not implement {' and '.join(missing)}")
    return cast("ResolverType", loaded)


def _entry_points() -> dict[str, list[EntryPoint]]:
    points: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name != CHAIN and point.name not in RESOLVER_TYPES:
            points.setdefault(point.name, []).append(point)
    return points


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
