"""Compare two versions of a partition to find out who gains or loses access to each queue.

A queue inherits all its ancestors' grants, so its difference follows from its parent's difference
and the names in its own ACLs. If its ACLs are unchanged and its parent has no difference, the queue
has none either.

A queue that exists in only one version is compared with its nearest existing ancestor in the other
version, or with the queue that the other version would create from templates. A path with a `*`
level represents queues yet to be created, with any name. Queues are compared by full path, because
a short name in the capacity scheduler may refer to a different queue in the new version.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from queuegate.policy.decision import IN_RECOVERY_QUEUE, Access
from queuegate.policy.names import ROOT, parent_path
from queuegate.policy.queue import Queue
from queuegate.policy.reach import SubjectKind
from queuegate.policy.tree import Partition

Names: TypeAlias = frozenset[str]
Expander: TypeAlias = Callable[[Names, Names, Names], tuple[Names, ...]]
"""Maps the users, groups and proxies listed in an ACL to the sets of names to compare. The sets may
overlap."""

_NOBODY: Final[Names] = frozenset()


@dataclass(frozen=True, slots=True)
class Selection:
    """A set of names, or everyone except those names."""

    names: Names = _NOBODY
    everyone: bool = False
    """Whether everyone except `names` is selected."""

    def __contains__(self, name: object) -> bool:
        return (name in self.names) is not self.everyone

    @property
    def is_empty(self) -> bool:
        """Whether the selection contains nobody."""
        return not self.names and not self.everyone


NOBODY: Final = Selection()


@dataclass(slots=True, eq=False)
class QueueDifference:
    """The part of a queue's access difference that is not inherited from its parent."""

    queue: str
    access: Access
    gained: Selection
    """The names with access only in the new version."""
    lost: Selection
    below: int = 0
    """The number of descendant queues that inherit the entire difference."""
    partly_below: int = 0
    """The number of descendant queues that inherit part of the difference, because they list the
    other names themselves."""


def written(kind: SubjectKind, name: str) -> str:
    """Return a name in the form used in differences: `user:sue`, `group:dev` or `proxy:hue`."""
    return f"{kind}:{name}"


def by_name(users: Names, groups: Names, proxies: Names) -> tuple[Names, ...]:
    """Expand an ACL to its listed names. Comparing these names detects any change in access."""
    return tuple(
        frozenset(written(kind, name) for name in names)
        for kind, names in (
            (SubjectKind.USER, users),
            (SubjectKind.GROUP, groups),
            (SubjectKind.PROXY, proxies),
        )
        if names
    )


def compare(
    old: Partition, new: Partition, access: Access, expand: Expander = by_name
) -> list[QueueDifference]:
    """Return the differences between two versions of a partition, sorted by queue.

    Args:
        old: The old version.
        new: The new version, for the same scheduler.
        access: The kind of access.
        expand: Maps the names in an ACL to the names to compare. The default, `by_name`, keeps
            them; an expander returned by `people` replaces groups with their members.
    """
    differences: list[QueueDifference] = []
    for queue in walk(old, new, access, expand):
        for each in queue.whole:
            each.below += 1
        for each in queue.part:
            each.partly_below += 1
        if queue.starting is not None:
            differences.append(queue.starting)
    return differences


@dataclass(slots=True, eq=False)
class _Level:
    """The names that a queue's own ACLs add to its ancestors' names."""

    above: "_Level | None"
    users: Names
    groups: Names
    proxies: Names
    expand: Expander
    _parts: tuple[Names, ...] | None = None

    @property
    def parts(self) -> tuple[Names, ...]:
        if self._parts is None:
            self._parts = self.expand(self.users, self.groups, self.proxies)
        return self._parts

    def all(self) -> Names:
        """Return the names listed at this level and all levels above it."""
        parts: list[Names] = []
        level: _Level | None = self
        while level is not None:
            parts += level.parts
            level = level.above
        return _NOBODY.union(*parts)

    def remove_from(self, names: Names) -> Names:
        """Return `names` without the names listed at this level. If none are removed, return
        `names` itself.
        """
        for part in self.parts:
            if not names.isdisjoint(part):
                names -= part
        return names

    def is_same(self, other: "_Level") -> bool:
        return (self.users, self.groups, self.proxies) == (
            other.users,
            other.groups,
            other.proxies,
        )


