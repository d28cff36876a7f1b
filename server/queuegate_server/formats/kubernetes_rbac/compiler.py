"""Compiles a cluster's objects into a partition, and updates it when they change.

Each ACL depends only on the bindings of one or two targets (`grants.py`). A changed binding thus
affects only the ACLs of its targets, and the new partition shares all other queues with the old
one. A whole cluster is loaded as a change to an empty one.
"""

import bisect
import heapq
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from queuegate.policy.acl import EMPTY, Acl, AclNames, Origins
from queuegate.policy.named_grants import KINDS, MASTERS, NO_NAMESPACE, NamedGrants, level_of
from queuegate.policy.names import DEFAULT_PARTITION, ROOT, SEPARATOR
from queuegate.policy.queue import Queue, QueueAcls
from queuegate.policy.tree import Partition, PartitionBuilder
from queuegate_server.formats.kubernetes_rbac.grants import (
    GrantTable,
    GrantTarget,
    RbacOptions,
    digest,
)
from queuegate_server.formats.kubernetes_rbac.objects import (
    Binding,
    Key,
    Objects,
    QueueKey,
    QueueObject,
    RbacRole,
)

_MASTERS_ACL: Final = Acl(
    groups=frozenset({MASTERS}),
    origins=Origins(groups={MASTERS: ("the API server, which allows this group everything",)}),
)
_DEPTH: Final = 4
"""The number of levels in the deepest path."""
_FEW_PATHS: Final = 32
"""The maximum number of new and removed paths that are handled one by one; more are merged."""
_SORTED_AT_ONCE: Final = 4_096
_DIGESTS: Final = 1 << 256


