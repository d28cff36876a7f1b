"""The queue tree of a partition, compiled for look-ups, and the policy that holds it.

The rules of access are compiled in here; `decide.py` tells what they are.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from queuegate_server.policy.acl import EMPTY, WILDCARD, Acl, UnsplitAcl
from queuegate_server.policy.names import (
    RECOVERY_QUEUE,
    ROOT,
    SEPARATOR,
    is_recovery_path,
    parent_path,
    partition_name,
    queue_path,
    yarn_queue_path,
)
from queuegate_server.policy.tables import Tables
from queuegate_server.policy.yarn_acl import Semantics


class Access(StrEnum):
    """What a user may want to do with a queue."""

    SUBMIT = "submit"
    ADMIN = "admin"


class Reason(StrEnum):
    """Why a decision is what it is."""

    WILDCARD = "wildcard"
    USER = "user"
    GROUP = "group"
    NO_MATCH = "no match"
    UNKNOWN_USER = "unknown user"
    RECOVERY_QUEUE = "recovery queue"
    ACLS_DISABLED = "ACLs disabled"
    CLUSTER_ADMIN = "cluster admin"
    OWNER = "owner"

    # That of enumerations is computed in Python; decisions are looked up by it.
    __hash__ = str.__hash__


class Decision(NamedTuple):
    """An answer. Denied answers name no subject."""

    allowed: bool
    reason: Reason
    matched_queue: str = ""
    matched_subject: str = ""


NO_MATCH: Final = Decision(False, Reason.NO_MATCH)
UNKNOWN_USER: Final = Decision(False, Reason.UNKNOWN_USER)
IN_RECOVERY_QUEUE: Final = Decision(False, Reason.RECOVERY_QUEUE, RECOVERY_QUEUE)

ACLS_DISABLED: Final = Decision(True, Reason.ACLS_DISABLED)

CLUSTER: Final = ""
"""Stands for the path of a queue where the administrators of the cluster are listed."""


class Chain(NamedTuple):
    """Everything that decides about one kind of access to a queue, nearest level first.

    Names and queues are apart, and not in pairs, because each object on the way costs a
    look-up in memory that is rarely in the processor's cache.
    """

    users: tuple[frozenset[str], ...]
    """Users that are granted access, by level."""
    user_queues: tuple[str, ...]
    """The paths of the queues that list these users."""
    groups: tuple[frozenset[str], ...]
    """Groups that are granted access, by level; empty where no decision depends on them."""
    group_queues: tuple[str, ...]
    """The paths of the queues that list these groups."""
    otherwise: Decision | None
    """The decision if no user matches; None if it depends on the groups."""


_NOBODY: Final = Chain((), (), (), (), NO_MATCH)
_RECOVERY: Final = Chain((), (), (), (), IN_RECOVERY_QUEUE)
_OPEN: Final = Chain((), (), (), (), ACLS_DISABLED)


_SORTED_AT_ONCE: Final = 2_000
_MERGED_AT_ONCE: Final = 500


class QueueAcls(NamedTuple):
    """A queue as a configuration states it."""

    path: str
    """The full path, as the partition spells paths."""
    submit_acl: Acl | UnsplitAcl
    admin_acl: Acl | UnsplitAcl


class Queue:
    """A queue with all that decides about it, from itself up to the root.

    Of a hundred thousand queues few are asked for: what decides is put together then, and
    kept. For whoever uses it, it is immutable.
    """

    __slots__ = ("_admin_acl", "_submit_acl", "above", "chains", "path")

    def __init__(
        self, acls: QueueAcls, above: "Queue | None", chains: tuple[Chain, Chain] | None = None
    ) -> None:
        """Take its ACLs, and the queue above or what decides about submission and
        administration.
        """
        self.path, self._submit_acl, self._admin_acl = acls
        self.above = above
        self.chains = chains
        """What decides about submission and administration; None until it is asked for."""

    @property
    def submit_acl(self) -> Acl:
        """Its own ACL for submission."""
        if isinstance(self._submit_acl, UnsplitAcl):
            self._submit_acl = self._submit_acl.split()
        return self._submit_acl

    @property
    def admin_acl(self) -> Acl:
        """Its own ACL for administration."""
        if isinstance(self._admin_acl, UnsplitAcl):
            self._admin_acl = self._admin_acl.split()
        return self._admin_acl

    @property
    def submit(self) -> Chain:
        """What decides about submission."""
        return (self.chains or self._compile())[0]

    @property
    def admin(self) -> Chain:
        """What decides about administration."""
        return (self.chains or self._compile())[1]

    def chain(self, access: Access) -> Chain:
        """Return what decides about one kind of access."""
        return self.submit if access is Access.SUBMIT else self.admin

    def inherit(self, submit: Chain, admin: Chain) -> tuple[Chain, Chain]:
        """Put its ACLs before what the queue above it has."""
        submit = _extend(self.path, (self.submit_acl, self.admin_acl), submit)
        admin = _extend(self.path, (self.admin_acl,), admin)
        self.chains = submit, admin
        return self.chains

    def _compile(self) -> tuple[Chain, Chain]:
        waiting = [self]
        while (above := waiting[-1].above) is not None and above.chains is None:
            waiting.append(above)
        chains = above.chains if above and above.chains else (_NOBODY, _NOBODY)
        while waiting:
            chains = waiting.pop().inherit(*chains)
        return chains


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
            chain = chain if chain is _OPEN else _NOBODY
            return Queue(QueueAcls(path, EMPTY, EMPTY), None, (chain, chain))
        candidate = SEPARATOR.join(path.split(SEPARATOR, self.depth)[: self.depth])
        while (queue := self.queues.get(candidate)) is None:
            candidate = parent_path(candidate)
        if self.cluster is None and is_recovery_path(path):
            acls = QueueAcls(queue.path, queue.submit_acl, queue.admin_acl)
            return Queue(acls, None, (_RECOVERY, queue.admin))
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
            queue.chains = _RECOVERY, queue.admin
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
        return _NOBODY, _NOBODY
    documented = cluster.semantics is Semantics.DOCUMENTED
    if not cluster.acls_enabled:
        return _NOBODY if cluster.checks_submission_always and not documented else _OPEN, _OPEN
    chain = _extend(CLUSTER, (cluster.admins,), _NOBODY) if documented else _NOBODY
    return chain, chain


def _extend(path: str, acls: tuple[Acl, ...], inherited: Chain) -> Chain:
    """Put the ACLs of a queue, in their order of evaluation, before what it inherits."""
    if inherited is _OPEN:
        return _OPEN
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    for acl in acls:
        if acl.allows_all:
            # What stands above an ACL that allows everybody is never reached.
            reason = Reason.WILDCARD if path else Reason.CLUSTER_ADMIN
            inherited = _NOBODY._replace(otherwise=Decision(True, reason, path, WILDCARD))
            break
        users = _union(users, acl.users)
        groups = _union(groups, acl.groups)
    up_users, user_queues, up_groups, group_queues, otherwise = inherited
    if users:
        up_users, user_queues = (users, *up_users), (path, *user_queues)
    if groups and (otherwise is None or not otherwise.allowed):
        up_groups, group_queues, otherwise = (groups, *up_groups), (path, *group_queues), None
    elif not users:
        return inherited
    return Chain(up_users, user_queues, up_groups, group_queues, otherwise)


def _union(first: frozenset[str], second: frozenset[str]) -> frozenset[str]:
    """Join two sets; without a copy if one of them is empty."""
    return first | second if first and second else first or second


@dataclass(frozen=True, slots=True)
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
