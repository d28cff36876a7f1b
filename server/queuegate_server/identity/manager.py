"""Creates, shares and closes resolvers, and keeps them open across policy reloads.

A partition uses the resolver named in its settings. Without one, it uses the type named in the
scheduler's configuration (`usergroupresolver`), if any, or the scheduler's default type. Partitions
with the same resolver share its circuit breaker and limits, even if one of them uses the resolver
in a chain. Each partition has its own cache.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Literal, NamedTuple, Protocol, cast

from pydantic import ValidationError

from queuegate.policy.tree import Partition
from queuegate_server.identity import resolver_types
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.following import ChangeFollower
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import ChainOptions, PartitionOptions, ResolverOptions
from queuegate_server.identity.resolver import Outcome, Resolver
from queuegate_server.identity.resolver_chain import GroupSource, ResolverChain
from queuegate_server.identity.resolver_types import ConfiguredResolver, ResolverType
from queuegate_server.identity.shared import (
    CacheLease,
    EndlessLease,
    FollowerLease,
    OwnSource,
    SharedGroups,
)


class IdentitySettings(Protocol):
    """The settings used in this module."""

    @property
    def resolvers(self) -> Mapping[str, ConfiguredResolver]:
        """The resolvers by name."""

    def partition(self, name: str) -> PartitionOptions:
        """Return a partition's settings."""


Invalidate = Callable[[str, Collection[str]], Awaitable[bool]]
"""Invalidates the given users' groups in a partition, in all processes that share groups; all users
if none are given. Returns whether all processes will learn of the invalidation even if this one
ends.
"""


class ResolverKey(NamedTuple):
    """Identifies a resolver or chain."""

    name: str
    """The resolver's name in the settings, or its type in the policy."""
    defined_in: Literal["settings", "policy"]


class _OpenResolver(NamedTuple):
    guarded: GuardedResolver
    resolver_type: ResolverType
    options: ResolverOptions


class UnusableResolver(Exception):
    """A partition's resolver cannot be used."""

    def __init__(self, partition: Partition, key: ResolverKey, message: str, remedy: str) -> None:
        super().__init__(message)
        self.partition = partition
        self.key = key
        self.remedy = remedy


class UnusableResolvers(Exception):
    """The policy is valid, but the resolvers of some partitions cannot be used."""

    def __init__(self, unusable: Sequence[UnusableResolver]) -> None:
        super().__init__("; ".join(map(str, unusable)))
        self.unusable = tuple(unusable)


