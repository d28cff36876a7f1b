"""Builds, shares and closes resolvers, which stay alive across reloads of the policy.

A partition takes the resolver that the settings name for it, otherwise the type that the
scheduler's configuration asks for (`usergroupresolver`), otherwise none. Partitions that name
the same resolver share its circuit breaker and bounds; each has a cache of its own.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from pydantic import ValidationError

from queuegate.policy.tree import Partition
from queuegate_server.identity import registry
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver, GuardedResolver
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.registry import ConfiguredResolver
from queuegate_server.identity.resolver import Outcome, Resolver

LookupObserver = Callable[[Outcome, float], None]
"""Called with the outcome and the seconds of each look-up."""


class PartitionIdentity(Protocol):
    """The settings of a partition that matter here."""

    @property
    def resolver(self) -> str | None:
        """The name of a resolver of the settings."""

    @property
    def cache(self) -> CacheOptions:
        """The options of the cache."""


class IdentitySettings(Protocol):
    """The settings that matter here."""

    @property
    def resolvers(self) -> Mapping[str, ConfiguredResolver]:
        """The resolvers by name."""

    def partition(self, name: str) -> PartitionIdentity:
        """Return the settings of a partition."""


class ResolverKey(NamedTuple):
    """The identity of a resolver."""

    name: str
    """Its name in the settings, or the type that the policy asks for."""
    defined_in: Literal["settings", "policy"]


class UnusableResolver(Exception):
    """A resolver cannot be used."""

    def __init__(self, partition: Partition, key: ResolverKey, message: str, remedy: str) -> None:
        """Build it from the partition that uses the resolver, the reason and the remedy."""
        super().__init__(message)
        self.partition = partition
        self.key = key
        self.message = message
        self.remedy = remedy


class UnusableResolvers(Exception):
    """The policy is valid, but groups cannot be resolved as it or the settings ask."""

    def __init__(self, unusable: Sequence[UnusableResolver]) -> None:
        """Build it from the unusable resolvers of all partitions."""
        super().__init__("; ".join(each.message for each in unusable))
        self.unusable = tuple(unusable)


class ResolverManager:
    """The resolvers in use, and the group resolver of each partition."""

    def __init__(
        self,
        settings: IdentitySettings,
        clock: Callable[[], float],
        wall: Callable[[], float],
        observe: Callable[[str, str], LookupObserver] | None = None,
        around: Callable[[str, Resolver], Resolver] = lambda _name, resolver: resolver,
    ) -> None:
        """Start without resolvers.

        Args:
            settings: The settings.
            clock: A monotonic clock, in seconds.
            wall: The wall clock, in seconds.
            observe: Returns the observer of a resolver's look-ups, by its name and where it is
                defined: by name in the `settings`, or by its type in the `policy`.
            around: Wraps each resolver, given its name.
        """
        self._observe = observe
        self._around = around
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._guarded: dict[ResolverKey, GuardedResolver] = {}
        self._groups: dict[tuple[str, ResolverKey], GroupResolver] = {}

    def resolvers(self) -> list[tuple[str, GuardedResolver]]:
        """Return the resolvers in use, each with where it is defined: `settings`, `policy`."""
        return [(key.defined_in, guarded) for key, guarded in self._guarded.items()]

    def reconfigure(self, settings: IdentitySettings) -> None:
        """Apply other settings, which differ only in their caches."""
        self._settings = settings
        for (partition, _), groups in self._groups.items():
            groups.reconfigure(settings.partition(partition).cache)

    async def for_partitions(self, partitions: Mapping[str, Partition]) -> dict[str, GroupResolver]:
        """Return the group resolver of each partition, ready to answer.

        A partition that keeps its resolver keeps its cache.

        Raises:
            UnusableResolvers: Some resolvers cannot be used.
        """
        chosen: dict[str, GroupResolver] = {}
        unusable: list[UnusableResolver] = []
        for name, partition in partitions.items():
            try:
                chosen[name] = await self._opened(partition)
            except UnusableResolver as error:
                unusable.append(error)
        if unusable:
            raise UnusableResolvers(unusable)
        return chosen

    async def close_unused(self, used: Collection[GroupResolver]) -> None:
        """Close all group resolvers but these, and the resolvers that nobody uses any more."""
        unused = [each for each, groups in self._groups.items() if groups not in used]
        for partition_and_key in unused:
            await self._groups.pop(partition_and_key).close()
        for key in self._guarded.keys() - {key for _, key in self._groups}:
            await self._guarded.pop(key).close()

    async def close(self) -> None:
        """Close everything."""
        await self.close_unused(())

    async def _opened(self, partition: Partition) -> GroupResolver:
        name = self._settings.partition(partition.name).resolver
        if name is None:
            key = ResolverKey(partition.resolver_type or registry.DEFAULT_TYPE, "policy")
        else:
            key = ResolverKey(name, "settings")
        groups = self._groups.get((partition.name, key))
        if groups is None:
            guarded = self._guarded.get(key)
            if guarded is None:
                guarded = self._guarded[key] = await self._open_resolver(partition, key)
            cache = GroupCache(
                self._settings.partition(partition.name).cache, self._clock, self._wall
            )
            groups = GroupResolver(guarded, cache, clock=self._clock)
            self._groups[partition.name, key] = groups
        return groups

    async def _open_resolver(self, partition: Partition, key: ResolverKey) -> GuardedResolver:
        asks = f"partition {partition.name!r} asks for the resolver type {key.name!r}"
        setting = f"`partitions.{partition.name}.resolver`"
        other = f"set {setting} to use another one"
        try:
            if key.defined_in == "settings":
                configured = self._settings.resolvers[key.name]
                resolver_type = registry.resolver_type(configured.type)
                options = configured.options
            else:
                resolver_type = registry.resolver_type(key.name)
                options = resolver_type.Options()
        except registry.BadResolverType as error:
            raise UnusableResolver(partition, key, f"{asks}: {error}", other) from error
        except ValidationError as error:
            faults = "; ".join(fault["msg"] for fault in error.errors(include_input=False))
            raise UnusableResolver(
                partition,
                key,
                f"{asks}, which needs settings: {faults}",
                f"add it to `resolvers` and name it in {setting}",
            ) from error
        resolver = self._around(key.name, resolver_type(options))
        try:
            await resolver.open()
        except Exception as error:  # whatever a resolver raises, its set-up is at fault
            is_configured = key.defined_in == "settings"
            raise UnusableResolver(
                partition,
                key,
                f"partition {partition.name!r} uses the resolver {key.name!r}, which cannot be"
                f" opened: {type(error).__name__}: {error}",
                f"correct `resolvers.{key.name}`, or {other}" if is_configured else other,
            ) from error
        return GuardedResolver(
            key.name,
            resolver,
            options,
            clock=self._clock,
            observe=self._observe and self._observe(key.name, key.defined_in),
        )