class _Side(NamedTuple):
    """The names with access to a queue in one version."""

    is_open: bool
    level: _Level | None
    own: _Level | None
    """The queue's own level, if any."""

    def all(self) -> Names:
        return _NOBODY if self.level is None else self.level.all()


_CLOSED: Final = _Side(is_open=False, level=None, own=None)
_OPEN: Final = _Side(is_open=True, level=None, own=None)


@dataclass(slots=True, eq=False)
class ComparedQueue:
    """The difference in access to a queue, including inherited differences."""

    queue: str
    gained: Selection
    lost: Selection
    starting: QueueDifference | None = None
    """The part of the difference that is not inherited."""
    whole: tuple[QueueDifference, ...] = ()
    """The ancestors' differences inherited in full."""
    part: tuple[QueueDifference, ...] = ()
    """The ancestors' differences inherited in part."""


_SAME: Final = ComparedQueue("", NOBODY, NOBODY)


class _Reader:
    """Determines the names with access to each queue in one version of a partition."""

    def __init__(self, partition: Partition, access: Access, expand: Expander) -> None:
        self._partition = partition
        self._access = access
        self._expand = expand
        self._sides = {"": _CLOSED}

    def side(self, path: str) -> _Side:
        """Return the names with access to a queue. Other queues do not inherit a created queue's
        grants.
        """
        side = self._sides.get(path)
        if side is None:
            created = self._partition.created(path)
            above = parent_path(path)
            if created:
                above = parent_path(created[-1].path)
            elif path not in self._partition.queues:
                above = self._partition.nearest_path(path)
            side = self._sides[path] = self._read(path, self.side(above), created)
        return side

    def _read(self, path: str, above: _Side, created: Sequence[Queue]) -> _Side:
        chain = self._partition.chain(path, self._access)
        if chain.otherwise is IN_RECOVERY_QUEUE:
            return _CLOSED
        if chain.otherwise is not None and chain.otherwise.allowed:
            return _OPEN
        users, groups, proxies = _NOBODY, _NOBODY, _NOBODY
        if path == ROOT:
            # Include the cluster's administrators, whose level is above the root.
            users, groups = map(frozenset, chain.merged())
        elif created:
            acls = [acl for queue in created for acl in queue.acls_granting(self._access)]
            users = _NOBODY.union(*(acl.users for acl in acls))
            groups = _NOBODY.union(*(acl.groups for acl in acls))
        elif chain.queue == path:
            users, groups = chain.users, chain.groups
        queue = self._partition.queues.get(path)
        for each in created if queue is None else (queue,):
            proxies = proxies.union(*(acl.proxies for acl in each.acls_granting(self._access)))
        if not (users or groups or proxies):
            return above if above.own is None else _Side(False, above.level, None)
        own = _Level(above.level, users, groups, proxies, self._expand)
        return _Side(False, own, own)


def walk(
    old: Partition, new: Partition, access: Access, expand: Expander = by_name
) -> Iterator[ComparedQueue]:
    """Yield each queue to which access differs between the versions, parents first."""
    sides = _Reader(old, access, expand), _Reader(new, access, expand)
    is_one_grammar = old.parse_acl is new.parse_acl
    compared: dict[str, ComparedQueue] = {}
    created = {*old.created_below(ROOT), *new.created_below(ROOT)}
    for path in sorted({*old.queues, *new.queues, *created}):
        above = _parent(path, old, new)
        parent = compared.get(above, _SAME)
        was, now = old.queues.get(path), new.queues.get(path)
        may_skip = parent is _SAME and is_one_grammar and path != ROOT
        if may_skip and was and now and was.has_acls_of(now, access):
            continue
        is_whole = above != parent_path(path) or path in created
        pair = (sides[0].side(path), sides[1].side(path))
        queue = _compare(path, parent, *pair, access, is_whole=is_whole)
        if not (queue.gained.is_empty and queue.lost.is_empty):
            compared[path] = queue
            yield queue


def _parent(path: str, old: Partition, new: Partition) -> str:
    """Return the path of the nearest ancestor that neither version would create.

    Created ancestors are skipped, because the queues below them do not inherit their grants.
    """
    above = parent_path(path)
    while above and (old.creates(above) or new.creates(above)):
        above = parent_path(above)
    return above