@dataclass(eq=False)
class ResolverManager:
    """Manages the open resolvers and each partition's group resolver."""

    settings: IdentitySettings
    clock: Callable[[], float]
    """A monotonic clock, in seconds."""
    wall: Callable[[], float]
    """The wall clock, in seconds."""
    observe: Callable[[str, str], Callable[[Outcome, float], None]] | None = None
    """Returns the function to call with the outcome and duration (in seconds) of each of a
    resolver's lookups, given the resolver's name or type and where it is defined (`settings` or
    `policy`)."""
    _: KW_ONLY
    lease: CacheLease = field(default_factory=EndlessLease)
    """The lease for all caches."""
    share: Callable[[str, str], SharedGroups] | None = None
    """Returns a partition's shared groups, given the partition's name and the resolver's settings;
    None if there is no fleet."""
    source_lease: Callable[[Callable[[], str]], FollowerLease] | None = None
    """Returns the lease for following a source, given a function that returns the resolver's
    settings and the partitions that use it; None if there is no fleet.
    """
    around: Callable[[str, Resolver], Resolver] | None = None
    """Wraps each new resolver, given its name and the resolver itself."""
    resolver_type: Callable[[str], ResolverType] = resolver_types.resolver_type
    """Returns the resolver type with the given name. Raises BadResolverType."""

    def __post_init__(self) -> None:
        self._open_resolvers: dict[ResolverKey, _OpenResolver] = {}
        self._groups: dict[tuple[str, ResolverKey], GroupResolver] = {}
        self._invalidate: Invalidate | None = None
        self.lease.on_end(self._end_lease)

    def resolvers(self) -> list[tuple[str, GuardedResolver]]:
        """Return the open resolvers, each preceded by its origin (`settings` or `policy`)."""
        return [(key.defined_in, each.guarded) for key, each in self._open_resolvers.items()]

    def follow_changes(self, invalidate: Invalidate) -> None:
        """From now on, follow the source of each resolver that is opened, if it can be followed."""
        self._invalidate = invalidate

    async def stop_following(self) -> None:
        """Stop following all sources."""
        self._invalidate = None
        followers = [each.guarded.follower for each in self._open_resolvers.values()]
        await asyncio.gather(*(each.close() for each in followers if each is not None))

    def _end_lease(self) -> None:
        for groups in self._groups.values():
            groups.end_lease()

    def reconfigure(self, settings: IdentitySettings) -> None:
        """Apply new settings. Only the cache options may differ from the current settings."""
        self.settings = settings
        for (partition, _), groups in self._groups.items():
            groups.reconfigure(settings.partition(partition).cache)

    async def for_partitions(self, partitions: Mapping[str, Partition]) -> dict[str, GroupResolver]:
        """Return an open group resolver for each partition.

        Partitions whose resolver is unchanged keep their caches. Call `close_unused` afterwards.

        Raises:
            UnusableResolvers: Some resolvers cannot be used. Other resolvers may have been opened.
        """
        chosen: dict[str, GroupResolver] = {}
        unusable: list[UnusableResolver] = []
        for name, partition in partitions.items():
            try:
                chosen[name] = await self._group_resolver(partition)
            except UnusableResolver as error:
                unusable.append(error)
        if unusable:
            raise UnusableResolvers(unusable)
        for key, each in self._open_resolvers.items():
            self._follow(key, each.guarded)
        return chosen

    async def close_unused(self, used: Collection[GroupResolver]) -> None:
        """Close the group resolvers not in `used`, and any resolvers that are then unused."""
        unused = [each for each, groups in self._groups.items() if groups not in used]
        unused_groups = [self._groups.pop(each) for each in unused]
        used_keys = {each for _, key in self._groups for each in _members(self.settings, key)}
        unused_keys = self._open_resolvers.keys() - used_keys
        unused_resolvers = [self._open_resolvers.pop(each).guarded for each in unused_keys]
        await asyncio.gather(*(each.close() for each in unused_groups))
        await asyncio.gather(*(each.close() for each in unused_resolvers))

    async def close(self) -> None:
        """Close all group resolvers and resolvers."""
        await self.close_unused(())

    async def _group_resolver(self, partition: Partition) -> GroupResolver:
        key = _key(self.settings, partition)
        groups = self._groups.get((partition.name, key))
        if groups is None:
            source = await self._source(partition, key)
            options = self.settings.partition(partition.name).cache
            cache = GroupCache(options, self.clock, self.wall, lease=self.lease)
            shared = self._shared(partition.name, key, source)
            groups = GroupResolver(source, cache, shared=shared)
            self._groups[partition.name, key] = groups
        return groups

    def _shared(self, partition: str, key: ResolverKey, source: GroupSource) -> SharedGroups | None:
        """Return the shared groups for a partition; None if its groups must not be shared."""
        if self.share is None or source.is_local:
            return None
        settings: list[tuple[str, str, str, str]] = []
        for each in _members(self.settings, key):
            if getattr(self._open_resolvers[each].resolver_type, "is_of_host", False):
                return None
            settings.append(_identity(each, self._open_resolvers[each]))
        chain = _chain(self.settings, key)
        return self.share(partition, repr((settings, chain and chain.mode)))

    async def _source(self, partition: Partition, key: ResolverKey) -> GroupSource:
        """Return the resolver or chain for `key`; open it if necessary. Raises UnusableResolver."""
        members: list[GuardedResolver] = []
        for each in _members(self.settings, key):
            resolver = self._open_resolvers.get(each)
            if resolver is None:
                resolver = self._open_resolvers[each] = await self._open_resolver(partition, each)
            members.append(resolver.guarded)
        chain = _chain(self.settings, key)
        return ResolverChain(key.name, members, chain.mode) if chain else members[0]

    async def _open_resolver(self, partition: Partition, key: ResolverKey) -> _OpenResolver:
        """Create and open a resolver within its guards. Raises UnusableResolver."""
        resolver_type, options = _definition(self.settings, partition, key, self.resolver_type)
        resolver = resolver_type(options)
        if self.around is not None:
            resolver = self.around(key.name, resolver)
        guarded = GuardedResolver(
            key.name,
            resolver,
            options,
            clock=self.clock,
            observe=self.observe and self.observe(key.name, key.defined_in),
        )
        try:
            await guarded.open()
        except Exception as error:  # any exception indicates invalid settings
            other = f"set `partitions.{partition.name}.resolver` to use another one"
            is_configured = key.defined_in == "settings"
            raise UnusableResolver(
                partition,
                key,
                f"partition {partition.name!r} uses the resolver {key.name!r}, which cannot be"
                f" opened: {type(error).__name__}: {error}",
                f"correct `resolvers.{key.name}`, or {other}" if is_configured else other,
            ) from error
        return _OpenResolver(guarded, resolver_type, options)

    def _follow(self, key: ResolverKey, guarded: GuardedResolver) -> None:
        """Start to follow a resolver's source, if it can be followed and is not followed yet."""
        changes = getattr(guarded.resolver, "changes", None)
        if changes is None or self._invalidate is None or guarded.follower is not None:
            return
        lease: FollowerLease = OwnSource()
        if self.source_lease is not None:
            lease = self.source_lease(partial(self._identity_of, key))
        apply = partial(self._apply_changes, key, self._invalidate)
        guarded.follower = ChangeFollower(key.name, changes, apply, self.clock, lease)
        guarded.follower.start()

    def _identity_of(self, key: ResolverKey) -> str:
        """Return a resolver's settings and partitions, to recognize it in other processes."""
        opened = self._open_resolvers.get(key)
        return repr((key, opened and _identity(key, opened), self._partitions_with(key)))

    def _partitions_with(self, key: ResolverKey) -> list[str]:
        """Return the partitions that use a resolver, alone or in a chain."""
        return sorted(
            {partition for partition, used in self._groups if key in _members(self.settings, used)}
        )

    async def _apply_changes(
        self, key: ResolverKey, invalidate: Invalidate, users: Collection[str]
    ) -> bool:
        """Invalidate users in all partitions that use a resolver; see `Invalidate`."""
        results = [await invalidate(each, users) for each in self._partitions_with(key)]
        return all(results)