@dataclass(slots=True)
class ObjectChanges:
    """New, changed and deleted objects by key; None for a deleted object."""

    roles: dict[Key, RbacRole | None] = field(default_factory=dict)
    bindings: dict[Key, Binding | None] = field(default_factory=dict)
    queues: dict[QueueKey, QueueObject | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether there is any change."""
        return bool(self.roles or self.bindings or self.queues)


class RbacCompiler:
    """Keeps a cluster's partition up to date. Must not be used after an exception.

    The place of a queue, or of a level above it, is the target of the bindings that grant access to
    it.
    """

    def __init__(self, options: RbacOptions) -> None:
        self._table = GrantTable(options)
        self._with_namespaces: Final = frozenset(
            kind.level for kind in KINDS if options.has_namespaces(kind)
        )
        self._existing: set[GrantTarget] = set()
        """The queues with an object in the cluster. Other queues are named only in bindings."""
        self._existing_digest = 0
        self._below: dict[tuple[str, str], set[str]] = {}
        """The names of the listed queues, by kind and namespace."""
        self._namespaces: dict[tuple[str, str], set[str]] = {}
        """The namespaces of the listed queues, by kind and name."""
        builder = PartitionBuilder(DEFAULT_PARTITION, acl_names=AclNames.ANY)
        builder.add([QueueAcls(ROOT, _MASTERS_ACL, EMPTY)])
        builder.add(QueueAcls(kind.path, EMPTY, EMPTY) for kind in KINDS)
        grants = NamedGrants(
            self._with_namespaces, {}, options.verb, options.users_prefix, options.groups_prefix
        )
        self.partition: Partition = replace(builder.build(), depth=_DEPTH, named_grants=grants)
        """The partition after the last change; a new object if an answer may have changed."""

    @property
    def digest(self) -> str:
        """A digest of everything that determines the partition; it does not depend on the order of
        changes.
        """
        return f"{self._table.digest:064x}{self._existing_digest:064x}"

    @property
    def left_out(self) -> frozenset[str]:
        """The namespaces whose bindings grant nothing, because they exceed the limit."""
        return self._table.left_out

    def apply(self, changes: ObjectChanges) -> Generator[None, None, None]:
        """Apply changes to the partition, in short steps. Raises TooManyGrants."""
        places: dict[GrantTarget, None] = {}
        named: dict[GrantTarget, None] = {}
        for target in (yield from self._table.change(changes.roles, changes.bindings)):
            yield
            (named if self._is_named(target) else places)[target] = None
        for key, queue in changes.queues.items():
            yield
            self._note_queue(key, places, exists=queue is not None)
        for place in [*places]:
            yield
            self._list(place, places)
        for kind, _, name in named:
            for namespace in self._namespaces.get((kind, name), ()):
                yield
                places[GrantTarget(kind, namespace, name)] = None
        if not places and not named:
            return
        grants = self.partition.named_grants
        assert grants is not None  # noqa: S101 - set when the partition was created
        if named:
            acls = yield from self._named_acls(grants.acls, named)
            grants = replace(grants, acls=acls)
        queues, new, gone = yield from self._changed_queues(grants, places)
        paths = yield from _changed_paths(self.partition.paths, new, gone)
        self.partition = replace(
            self.partition, queues=MappingProxyType(queues), paths=paths, named_grants=grants
        )

    def _is_named(self, target: GrantTarget) -> bool:
        """Return whether a target consists of the queues with one name in all namespaces."""
        kind, namespace, name = target
        return bool(name) and not namespace and kind in self._with_namespaces

    def _note_queue(self, key: QueueKey, places: dict[GrantTarget, None], *, exists: bool) -> None:
        kind, namespace, name = key
        level = level_of(name)
        if level is None:
            return
        above = namespace or (NO_NAMESPACE if kind in self._with_namespaces else "")
        place = GrantTarget(kind, above, level)
        if exists is not (place in self._existing):
            (self._existing.add if exists else self._existing.remove)(place)
            self._existing_digest += digest((*place,)) * (1 if exists else -1)
            self._existing_digest %= _DIGESTS
            places[place] = None

    def _list(self, place: GrantTarget, places: dict[GrantTarget, None]) -> None:
        """Record whether a queue is listed, and add the level above it to `places`."""
        kind, namespace, name = place
        if not name:
            return
        is_listed = place in self._existing or place in self._table.bindings
        _put(self._below, (kind, namespace), name, is_present=is_listed)
        if namespace:
            _put(self._namespaces, (kind, name), namespace, is_present=is_listed)
            places[GrantTarget(kind, namespace, "")] = None

    def _named_acls(
        self, acls: Mapping[str, Mapping[str, Acl]], named: Iterable[GrantTarget]
    ) -> Generator[None, None, Mapping[str, Mapping[str, Acl]]]:
        changed = {kind: dict(names) for kind, names in acls.items()}
        for target in named:
            yield
            names = changed.setdefault(target.kind, {})
            if target in self._table.bindings:
                names[target.name] = yield from self._table.acl(target)
            else:
                names.pop(target.name, None)
        return changed

    def _changed_queues(
        self, grants: NamedGrants, places: Iterable[GrantTarget]
    ) -> Generator[None, None, tuple[dict[str, Queue], list[str], set[str]]]:
        """Return all queues, the new paths, and the removed paths."""
        old = self.partition.queues
        queues = dict(old)
        new: list[str] = []
        gone: set[str] = set()
        # Parents first.
        for place in sorted(places, key=lambda place: bool(place.name)):
            yield
            path = SEPARATOR.join((ROOT, *filter(None, place)))
            if not self._exists(place):
                if queues.pop(path, None) is not None:
                    gone.add(path)
                continue
            acl = yield from self._acl(place, grants)
            queues[path] = Queue(QueueAcls(path, acl, EMPTY), self.partition.parse_acl)
            if path not in old:
                new.append(path)
        return queues, new, gone

    def _exists(self, place: GrantTarget) -> bool:
        kind, namespace, name = place
        if name:
            return place in self._existing or place in self._table.bindings
        is_kind = not namespace
        return is_kind or place in self._table.bindings or (kind, namespace) in self._below

    def _acl(self, place: GrantTarget, grants: NamedGrants) -> Generator[None, None, Acl]:
        kind, namespace, name = place
        if not (namespace and name):
            return (yield from self._table.acl(place))
        if place not in self._table.bindings:
            return grants.acls.get(kind, {}).get(name, EMPTY)
        return (yield from self._table.acl(place, GrantTarget(kind, "", name)))


def compile_objects(objects: Objects, options: RbacOptions) -> RbacCompiler:
    """Return a compiler whose partition consists of a cluster's objects. Raises TooManyGrants.

    The partition contains the queues that exist, and those that a binding names in its own
    namespace.
    """
    compiler = RbacCompiler(options)
    changes = ObjectChanges({**objects.roles}, {**objects.bindings}, {**objects.queues})
    for _ in compiler.apply(changes):
        pass
    return compiler


def _put(
    sets: dict[tuple[str, str], set[str]], key: tuple[str, str], item: str, *, is_present: bool
) -> None:
    if is_present:
        sets.setdefault(key, set()).add(item)
    elif key in sets:
        sets[key].discard(item)
        if not sets[key]:
            del sets[key]


def _changed_paths(
    paths: tuple[str, ...], new: list[str], gone: set[str]
) -> Generator[None, None, tuple[str, ...]]:
    """Return the sorted paths, with the new paths added and the removed paths dropped."""
    if not new and not gone:
        return paths
    if len(new) + len(gone) <= _FEW_PATHS:
        few = [*paths]
        for path in gone:
            del few[bisect.bisect_left(few, path)]
        for path in new:
            bisect.insort(few, path)
        return (*few,)
    blocks = []
    for start in range(0, len(new), _SORTED_AT_ONCE):
        yield
        blocks.append(sorted(new[start : start + _SORTED_AT_ONCE]))
    merged: list[str] = []
    yield from _collect(heapq.merge(paths, *blocks), gone, merged)
    return (*merged,)


def _collect(paths: Iterable[str], gone: set[str], merged: list[str]) -> Iterator[None]:
    for path in paths:
        yield
        if path not in gone:
            merged.append(path)
