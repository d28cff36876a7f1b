"""Builds, shares and closes resolvers, which stay alive across reloads of the policy.

A partition takes the resolver that the settings name for it, otherwise the type that the
scheduler's configuration asks for (`usergroupresolver`), otherwise none. Partitions that name
the same resolver share its circuit breaker and bounds; each has a cache of its own.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

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


class UnusableResolver(NamedTuple):
    """A resolver that cannot be used, and the remedy."""

    partition: Partition
    from_policy: bool
    """Whether the policy asks for it, and not the settings."""
    message: str
    remedy: str


class UnusableResolvers(Exception):
    """The policy is valid, but groups cannot be resolved as it or the settings ask."""

    def __init__(self, unusable: Sequence[UnusableResolver]) -> None:
        """Build it from the unusable resolvers of all partitions."""
        super().__init__("; ".join(each.message for each in unusable))
        self.unusable = tuple(unusable)


class _Unusable(Exception):
    """A resolver cannot be used."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class _Key(NamedTuple):
    """What identifies a resolver."""

    name: str
    is_type: bool
    """Whether the name is the type that the policy asks for, and not one of the settings."""

    @property
    def defined_in(self) -> str:
        return "policy" if self.is_type else "settings"


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
        self._guarded: dict[_Key, GuardedResolver] = {}
        self._groups: dict[tuple[str, _Key], GroupResolver] = {}

    def resolvers(self) -> list[tuple[str, GuardedResolver]]:
        """Return the resolvers in use, each with where it is defined: `settings`, `policy`."""
        return [(key.defined_in, guarded) for key, guarded in self._guarded.items()]

    def reconfigure(self, settings: IdentitySettings) -> None:
        """Use other settings from now on, of which only the caches differ."""
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
            key = self._key(partition)
            try:
                chosen[name] = await self._opened(name, key)
            except _Unusable as error:
                unusable.append(
                    UnusableResolver(partition, key.is_type, error.message, error.remedy)
                )
        if unusable:
            raise UnusableResolvers(unusable)
        return chosen

    async def close_unused(self, used: Collection[GroupResolver]) -> None:
        """Close all group resolvers but these, and the resolvers that nobody uses any more."""
        unused = [key for key, groups in self._groups.items() if groups not in used]
        for key in unused:
            await self._groups.pop(key).close()
        in_use = {key for _, key in self._groups}
        self._guarded = {key: each for key, each in self._guarded.items() if key in in_use}

    async def close(self) -> None:
        """Close everything."""
        await self.close_unused(())

    def _key(self, partition: Partition) -> _Key:
        name = self._settings.partition(partition.name).resolver
        if name is None:
            return _Key(partition.resolver_type or registry.DEFAULT_TYPE, is_type=True)
        return _Key(name, is_type=False)

    async def _opened(self, partition: str, key: _Key) -> GroupResolver:
        groups = self._groups.get((partition, key))
        if groups is None:
            groups = self._build(partition, key)
            try:
                await groups.open()
            except Exception as error:  # whatever a resolver raises, its set-up is at fault
                other = f"set `partitions.{partition}.resolver` to use another one"
                raise _Unusable(
                    f"partition {partition!r} uses the resolver {key.name!r}, which cannot be"
                    f" opened: {type(error).__name__}: {error}",
                    other if key.is_type else f"correct `resolvers.{key.name}`, or {other}",
                ) from error
            self._groups[partition, key] = groups
        return groups

    def _build(self, partition: str, key: _Key) -> GroupResolver:
        guarded = self._guarded.get(key)
        if guarded is None:
            guarded = self._guarded[key] = self._build_guarded(partition, key)
        options = self._settings.partition(partition).cache
        return GroupResolver(
            guarded, GroupCache(options, self._clock, self._wall), clock=self._clock
        )

    def _build_guarded(self, partition: str, key: _Key) -> GuardedResolver:
        try:
            if key.is_type:
                configured = ConfiguredResolver(key.name, registry.options_model(key.name)())
            else:
                configured = self._settings.resolvers[key.name]
            resolver = registry.build(configured.type, configured.options)
        except (registry.UnknownResolverType, registry.BrokenResolverType) as error:
            raise _Unusable(
                f"partition {partition!r} asks for the resolver type {key.name!r}: {error}",
                f"set `partitions.{partition}.resolver` to use another one",
            ) from error
        except ValidationError as error:
            faults = "; ".join(fault["msg"] for fault in error.errors(include_input=False))
            raise _Unusable(
                f"partition {partition!r} asks for the resolver type {key.name!r}, which needs"
                f" settings: {faults}",
                f"add it to `resolvers` and name it in `partitions.{partition}.resolver`",
            ) from error
        return GuardedResolver(
            key.name,
            self._around(key.name, resolver),
            configured.options,
            clock=self._clock,
            observe=self._observe and self._observe(key.name, key.defined_in),
        )
