"""Policies, and their partitions with queue trees."""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from queuegate.policy import acl
from queuegate.policy.acl import EMPTY, WILDCARD, Acl, AclNames, yunikorn_grammar
from queuegate.policy.chain import CLUSTER, Chain, ChainEnd, ChainIndexes
from queuegate.policy.created_queues import CreatedAcls, QueueCreation
from queuegate.policy.decision import ACLS_DISABLED, IN_RECOVERY_QUEUE, NO_MATCH, Access
from queuegate.policy.named_grants import NamedGrants, counting_groups, has_only_own_groups
from queuegate.policy.names import (
    ROOT,
    SEPARATOR,
    are_user_names,
    is_recovery_path,
    is_user_name,
    parent_path,
    partition_name,
    queue_path,
    yarn_queue_path,
)
from queuegate.policy.queue import Queue, QueueAcls
from queuegate.policy.yarn_acl import Cluster, chains_above_root, yarn_grammar

MAX_MISSING_PATHS: Final = 10_000
"""The maximum number of cached chains for missing paths, because callers can request any path."""
MAX_PATH_LENGTH: Final = 256
MAX_SHARED_ACLS: Final = 4_096
"""The maximum number of cached ACLs. Queues with identical ACL text share an ACL."""
LONG_ACL: Final = 65_536
"""The minimum length at which an ACL takes milliseconds to parse."""

_SUBMIT: Final = Access.SUBMIT
_ADMIN: Final = Access.ADMIN
_NOBODY = ChainEnd(NO_MATCH, ChainIndexes())
_RECOVERY = ChainEnd(IN_RECOVERY_QUEUE, ChainIndexes())