def _compare(
    path: str,
    parent: ComparedQueue,
    before: _Side,
    after: _Side,
    access: Access,
    *,
    is_whole: bool,
) -> ComparedQueue:
    """Compare access to a queue in the two versions.

    If `is_whole` is true, all names are compared, because the queue inherits nothing from its
    parent in at least one version.
    """
    if before.level is None and after.level is None and before.is_open is after.is_open:
        return _SAME
    has_same_names = before.is_open is after.is_open and (
        after.own is None
        if before.own is None
        else after.own is not None and before.own.is_same(after.own)
    )
    inherits_nothing = parent.gained.is_empty and parent.lost.is_empty
    if is_whole:
        gained, lost = _whole(after, before), _whole(before, after)
    elif has_same_names and (inherits_nothing or before.own is None):
        gained, lost = parent.gained, parent.lost
    else:
        gained = _only_in(after, before, parent.gained)
        lost = _only_in(before, after, parent.lost)
    starting = None
    if gained is not parent.gained or lost is not parent.lost:
        started = _new_in(gained, parent.gained), _new_in(lost, parent.lost)
        if not (started[0].is_empty and started[1].is_empty):
            starting = QueueDifference(path, access, *started)
    whole, part = _inherited(parent, gained, lost)
    return ComparedQueue(path, gained, lost, starting, whole, part)


def _whole(one: _Side, other: _Side) -> Selection:
    """Return the names with access only in version `one`, without using the parent's result."""
    if other.is_open:
        return NOBODY
    if one.is_open:
        return Selection(other.all(), everyone=True)
    return Selection(one.all() - other.all())


def _only_in(one: _Side, other: _Side, inherited: Selection) -> Selection:
    """Return the names with access only in version `one`, using the parent's result."""
    if other.is_open:
        return NOBODY
    if one.is_open:
        if inherited.everyone and other.own is None:
            return inherited
        names = other.all()
        gained = Selection(names, everyone=True)
        return inherited if inherited == gained else gained
    names = inherited.names
    if other.own is not None:
        names = other.own.remove_from(names)
    if one.own is not None and not (other.own and one.own.is_same(other.own)):
        added = _NOBODY.union(*one.own.parts)
        level = other.level
        while added and level is not None:
            added = level.remove_from(added)
            level = level.above
        names = names | added if added else names
    return inherited if names is inherited.names else Selection(names)


def _new_in(selection: Selection, inherited: Selection) -> Selection:
    """Return the part of a queue's selection that is not inherited from its parent's selection."""
    if selection is inherited or selection.is_empty or inherited.everyone:
        return NOBODY
    return selection if selection.everyone else Selection(selection.names - inherited.names)


def _inherited(
    parent: ComparedQueue, gained: Selection, lost: Selection
) -> tuple[tuple[QueueDifference, ...], tuple[QueueDifference, ...]]:
    """Return the ancestors' differences that a queue inherits in full, and those it inherits in
    part.
    """
    above = parent.whole if parent.starting is None else (*parent.whole, parent.starting)
    if gained is parent.gained and lost is parent.lost:
        return above, parent.part
    whole = tuple(
        each for each in above if _includes(gained, each.gained) and _includes(lost, each.lost)
    )
    part = tuple(
        each
        for each in (*above, *parent.part)
        if each not in whole and (_meets(gained, each.gained) or _meets(lost, each.lost))
    )
    return whole, part


def _includes(selection: Selection, above: Selection) -> bool:
    """Return whether a queue's selection includes an ancestor's entire selection."""
    if above.everyone:
        return selection == above
    if selection.everyone:
        return selection.names.isdisjoint(above.names)
    return above.names <= selection.names


def _meets(selection: Selection, above: Selection) -> bool:
    """Return whether a queue's selection overlaps with an ancestor's."""
    if above.everyone:
        return selection.everyone
    if selection.everyone:
        return not above.names <= selection.names
    return not selection.names.isdisjoint(above.names)


def people(members: Mapping[str, Names]) -> Expander:
    """Return an expander that replaces groups with their members.

    Proxies become `~name`. Groups missing from `members` are treated as empty.
    """

    def expand(users: Names, groups: Names, proxies: Names) -> tuple[Names, ...]:
        known = (members[group] for group in groups if group in members)
        services = (frozenset(f"~{name}" for name in proxies),) if proxies else ()
        return (users, *known, *services)

    return expand