def _identity(key: ResolverKey, resolver: _OpenResolver) -> tuple[str, str, str, str]:
    """Return a value that distinguishes a resolver from those with other settings."""
    options_json = resolver.options.model_dump_json(fallback=repr)
    return (*key, repr(resolver.resolver_type), options_json)


def unusable_resolvers(
    settings: IdentitySettings, partitions: Mapping[str, Partition]
) -> list[UnusableResolver]:
    """Return the errors in the partitions' resolver settings, without opening any resolver."""
    unusable: list[UnusableResolver] = []
    for partition in partitions.values():
        for key in _members(settings, _key(settings, partition)):
            try:
                _definition(settings, partition, key, resolver_types.resolver_type)
            except UnusableResolver as error:
                unusable.append(error)
    return unusable


def looks_up_groups(settings: IdentitySettings, partition: Partition) -> bool:
    """Return whether a partition's resolver, or one in its chain, has a source of groups."""
    keys = _members(settings, _key(settings, partition))
    types = (
        settings.resolvers[each.name].type if each.defined_in == "settings" else each.name
        for each in keys
    )
    return not resolver_types.WITHOUT_SOURCE.issuperset(types)


def _key(settings: IdentitySettings, partition: Partition) -> ResolverKey:
    name = settings.partition(partition.name).resolver
    if name is None:
        default = (
            resolver_types.YUNIKORN_DEFAULT
            if partition.cluster is None and partition.named_grants is None
            else resolver_types.YARN_DEFAULT
        )
        return ResolverKey(partition.resolver_type or default, "policy")
    return ResolverKey(name, "settings")


def _chain(settings: IdentitySettings, key: ResolverKey) -> ChainOptions | None:
    """Return a chain's options; None if the key does not identify a chain."""
    options = settings.resolvers[key.name].options if key.defined_in == "settings" else None
    return options if isinstance(options, ChainOptions) else None


def _members(settings: IdentitySettings, key: ResolverKey) -> Sequence[ResolverKey]:
    """Return the keys of a chain's resolvers, or `key` itself if it identifies a resolver."""
    chain = _chain(settings, key)
    return [ResolverKey(name, "settings") for name in chain.resolvers] if chain else [key]


def _definition(
    settings: IdentitySettings,
    partition: Partition,
    key: ResolverKey,
    find_type: Callable[[str], ResolverType],
) -> tuple[ResolverType, ResolverOptions]:
    """Return a resolver's type and options. Raises UnusableResolver."""
    asks = f"partition {partition.name!r} asks for the resolver type {key.name!r}"
    setting = f"`partitions.{partition.name}.resolver`"
    try:
        if key.defined_in == "settings":
            configured = settings.resolvers[key.name]
            # These are never ChainOptions, because `_members` has expanded the chain, and
            # chains cannot be nested.
            options = cast("ResolverOptions", configured.options)
            if configured.type == resolver_types.YUNIKORN_DEFAULT and partition.named_grants:
                raise UnusableResolver(
                    partition,
                    key,
                    f"partition {partition.name!r} uses the resolver {key.name!r} of type none,"
                    " which puts each user into a group of the same name, but its policy is "
                    "Kubernetes RBAC, which uses other groups",
                    f"set {setting} to use another one, or `resolvers.{key.name}.type: no_groups`",
                )
            return find_type(configured.type), options
        resolver_type = find_type(key.name)
        return resolver_type, resolver_type.Options()
    except resolver_types.BadResolverType as error:
        raise UnusableResolver(
            partition, key, f"{asks}: {error}", f"set {setting} to use another one"
        ) from error
    except ValidationError as error:
        faults = "; ".join(
            ": ".join((*map(str, fault["loc"]), fault["msg"]))
            for fault in error.errors(include_input=False)
        )
        raise UnusableResolver(
            partition,
            key,
            f"{asks}, which cannot be used: {faults}",
            f"correct that, or add a resolver to `resolvers` and name it in {setting}",
        ) from error