class LastLevels(NamedTuple):
    """Queues by the last level of their path."""

    paths: Mapping[str, str]
    """The first path for each last level, parents first."""
    repeated: Mapping[str, Sequence[str]]
    """For each last level shared by several queues, all their paths."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition's queues. Immutable. Built by a PartitionBuilder."""

    name: str
    resolver_type: str
    """The group resolver named in the configuration; empty if none."""
    queues: Mapping[str, Queue]
    """The queues by canonical path, parents first."""
    paths: tuple[str, ...]
    """All paths, sorted."""
    depth: int
    """The number of levels in the deepest path."""
    cluster: Cluster | None = None
    """The YARN cluster; None for a YuniKorn partition."""
    resolver_place: tuple[int, int] = (0, 0)
    """The line and column of the group resolver in the configuration."""
    short_names: Mapping[str, str] = field(default_factory=dict)
    """Queue paths by last level. A name shared by several queues maps to itself, so it does not
    refer to any queue."""
    parse_acl: Callable[[str], Acl] = field(default=acl.parse, repr=False)
    """Parses ACLs configured as text."""
    acl_names: AclNames = AclNames.YUNIKORN
    """The names allowed in the ACLs of a YuniKorn partition."""
    creation: QueueCreation | None = None
    """The scheduler's rules for creating queues on submission, if any."""
    named_grants: NamedGrants | None = None
    """The grants by name in a cluster whose RBAC is the policy; None for any other policy."""
    childless_parents: frozenset[str] = frozenset()
    """The paths of queues that are marked as parents but have no child queues."""
    groups_outside_acls: frozenset[str] = frozenset()
    """The groups listed in a YuniKorn partition's limits and placement filters."""
    group_patterns: tuple[str, ...] = ()
    """The regular expressions for groups in placement filters, in Go's syntax."""
    _parse_created: Callable[[str], Acl] = field(default=acl.parse, repr=False)
    """`parse_acl` with a cache, for the ACLs of created queues."""
    _submit_chains: dict[str, Chain] = field(init=False, repr=False, default_factory=dict)
    _admin_chains: dict[str, Chain] = field(init=False, repr=False, default_factory=dict)
    _ancestors: dict[str, str] = field(init=False, repr=False, default_factory=dict)
    """The nearest existing ancestor of each missing queue that has a cached chain."""
    _last_levels: dict[str, LastLevels] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """The indexes that have been used, by the path whose descendants they contain."""

    def __post_init__(self) -> None:
        self._submit_chains[CLUSTER], self._admin_chains[CLUSTER] = chains_above_root(self.cluster)

    def canonical_path(self, text: str) -> str | None:
        """Return the canonical form of a queue path, or None if the text is not a path."""
        if text in self.queues:
            return text
        if self.named_grants is not None:
            return self.named_grants.canonical_path(text)
        if self.cluster is None:
            return queue_path(text)
        return self.short_names.get(text) or yarn_queue_path(text)

    def accepts_user(self, name: str) -> bool:
        """Return whether a request that supplies groups may contain this user name.

        YuniKorn's `ConvertUGI` rejects names that are invalid in limits; under `acl_names: any`,
        only `*` is rejected.
        """
        if self.cluster is not None or self.named_grants is not None:
            return True
        return is_user_name(name) or (self.acl_names is AclNames.ANY and name != WILDCARD)

    def accepts_users(self, names: Collection[str]) -> bool:
        """Return whether `accepts_user` accepts all names."""
        return (
            self.cluster is not None or are_user_names(names) or all(map(self.accepts_user, names))
        )

    def counting_groups(self, user: str, groups: Sequence[str] | None) -> Sequence[str] | None:
        """Return a user's effective groups; None if they must be looked up in a directory. The
        result differs from `groups` only under Kubernetes RBAC, where some names are ignored and
        Kubernetes itself gives each user some groups.

        Args:
            user: The user name.
            groups: The groups that a request or a directory gives; None if they are unknown.
        """
        grants = self.named_grants
        if grants is None:
            return groups
        if groups is None and not has_only_own_groups(user, grants.users_prefix):
            return None
        return counting_groups(user, groups or (), grants.groups_prefix)

    def nearest(self, path: str) -> Queue:
        """Return the queue whose ACLs are evaluated first for a path.

        This is the queue itself, the queue that the capacity scheduler would create from templates,
        or the nearest existing ancestor. YuniKorn (`placement.go`, `PlaceApplication`) and the fair
        scheduler use this ancestor to check access to queues that they create. For a short name
        shared by several queues, it is a queue without ACLs, because the capacity scheduler does
        not resolve such a name.
        """
        queue = self.queues.get(path)
        if queue is not None:
            return queue
        if path in self.short_names:
            return Queue(QueueAcls(path, EMPTY, EMPTY), acl.parse)
        created = self.created(path)
        return created[0] if created else self._configured(path)

    def created(self, path: str) -> list[Queue]:
        """Return the queues that a submission to a path creates, deepest first.

        The list is empty if the queue exists or would not be created. Under Kubernetes RBAC, a
        queue named by a cluster-wide grant counts as one that would be created.
        """
        if self.named_grants is not None:
            acl = None if path in self.queues else self.named_grants.acl(path)
            return [] if acl is None else [Queue(QueueAcls(path, acl, EMPTY), self.parse_acl)]
        return [
            Queue(QueueAcls(each.path, each.submit_acl, each.admin_acl), self._parse_created)
            for each in self.created_acls(path)
        ]

    def created_acls(self, path: str) -> list[CreatedAcls]:
        """Return the ACLs of the queues returned by `created`, with their templates."""
        if self.creation is None or not self.creates(path):
            return []
        return self.creation.created(path, self._configured(path).path)

    def creates(self, path: str) -> bool:
        """Return whether a submission to a path creates a queue."""
        if self.named_grants is not None:
            return bool(self.created(path))
        if self.creation is None or path in self.queues or path in self.short_names:
            return False
        return self.creation.creates(path, self._configured(path).path)

    def created_below(self, path: str) -> list[str]:
        """Return sorted paths for all queues that may be created below `path`; `*` is any name."""
        if self.named_grants is not None:
            return sorted(self.named_grants.paths_below(path, self.queues))
        if self.creation is None or path in self.short_names:
            return []
        nearest = self._configured(path).path
        return sorted({*self.creation.paths_below(path, nearest, self.queues)})

    def upwards(self, path: str) -> Iterator[Queue]:
        """Yield the queues whose ACLs apply to a path, from `nearest` up to the root."""
        if path in self.short_names and path not in self.queues:
            return
        yield from self.created(path)
        path = self._configured(path).path
        while queue := self.queues.get(path):
            yield queue
            path = parent_path(path)

    def _configured(self, path: str) -> Queue:
        """Return the configured queue at a path, or its nearest configured ancestor."""
        candidate = SEPARATOR.join(path.split(SEPARATOR, self.depth)[: self.depth])
        while (queue := self.queues.get(candidate)) is None:
            candidate = parent_path(candidate)
        return queue

    def nearest_path(self, path: str) -> str:
        """Return the path of the queue that `nearest` returns."""
        return self._ancestors.get(path) or self.nearest(path).path

    def chain(self, path: str, access: Access) -> Chain:
        """Return the chain of compiled ACLs, from the queue returned by `nearest` up to the root.

        Nobody may submit to the recovery queue or below it, even if it is not configured.

        Raises:
            TypeError: `access` is not an Access. A str such as "submit" is rejected, because it
                could be mistaken for the other kind.
        """
        if access is _SUBMIT:
            chains = self._submit_chains
        elif access is _ADMIN:
            chains = self._admin_chains
        else:
            raise TypeError(f"access must be Access.SUBMIT or Access.ADMIN, not {access!r}")
        return chains.get(path) or self._compile(path, access, chains)

    def ambiguous_chain(self) -> Chain:
        """Return the chain for short names shared by several queues."""
        above = self._admin_chains[CLUSTER]
        return above if above.otherwise is ACLS_DISABLED else _NOBODY

    def last_levels(self, below: str) -> LastLevels:
        """Return the queues below a path by last level. `below` is in canonical form."""
        for _ in self.index_last_levels(below):
            pass
        return self._last_levels[below]

    def index_last_levels(self, below: str) -> Iterator[None]:
        """Build the index for `last_levels` in small steps, unless it already exists.

        The root queue counts as below itself, because every scheduler has it.
        """
        if below in self._last_levels:
            return
        paths: dict[str, str] = {}
        repeated: dict[str, list[str]] = {}
        prefix = "" if below == ROOT else f"{below}{SEPARATOR}"
        for path in self.queues:
            yield
            if not path.startswith(prefix):
                continue
            name = path.rpartition(SEPARATOR)[2]
            first = paths.setdefault(name, path)
            if first != path:
                repeated.setdefault(name, [first]).append(path)
        self._last_levels[below] = LastLevels(paths, repeated)

    def parts(self) -> list[object]:
        """Return the partition's queues and chains, so that a large partition can be freed in
        steps.
        """
        return [*self.queues.values(), *self._submit_chains.values(), *self._admin_chains.values()]

    def parse_long_acls(self) -> None:
        """Parse the long ACLs now instead of on first use.

        Parsing takes seconds for megabytes of names, so call this in a thread.
        """
        for queue in self.queues.values():
            if max(map(len, queue.acl_texts)) > LONG_ACL:
                _ = queue.submit_acl, queue.admin_acl
        for template in self.creation.templates if self.creation else ():
            for text in (template.submit_acl, template.admin_acl):
                if text is not None and len(text) > LONG_ACL:
                    self._parse_created(text)

    def _compile(self, path: str, access: Access, chains: dict[str, Chain]) -> Chain:
        if path in self.short_names and path not in self.queues:
            return self.ambiguous_chain()
        if self.cluster is None and access is _SUBMIT and is_recovery_path(path):
            return _RECOVERY
        created = self.created(path)
        nearest = self._configured(path).path
        chain = self._chain_of_configured(nearest, access, chains)
        for queue in reversed(created):
            # Add one level per ACL, so that the chains of many paths can share a template's sets of
            # names.
            for own in reversed(queue.acls_granting(access)):
                chain = chain.extend(queue.path, (own,))
        if len(path) <= MAX_PATH_LENGTH and len(chains) < len(self.queues) + MAX_MISSING_PATHS:
            chains[path] = chain
            if nearest != path and not created:
                self._ancestors[path] = nearest
        return chain

    def _chain_of_configured(self, path: str, access: Access, chains: dict[str, Chain]) -> Chain:
        waiting = []
        while (chain := chains.get(path)) is None:
            waiting.append(path)
            path = parent_path(path)
        for path in reversed(waiting):
            chain = chains[path] = chain.extend(path, self.queues[path].acls_granting(access))
        return chain


