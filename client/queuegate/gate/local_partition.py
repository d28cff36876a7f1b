"""A gate's copy of a partition: its queues, and chains of the names listed in their ACLs.

A chain is built from the policy's tables on first use.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

from queuegate.gate.policy_tables import PolicyTables
from queuegate.policy.acl import WILDCARD
from queuegate.policy.chain import Chain, ChainEnd, ChainIndexes
from queuegate.policy.created_queues import ANY_NAME
from queuegate.policy.decision import (
    ACLS_DISABLED,
    IN_RECOVERY_QUEUE,
    OUTCOMES,
    Access,
    Decision,
    Reason,
)
from queuegate.policy.names import (
    ROOT,
    SEPARATOR,
    is_at_or_below,
    is_recovery_path,
    is_user_name,
    parent_path,
    queue_path,
    yarn_queue_path,
)
from queuegate.policy.tree import MAX_MISSING_PATHS
from queuegate.v1 import sync_pb2

ANY_USER: Final = sync_pb2.QUEUE_NAMING_YUNIKORN_ANY_USER
SHORT_NAMES: Final = sync_pb2.QUEUE_NAMING_YARN_SHORT_NAMES
YUNIKORN: Final = frozenset((sync_pb2.QUEUE_NAMING_YUNIKORN, ANY_USER))
NAMINGS: Final = YUNIKORN | {sync_pb2.QUEUE_NAMING_YARN, SHORT_NAMES}
"""The naming rules supported by this gate. Checks under all other rules are sent to the server."""

MAX_PLAIN: Final = 256
"""The maximum total length of a check's names, excluding groups, for a local decision. It also
bounds each name. Longer names may exceed the server's limits, so checks with such names are sent to
the server.
"""


class Target(NamedTuple):
    """The chain that decides checks for a path."""

    chain: Chain
    evaluated_queue: str = ""
    """The ancestor whose ACLs are evaluated in place of a missing queue. Empty if the queue exists
    or will be created, or if no decision depends on the path."""


_RECOVERY: Final = Target(ChainEnd(IN_RECOVERY_QUEUE, ChainIndexes()))


class LocalPartition:
    """A partition's queues, with their chains. Thread-safe."""

    def __init__(self, name: str, naming: int, tables: PolicyTables, ambiguous_level: int) -> None:
        """Create a partition from complete tables.

        Args:
            name: The partition name.
            naming: One of NAMINGS.
            tables: The tables.
            ambiguous_level: The first level of the chain for short names shared by several queues.

        Raises:
            ValueError: `ambiguous_level` does not exist, or belongs to a queue.
        """
        if ambiguous_level >= len(tables.above):
            raise ValueError("ambiguous names refer to a level that does not exist")
        if tables.depth[ambiguous_level]:
            raise ValueError("ambiguous names refer to a level of a queue")
        self.name = name
        self.queues = tables.queues
        """Queue numbers by path."""
        self._naming = naming
        self._is_yunikorn = naming in YUNIKORN
        self._tables = tables
        self._ambiguous_level = ambiguous_level
        self._indexes = ChainIndexes()
        self.targets: dict[Access, dict[str, Target]] = {access: {} for access in Access}
        """The cached targets by canonical path. Long or unprintable paths are not cached."""
        self._levels: dict[int, Chain] = {}
        """Chains of configured queues, by the number of their first level."""
        self._names: dict[int, tuple[frozenset[str], frozenset[str], frozenset[str]]] = {}
        """The users, groups and services listed for created queues, by level. Chains for different
        paths share them.
        """

    def canonical_path(self, text: str) -> str | None:
        """Return the canonical form of a queue path, or None if the text is not a path."""
        if text in self.queues:
            return text
        if self._is_yunikorn:
            return queue_path(text)
        if self._naming == SHORT_NAMES and text in self._short_names:
            return self._short_names[text]
        return yarn_queue_path(text)

    def accepts_user(self, name: str) -> bool:
        """Return whether servers accept this user name in a request that contains groups."""
        if not self._is_yunikorn or (name.isidentifier() and name.isascii()):
            return True  # a cheap test that most names pass
        return is_user_name(name) or (self._naming == ANY_USER and name != WILDCARD)

    @cached_property
    def paths(self) -> list[str]:
        """All queue paths, sorted."""
        return sorted(self.queues)

    @cached_property
    def _short_names(self) -> dict[str, str]:
        """Queue paths by the name of their last level. A name shared by several queues maps to
        itself.
        """
        names: dict[str, str] = {}
        for path in self._tables.paths:
            name = path.rpartition(SEPARATOR)[2]
            if name != ROOT:
                names[name] = name if name in names else path
        return names

    def local_path(self, queue: object) -> str | None:
        """Return the canonical form of a question's queue, or None if a server might reject it."""
        if isinstance(queue, str) and len(queue) <= MAX_PLAIN and queue.isprintable():
            return self.canonical_path(queue)
        return None

    def chain(self, path: str, access: Access) -> Chain:
        """Return the chain for a configured queue and a kind of access."""
        target = self.target(path, access)
        if target is None:
            raise AssertionError(f"no chain for the configured queue {path!r}")
        return target.chain

    def target(self, path: str, access: Access) -> Target | None:
        """Return the target for a canonical path; None if checks for it must be sent to the
        server.
        """
        targets = self.targets[access]
        target = targets.get(path)
        if target is None:
            target = self._build(path, access)
            if target is not None and path.isprintable() and len(path) <= MAX_PLAIN:
                if len(targets) >= len(self.queues) + MAX_MISSING_PATHS:
                    targets.clear()
                targets[path] = target
        return target

    def _is_ambiguous(self, path: str) -> bool:
        """Return whether a path is a short name shared by several queues. All other paths start
        with the root.
        """
        return SEPARATOR not in path and path != ROOT

    def _nearest(self, path: str) -> str:
        while path not in self.queues:
            path = parent_path(path)
        return path

    def _build(self, path: str, access: Access) -> Target | None:
        tables, is_submit = self._tables, access is Access.SUBMIT
        if is_submit and self._is_yunikorn and is_recovery_path(path):
            return _RECOVERY
        if self._is_ambiguous(path):
            return Target(self._chain(self._ambiguous_level, path, 0))
        nearest = self._nearest(path)
        queue = self.queues[nearest]
        depth = nearest.count(SEPARATOR) + 1
        if path == nearest:
            column = tables.submit if is_submit else tables.admin
            return Target(self._chain(column[queue], path, depth))
        if queue not in tables.created:
            return Target(self.chain(nearest, access), nearest)
        pattern = self._pattern(queue, path.split(SEPARATOR)[depth:])
        if pattern is None:
            return None
        column = tables.created_submit if is_submit else tables.created_admin
        # The column contains level numbers plus 1, or 0 if the server must decide.
        level = column[pattern - len(self.queues)] - 1
        return Target(self._chain(level, path, depth)) if level >= 0 else None

    def _pattern(self, queue: int, names: Sequence[str]) -> int | None:
        """Return the number of the pattern that creates a queue, or None if there is none.

        Args:
            queue: The number of the nearest configured queue.
            names: The names of the levels below it.
        """
        above = queue
        for name in names:
            patterns = self._tables.created.get(above, {})
            if name not in patterns and ANY_NAME not in patterns:
                return None
            above = patterns[name if name in patterns else ANY_NAME]
        return above

    def _chain(self, level: int, path: str, depth: int) -> Chain:
        """Return the chain that starts at a level.

        Args:
            level: The number of the first level.
            path: The requested path.
            depth: The depth of the nearest configured queue on the path. Chains from deeper levels
                contain the requested path, so different paths cannot share them.
        """
        unbuilt, chain = self._unbuilt_levels(level, path)
        if chain is None:
            chain = self._end(unbuilt.pop(), path, depth)
        for each in reversed(unbuilt):
            chain = self._level_below(chain, each, path, depth)
        return chain

    def _unbuilt_levels(self, level: int, path: str) -> tuple[list[int], Chain | None]:
        """Return the levels, from the given one up, whose chains are not built yet.

        Also return the built chain above these levels, or None if the last of the levels ends the
        chain.
        """
        unbuilt: list[int] = []
        while (built := self._built(level, path)) is None:
            unbuilt.append(level)
            distance = self._tables.above[level]
            if not distance:
                break
            level -= distance
        return unbuilt, built

    def _level_below(self, above: Chain, level: int, path: str, depth: int) -> Chain:
        """Return the chain of a level, given the chain above it."""
        own_depth = self._tables.depth[level]
        queue = self._prefix(path, own_depth)
        if own_depth <= depth:
            chain = self._levels[level] = Chain(above, queue, *self._tables.listed_names(level))
            return chain
        names = self._names.get(level)
        if names is None:
            names = self._names[level] = self._tables.listed_names(level)
        return Chain(above, queue, *names)

    def _built(self, level: int, path: str) -> Chain | None:
        """Return the chain of a level if it has been built for queues on the path.

        The contract allows queues on other paths to share the level.
        """
        chain = self._levels.get(level)
        if chain is None:
            return None
        end = chain.otherwise if isinstance(chain, ChainEnd) else None
        queue = chain.queue if end is None else end.matched_queue
        return chain if is_at_or_below(path, queue) else None

    def _end(self, level: int, path: str, depth: int) -> Chain:
        reason = self._tables.reasons[level]
        own = self._tables.depth[level]
        if reason is Reason.ACLS_DISABLED:
            decision = ACLS_DISABLED
        elif OUTCOMES[reason].grants:
            decision = Decision(True, reason, self._prefix(path, own), WILDCARD)
        else:
            decision = Decision(False, reason)
        chain = ChainEnd(decision, self._indexes)
        if own <= depth:
            self._levels[level] = chain
        return chain

    def _prefix(self, path: str, depth: int) -> str:
        """Return the first `depth` levels of a path. For a configured queue, return the stored
        string to save memory.
        """
        prefix = SEPARATOR.join(path.split(SEPARATOR)[:depth])
        number = self.queues.get(prefix)
        return prefix if number is None else self._tables.paths[number]
