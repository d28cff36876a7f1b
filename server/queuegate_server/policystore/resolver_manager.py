"""Which resolver answers for which partition, kept alive across reloads.

A partition takes the resolver that the settings name for it, otherwise the type
that the scheduler's configuration asks for (`usergroupresolver`), otherwise none.
Partitions that name the same resolver share its breaker and bounds; each has a
cache of its own.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import ValidationError

from queuegate.policy.tree import Partition
from queuegate_server.identity import registry
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver, GuardedResolver
from queuegate_server.identity.resolver import Outcome, Resolver
from queuegate_server.settings.model import PartitionSettings, Settings

_DEFAULTS: Final = PartitionSettings()

LookupObserver = Callable[[Outcome, float], None]
"""Is told the outcome and the seconds of each look-up."""


class Unusable(NamedTuple):
    """A source of groups that cannot be used, and what to do about it."""

    partition: Partition
    from_policy: bool
    """True if the policy asks for it; False if the settings do."""
    message: str
    remedy: str


class CannotServe(Exception):
    """The policy is valid, but groups cannot be resolved as it or the settings ask."""

    def __init__(self, unusable: Sequence[Unusable]) -> None:
        """Keep what cannot be used, for all partitions."""
        super().__init__("; ".join(one.message for one in unusable))
        self.unusable = tuple(unusable)


class _Refused(Exception):
    """A source cannot be used: why, and what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class _Source(NamedTuple):
    """A resolver to use."""

    name: str
    is_type: bool
    """True if the name is the type that the policy asks for; False if it is one of the
    settings' resolvers."""

    @property
    def defined_in(self) -> str:
        return "policy" if self.is_type else "settings"


class ResolverManager:
    """Builds, shares and closes the sources of groups. Used from one event loop."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float],
        wall: Callable[[], float],
        observe: Callable[[str, str], LookupObserver] | None = None,
        around: Callable[[str, Resolver], Resolver] = lambda _name, resolver: resolver,
    ) -> None:
        """Take the settings, a monotonic and a wall clock in seconds, what returns the
        observer of a resolver's look-ups by its name and where it is defined (in the
        `settings` or by its type in the `policy`), and what is put around each resolver,
        given its name.
        """
        self._observe = observe
        self._around = around
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._resolvers: dict[_Source, GuardedResolver] = {}
        self._groups: dict[tuple[str, _Source], GroupResolver] = {}

    def resolvers(self) -> list[tuple[str, GuardedResolver]]:
        """Return the resolvers in use, each with where it is defined: `settings`, `policy`."""
        return [(source.defined_in, shared) for source, shared in self._resolvers.items()]

    def of_partition(self, name: str) -> PartitionSettings:
        """Return what is set for a partition."""
        return self._settings.partitions.get(name, _DEFAULTS)

    def reconfigure(self, settings: Settings) -> None:
        """Use other settings from now on, of which only the caches differ."""
        self._settings = settings
        for (partition, _), groups in self._groups.items():
            groups.reconfigure(self.of_partition(partition).cache)

    def without_partition(self, partitions: Collection[str]) -> list[str]:
        """Return a message for each partition of the settings that the policy does not have."""
        messages = []
        names = ", ".join(repr(name) for name in sorted(partitions)) or "none"
        for name in self._settings.partitions:
            if name not in partitions:
                message = f"the settings name the partition {name!r}, the policy has {names}"
                same = [other for other in partitions if other.casefold() == name.casefold()]
                if same:
                    message += f"; {name!r} and {same[0]!r} differ in case only"
                messages.append(message)
        return messages

    async def for_partitions(self, partitions: Mapping[str, Partition]) -> dict[str, GroupResolver]:
        """Return the source of groups of each partition, ready to answer.

        A partition that keeps its resolver keeps its cache. Raises CannotServe.
        """
        chosen: dict[str, GroupResolver] = {}
        unusable: list[Unusable] = []
        for name, partition in partitions.items():
            source = self._source(partition)
            try:
                chosen[name] = await self._opened(name, source)
            except _Refused as error:
                unusable.append(Unusable(partition, source.is_type, error.message, error.remedy))
        if unusable:
            raise CannotServe(unusable)
        return chosen

    async def close_unused(self, used: Collection[GroupResolver]) -> None:
        """Close all sources but these."""
        unused = [key for key, groups in self._groups.items() if groups not in used]
        for key in unused:
            await self._groups.pop(key).close()
        in_use = {source for _, source in self._groups}
        self._resolvers = {
            source: shared for source, shared in self._resolvers.items() if source in in_use
        }

    async def close(self) -> None:
        """Close everything."""
        await self.close_unused(())

    def _source(self, partition: Partition) -> _Source:
        name = self.of_partition(partition.name).resolver
        if name is None:
            return _Source(partition.resolver_type or registry.DEFAULT_TYPE, is_type=True)
        return _Source(name, is_type=False)

    async def _opened(self, partition: str, source: _Source) -> GroupResolver:
        groups = self._groups.get((partition, source))
        if groups is None:
            groups = self._build(partition, source)
            try:
                await groups.open()
            except Exception as error:  # whatever a resolver raises, its set-up is at fault
                other = f"set `partitions.{partition}.resolver` to use another one"
                raise _Refused(
                    f"partition {partition!r} uses the resolver {source.name!r}, which cannot be"
                    f" opened: {type(error).__name__}: {error}",
                    other if source.is_type else f"correct `resolvers.{source.name}`, or {other}",
                ) from error
            self._groups[partition, source] = groups
        return groups

    def _build(self, partition: str, source: _Source) -> GroupResolver:
        shared = self._resolvers.get(source)
        if shared is None:
            shared = self._resolvers[source] = self._resolver(partition, source)
        cache = GroupCache(self.of_partition(partition).cache, self._clock, self._wall)
        return GroupResolver(shared, cache, clock=self._clock)

    def _resolver(self, partition: str, source: _Source) -> GuardedResolver:
        try:
            if source.is_type:
                resolver_type = source.name
                options = registry.options_model(resolver_type)()
            else:
                configured = self._settings.resolvers[source.name]
                resolver_type, options = configured.type, configured.options
            resolver = self._around(source.name, registry.build(resolver_type, options))
        except (registry.UnknownResolverType, registry.BrokenResolverType) as error:
            raise _Refused(
                f"partition {partition!r} asks for the resolver type {source.name!r}: {error}",
                f"set `partitions.{partition}.resolver` to use another one",
            ) from error
        except ValidationError as error:
            faults = "; ".join(fault["msg"] for fault in error.errors(include_input=False))
            raise _Refused(
                f"partition {partition!r} asks for the resolver type {source.name!r}, which needs"
                f" settings: {faults}",
                f"add it to `resolvers` and name it in `partitions.{partition}.resolver`",
            ) from error
        observe = self._observe and self._observe(source.name, source.defined_in)
        return GuardedResolver(source.name, resolver, options, clock=self._clock, observe=observe)
