"""The queue tree of a partition, and the policy that holds it."""

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Final

from queuegate.policy.acl import EMPTY, Acl
from queuegate.policy.names import (
    ROOT,
    SEPARATOR,
    is_recovery_path,
    parent_path,
    partition_name,
    queue_path,
    yarn_queue_path,
)
from queuegate.policy.queue import (
    CLUSTER,
    NOBODY,
    OPEN,
    RECOVERY,
    Chain,
    Queue,
    QueueAcls,
    extend,
)
from queuegate.policy.tables import Tables
from queuegate.policy.yarn_acl import Semantics

_SORTED_AT_ONCE: Final = 2_000
_MERGED_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a YARN cluster says beside its queues."""

    semantics: Semantics
    admins: Acl
    """`yarn.admin.acl`, and the user that the ResourceManager runs as."""
    acls_enabled: bool = True
    """`yarn.acl.enable`."""
    checks_submission_always: bool = False
    """True for the fair scheduler: in Hadoop it looks at its submit ACLs even while
    ACLs are disabled."""
    has_short_names: bool = False
    """True for the capacity scheduler: a name without dots is any queue of that name."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The queues of a partition. Immutable; build it with `build_partition`."""

    name: str
    resolver_type: str
    """What the configuration names as its group resolver; empty if nothing."""
    queues: Mapping[str, Queue]
    """By path as `path` returns it, each queue after its parent."""
    paths: tuple[str, ...]
    """All paths, sorted."""
    depth: int
    """How many levels the deepest path has."""
    cluster: Cluster | None = None
    """None for a partition of YuniKorn."""
    resolver_place: tuple[int, int] = (0, 0)
    """Line and column of what the configuration names as its group resolver."""
    short_names: Mapping[str, str] = field(default_factory=dict)
    """Paths of queues by their last level; one that several queues share stands for itself,
    which is the path of none."""
    submit_tables: Tables = field(init=False, repr=False, compare=False, default_factory=Tables)
    admin_tables: Tables = field(init=False, repr=False, compare=False, default_factory=Tables)

    def path(self, text: str) -> str | None:
        """Return a queue's path in the spelling in which this partition compares paths,
        or None if the text is no path.
        """
        if self.cluster is None:
            return queue_path(text)
        return self.short_names.get(text) or yarn_queue_path(text)

    def nearest(self, path: str) -> Queue:
        """Return the queue of a path at or below `root`, or its nearest existing ancestor:
        there a missing queue would be created, and there YuniKorn (`placement.go`,
        `PlaceApplication`) and the fair scheduler check access to it. A short name that
        several queues share is a queue that lists nobody: the capacity scheduler knows none.

        A missing queue below the recovery queue is granted to nobody, whether or
        not the recovery queue itself is configured.
        """
        queue = self.queues.get(path)
        if queue is not None:
            return queue
        if path in self.short_names:
            chain = self.queues[ROOT].admin
            chain = chain if chain is OPEN else NOBODY
            return Queue(QueueAcls(path, EMPTY, EMPTY), None, (chain, chain))
        candidate = SEPARATOR.join(path.split(SEPARATOR, self.depth)[: self.depth])
        while (queue := self.queues.get(candidate)) is None:
            candidate = parent_path(candidate)
        if self.cluster is None and is_recovery_path(path):
            acls = QueueAcls(queue.path, queue.submit_acl, queue.admin_acl)
            return Queue(acls, None, (RECOVERY, queue.admin))
        return queue


def build_partition(
    name: str,
    resolver_type: str,
    queues: Iterable[QueueAcls],
    cluster: Cluster | None = None,
    *,
    pause: Callable[[], None] = lambda: None,
) -> Partition:
    """Build a partition from its queues, each given after its parent.

    A root without ACLs is added if the first queue is not the root. A queue
    without ACLs of its own shares what its parent has, so that the size of the
    result grows with the number of ACLs. `pause` is called again and again on the way.
    """
    built: dict[str, Queue] = {}
    depth = 1
    top = _above_root(cluster)
    for acls in queues:
        path = acls.path
        if not built and path != ROOT:
            built[ROOT] = Queue(QueueAcls(ROOT, EMPTY, EMPTY), None, top)
        above = built.get(parent_path(path))
        built[path] = queue = Queue(acls, above)
        if above is None:
            queue.inherit(*top)
        if cluster is None and is_recovery_path(path):
            queue.chains = RECOVERY, queue.admin
        depth = max(depth, path.count(SEPARATOR) + 1)
    if not built:
        built[ROOT] = Queue(QueueAcls(ROOT, EMPTY, EMPTY), None, top)
    paths = _in_order(built, pause)
    short_names = _short_names(paths, pause) if cluster and cluster.has_short_names else {}
    return Partition(
        name,
        resolver_type,
        MappingProxyType(built),
        paths,
        depth,
        cluster,
        short_names=short_names,
    )


def _in_order(paths: Iterable[str], pause: Callable[[], None]) -> tuple[str, ...]:
    """Sort in parts, since other threads wait while one sort runs."""
    rest = list(paths)
    parts = []
    for start in range(0, len(rest), _SORTED_AT_ONCE):
        parts.append(sorted(rest[start : start + _SORTED_AT_ONCE]))
        pause()
    merged = heapq.merge(*parts)
    found: list[str] = []
    while part := list(islice(merged, _MERGED_AT_ONCE)):
        found += part
        pause()
    return tuple(found)


def _short_names(paths: Iterable[str], pause: Callable[[], None]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in paths:
        pause()
        above, _, name = path.rpartition(SEPARATOR)
        if above and name != ROOT:
            found[name] = name if name in found else path
    return found


def _above_root(cluster: Cluster | None) -> tuple[Chain, Chain]:
    """Return what the root inherits for submission and administration.

    As documented, the administrators of a cluster administer each queue. Hadoop asks
    them only about applications, and its fair scheduler goes on to check submissions
    while ACLs are disabled.
    """
    if cluster is None:
        return NOBODY, NOBODY
    documented = cluster.semantics is Semantics.DOCUMENTED
    if not cluster.acls_enabled:
        return NOBODY if cluster.checks_submission_always and not documented else OPEN, OPEN
    chain = extend(CLUSTER, (cluster.admins,), NOBODY) if documented else NOBODY
    return chain, chain


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Policy:
    """An immutable snapshot of everything that decides about queues."""

    partitions: Mapping[str, Partition]
    source: str = ""
    """Where the configuration was read from, for people."""
    revision: int = 0
    """Grows by 1 with each configuration that is served."""
    checksum: str = ""
    """SHA-256 of the configuration text in upper-case hexadecimal, as YuniKorn prints it."""

    def partition(self, name: str) -> Partition | None:
        """Return the partition of a requested name, or None.

        The name is taken as it is first and then without a resource manager id
        (`[rm]gpu` is `gpu`); case matters.
        """
        return self.partitions.get(name) or self.partitions.get(partition_name(name))
