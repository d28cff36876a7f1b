"""Faults that someone could build into the compiler of chains. The comparison of gates with their
server must find each.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from queuegate.policy.acl import Acl
from queuegate.policy.chain import own_level
from queuegate.policy.names import parent_path
from queuegate.policy.queue import Queue
from queuegate_server.sync.compiler import ChainCompiler, Link, QueueLinks, Rows


class SwapsTheKindsOfAccess(ChainCompiler):
    """Takes the chain for administration for that of submission."""

    def steps(self) -> Iterator[Rows]:
        for rows in super().steps():
            queues = rows.configured_queues
            queues.submit[:], queues.admin[:] = [*queues.admin], [*queues.submit]
            yield rows


class TakesUsersForGroups(ChainCompiler):
    """Mixes up the lists of a level."""

    def steps(self) -> Iterator[Rows]:
        for rows in super().steps():
            levels = rows.levels
            levels.users[:], levels.groups[:] = [*levels.groups], [*levels.users]
            yield rows


class SwapsLevels(ChainCompiler):
    """Names the queue of the level above."""

    def _append_level(self, above: int, depth: int, users: int, groups: int, services: int) -> int:
        return super()._append_level(above, max(0, depth - 1), users, groups, services)


class MissesALevel(ChainCompiler):
    """Refers to the level before the one above."""

    def _append_level(self, above: int, depth: int, users: int, groups: int, services: int) -> int:
        distance = above + 1 if 0 < above < self._levels else above
        return super()._append_level(distance, depth, users, groups, services)


class MissesAParent(ChainCompiler):
    """Refers to the queue before the parent."""

    def steps(self) -> Iterator[Rows]:
        for rows in super().steps():
            parents = rows.configured_queues.parent
            for index in range(2, len(parents)):
                parents[index] = min(parents[index] + 1, index)
            yield rows


class DropsServices(ChainCompiler):
    """Forgets Hadoop's `~name`."""

    def _extend(self, above: Link, path: str, acls: Sequence[Acl]) -> Link:
        without = [acl._replace(proxies=frozenset()) for acl in acls]
        return super()._extend(above, path, without)


class KeepsGroupsBelowAnAllowAll(ChainCompiler):
    """Lets a gate ask for groups where everyone is granted access."""

    def _extend(self, above: Link, path: str, acls: Sequence[Acl]) -> Link:
        level = own_level(path, acls, above.otherwise)
        groups = frozenset[str]().union(*(acl.groups for acl in acls))
        depth = path.count(".") + 1
        if level.end is not None:
            above = self._end(level.end, depth)
        is_open = above.otherwise is not None and above.otherwise.allowed
        kept = groups if is_open else level.groups
        return self._append(above, depth, level._replace(groups=kept))


class ForgetsAllowAll(ChainCompiler):
    """Takes `*` for a list without names."""

    def _extend(self, above: Link, path: str, acls: Sequence[Acl]) -> Link:
        without = [acl._replace(allows_all=False) for acl in acls]
        return super()._extend(above, path, without)


class TakesLeavesForParents(ChainCompiler):
    """Gives a queue that will be created above others the ACLs of a leaf."""

    def _link_created(self, created: Sequence[Queue]) -> QueueLinks:
        leaves = [self._partition.created(queue.path)[0] for queue in created]
        return super()._link_created(leaves)


class ForgetsParentsThatWillBeCreated(ChainCompiler):
    """Puts a queue that will be created right below the configured one."""

    def _link_created(self, created: Sequence[Queue]) -> QueueLinks:
        links = self._links[parent_path(created[-1].path)]
        return self._extend_created(links, created[0])


PLANTED_COMPILERS: Final[Sequence[type[ChainCompiler]]] = (
    SwapsTheKindsOfAccess,
    TakesUsersForGroups,
    SwapsLevels,
    MissesALevel,
    MissesAParent,
    DropsServices,
    KeepsGroupsBelowAnAllowAll,
    ForgetsAllowAll,
    TakesLeavesForParents,
    ForgetsParentsThatWillBeCreated,
)