class PartitionBuilder:
    """Builds a partition from queues added in one or more calls."""

    def __init__(
        self,
        name: str,
        resolver_type: str = "",
        cluster: Cluster | None = None,
        *,
        resolver_place: tuple[int, int] = (0, 0),
        acl_names: AclNames = AclNames.YUNIKORN,
    ) -> None:
        """Create a builder without queues.

        Args:
            name: The partition name.
            resolver_type: The type of the group resolver named in the configuration.
            cluster: The YARN cluster, or None for a YuniKorn partition.
            resolver_place: The line and column of `resolver_type`.
            acl_names: The names allowed in the ACLs of a YuniKorn partition.
        """
        self._name = name
        self._resolver_type = resolver_type
        self._resolver_place = resolver_place
        self._cluster = cluster
        self._creation: QueueCreation | None = None
        grammar = yarn_grammar(cluster.semantics) if cluster else yunikorn_grammar(acl_names)
        self._grammar = grammar
        self._acl_names = acl_names
        self._parse = functools.lru_cache(MAX_SHARED_ACLS)(
            lambda text: grammar(text).with_shared_names()
        )
        self._queues: dict[str, Queue] = {}
        self._sorted_paths: list[str] = []
        self._short_names: dict[str, str] = {}
        self._depth = 1

    def add(self, queues: Iterable[QueueAcls]) -> None:
        """Add queues, parents first. If the first queue is not the root, a root without ACLs is
        added before it.
        """
        built = self._queues
        has_short_names = self._cluster is not None and self._cluster.has_short_names
        for acls in queues:
            path = acls.path
            if not built:
                root = acls if path == ROOT else QueueAcls(ROOT, EMPTY, EMPTY)
                built[ROOT] = Queue(root, self._parse)
                if path == ROOT:
                    continue
            above, _, name = path.rpartition(SEPARATOR)
            if above not in built:
                raise ValueError(f"the queue {path!r} must be added after its parent")
            built[path] = Queue(acls, self._parse)
            if (level := path.count(SEPARATOR) + 1) > self._depth:
                self._depth = level
            if has_short_names and name != ROOT:
                self._short_names[name] = name if name in self._short_names else path

    def add_sorted_paths(self, paths: Iterable[str]) -> None:
        """Add queue paths in sorted order. If all are added here, `build` need not sort them."""
        self._sorted_paths.extend(paths)

    def create(self, creation: QueueCreation | None) -> None:
        """Set the scheduler's rules for creating queues on submission."""
        self._creation = creation

    def build(self) -> Partition:
        """Return the partition. The builder must not be used afterwards."""
        if not self._queues:
            self._queues[ROOT] = Queue(QueueAcls(ROOT, EMPTY, EMPTY), self._parse)
        return Partition(
            self._name,
            self._resolver_type,
            MappingProxyType(self._queues),
            tuple(self._sorted_paths or sorted(self._queues)),
            self._depth,
            self._cluster,
            self._resolver_place,
            self._short_names,
            self._grammar,
            self._acl_names,
            self._creation,
            _parse_created=self._parse,
        )


def build_partition(
    name: str,
    resolver_type: str,
    queues: Iterable[QueueAcls],
    cluster: Cluster | None = None,
    creation: QueueCreation | None = None,
) -> Partition:
    """Build a partition from all its queues, parents first."""
    builder = PartitionBuilder(name, resolver_type, cluster)
    builder.create(creation)
    builder.add(queues)
    return builder.build()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Policy:
    """All partitions in a configuration. Immutable."""

    partitions: Mapping[str, Partition]
    source: str = ""
    """The configuration's source, for display."""
    revision: int = 0
    """Incremented with each configuration served."""
    checksum: str = ""
    """The SHA-256 of the configuration in uppercase hexadecimal, as printed by YuniKorn."""

    def partition(self, name: str) -> Partition | None:
        """Return the partition with the given name, or None. Names are case-sensitive.

        If no partition has the exact name, the name's resource manager ID is ignored: `[rm]gpu` and
        `[other]gpu` both return `gpu`. A partition configured as `[rm]gpu` is returned only for
        that name.
        """
        return self.partitions.get(name) or self.partitions.get(partition_name(name))
