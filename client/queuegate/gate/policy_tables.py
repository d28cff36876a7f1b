"""A policy's tables, received from a server in parts and validated.

Rows refer to earlier rows by distance, so the tables cannot contain cycles or forward references.
All other faults are rejected here, so code that reads complete tables need not check for them.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from itertools import accumulate, chain, count, pairwise
from operator import gt
from typing import Final, NamedTuple

from queuegate.gate import bounds
from queuegate.policy.decision import OUTCOMES, Reason
from queuegate.policy.names import ROOT, SEPARATOR
from queuegate.v1 import access_pb2, sync_pb2

_REASONS: Final[Mapping[int, Reason]] = {
    access_pb2.REASON_WILDCARD: Reason.WILDCARD,
    access_pb2.REASON_CLUSTER_ADMIN: Reason.CLUSTER_ADMIN,
    access_pb2.REASON_ACLS_DISABLED: Reason.ACLS_DISABLED,
    access_pb2.REASON_NO_MATCH: Reason.NO_MATCH,
}


class PolicySize(NamedTuple):
    """The size of a policy, or the total size of several policies."""

    queues: int = 0
    created_queues: int = 0
    names: int = 0
    levels: int = 0
    listed: int = 0
    bytes: int = 0
    """The total size of the policy's serialized parts."""
    path_bytes: int = 0
    """The size of all queue paths."""

    def plus(self, other: "PolicySize", sign: int = 1) -> "PolicySize":
        """Return this size plus `sign` times the other size."""
        return PolicySize(*(one + sign * two for one, two in zip(self, other, strict=True)))

    def check(self) -> None:
        """Raise ValueError if this total size exceeds the bounds."""
        for size, limit, what in zip(self, _limits(), _COUNTED, strict=True):
            if size > limit:
                raise ValueError(f"the policies have more than {limit} {what}")


_COUNTED: Final = (
    "queues",
    "created queues",
    "names",
    "levels",
    "names in levels",
    "bytes",
    "bytes in queue paths",
)


def _limits() -> tuple[int, ...]:
    return (
        bounds.MAX_QUEUES,
        bounds.MAX_QUEUES,
        bounds.MAX_NAMES,
        bounds.MAX_LEVELS,
        bounds.MAX_LISTED,
        bounds.MAX_POLICY_BYTES,
        bounds.MAX_PATHS_BYTES,
    )


def _numbers() -> "array[int]":
    return array("I")


class PolicyTables:
    """A policy's tables. They must not be read before `finish` has been called."""

    def __init__(self) -> None:
        """Create empty tables."""
        self.names: list[str] = []
        """The names of users, groups and services."""
        self.above, self.depth = _numbers(), _numbers()
        """For each level, the distance to the level above (0 at the end of a chain) and the path's
        depth.
        """
        self.listed = _numbers()
        """Indexes into `names`."""
        self.ends = array("I", [0])
        """A 0, followed by the ends of each level's lists of users, groups and services in
        `listed`. Each list starts where the previous list ends.
        """
        self.reasons: dict[int, Reason] = {}
        """The reason for the decision at the end of each chain, by level."""
        self.submit, self.admin = _numbers(), _numbers()
        """The first level of each queue's chain."""
        self.paths: list[str] = []
        """The path of each queue."""
        self.path_bytes = 0
        """The total size of all paths."""
        self.queues: dict[str, int] = {}
        """Queue numbers by path."""
        self.created: dict[int, dict[str, int]] = {}
        """The numbers of the patterns for created queues, keyed by the number of the parent queue
        or pattern, then by name. Pattern numbers follow the last queue's number.
        """
        self.created_submit, self.created_admin = _numbers(), _numbers()
        """The first level of each pattern's chain, plus 1; 0 if checks must be sent to the server.
        """
        self._lengths: list[int] = []
        """The length of each level's chain."""
        self._chain_ends: list[int] = []
        """The end of each level's chain."""
        self._ends: list[int] = []
        self._end_reasons: list[int] = []
        self._needed_ends: set[int] = set()
        """The ends of chains in which a level lists groups or services."""
        self._queue_depths, self._created_depths = _numbers(), _numbers()
        self._created_levels = _numbers()
        """For each pattern, the number of its levels below the nearest queue."""
        self._distinct: set[str] = set()
        self._late_fault = ""
        """The first of the faults that `finish` reports only if it finds no other fault."""

    def add(self, part: sync_pb2.PolicyPart) -> None:
        """Append a part's rows. Raises ValueError if they are invalid."""
        self.names += part.names
        self._distinct.update(part.names)
        if "" in part.names:
            raise ValueError("a name in an ACL is empty")
        if part.HasField("levels"):
            self._add_levels(part.levels)
        if part.HasField("configured_queues"):
            self._add_queues(part.configured_queues)
        if part.HasField("created_queues"):
            self._add_created(part.created_queues)

    def finish(self) -> None:
        """Validate the complete tables. Raises ValueError if they are invalid."""
        if not self.paths:
            raise ValueError("the policy has no queues")
        if self.ends[-1] != len(self.listed):
            raise ValueError("the number of listed names does not match the levels")
        if max(self.depth) > max(chain(self._queue_depths, self._created_depths)):
            raise ValueError("a level is deeper than the path of any queue")
        if len(self._ends) != len(self._end_reasons):
            raise ValueError("the number of reasons does not match the ends of chains")
        self.reasons = dict(
            zip(self._ends, map(_REASONS.__getitem__, self._end_reasons), strict=True)
        )
        if len(self._distinct) != len(self.names):
            raise ValueError("a name in an ACL was sent twice")
        if self._late_fault:
            raise ValueError(self._late_fault)
        for level, reason in self.reasons.items():
            if _has_wrong_depth(reason, self.depth[level]):
                raise ValueError("the reason at the end of a chain does not match its depth")
            if OUTCOMES[reason].grants and level in self._needed_ends:
                raise ValueError("a level lists groups or services, but its chain grants access")
        self._queue_depths = self._created_depths = self._created_levels = _numbers()
        self._lengths, self._chain_ends, self._ends, self._end_reasons = [], [], [], []
        self._needed_ends, self._distinct = set(), set()

    def listed_names(self, level: int) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """Return the users, groups and services listed at a level."""
        ends = self.ends[3 * level : 3 * level + 4]
        users, groups, services = (
            frozenset(map(self.names.__getitem__, self.listed[start:end]))
            for start, end in pairwise(ends)
        )
        return users, groups, services

    def _add_levels(self, rows: sync_pb2.LevelColumns) -> None:
        _check_columns("levels", rows.above, rows.depth, rows.users, rows.groups, rows.services)
        # Copy the columns to lists, because lists are faster to read.
        listed, above = rows.listed[:], rows.above[:]
        users, groups, services = rows.users[:], rows.groups[:], rows.services[:]
        if max(listed, default=-1) >= len(self.names):
            raise ValueError("a level lists a name that does not exist")
        if not _REASONS.keys() >= {*rows.end_reasons}:
            raise ValueError("a chain's end has an invalid reason")
        if self.ends[-1] + sum(users) + sum(groups) + sum(services) > bounds.MAX_LISTED:
            raise ValueError("the number of listed names does not match the levels")
        start = len(self.above)
        if any(map(gt, above, count(start))):
            raise ValueError("a level refers to a level before the first")
        self.above.fromlist(above)
        self.depth.fromlist(rows.depth[:])
        self.listed.fromlist(listed)
        self._end_reasons += rows.end_reasons
        counts = chain.from_iterable(zip(users, groups, services, strict=True))
        self.ends.fromlist([*accumulate(counts, initial=self.ends.pop())])
        self._link_chains(above, start)

    def _link_chains(self, above: Sequence[int], start: int) -> None:
        """Check the chains of the levels from `start` on. Raises ValueError if they are invalid."""
        lengths, ends, chain_ends = self._lengths, self.ends, self._chain_ends
        depths = self.depth
        for index, distance in enumerate(above, start):
            if distance:
                level_above = index - distance
                lengths.append(lengths[level_above] + 1)
                chain_ends.append(chain_ends[level_above])
                if depths[index] < depths[level_above]:
                    self._note("a level is deeper than the level below it")
                if ends[3 * index + 1] != ends[3 * index + 3]:
                    self._needed_ends.add(chain_ends[index])
                continue
            if ends[3 * index] != ends[3 * index + 3]:
                raise ValueError("the end of a chain lists names")
            lengths.append(1)
            chain_ends.append(index)
            self._ends.append(index)
        if max(lengths[start:], default=0) > bounds.MAX_CHAIN_LEVELS:
            raise ValueError(f"a chain has more than {bounds.MAX_CHAIN_LEVELS} levels")
        if any(map(gt, lengths[start:], (2 * depth + 2 for depth in depths[start:]))):
            self._note("a chain has more levels than its queue's path allows")

    def _note(self, fault: str) -> None:
        self._late_fault = self._late_fault or fault

    def _check_starts(self, starts: Iterable[int], depths: Iterable[int]) -> None:
        """Check the first levels of chains against the depths of their queues."""
        if any(map(gt, map(self.depth.__getitem__, starts), depths)):
            self._note("a chain starts deeper than its queue's path")

    def _add_queues(self, rows: sync_pb2.QueueColumns) -> None:
        _check_columns("queues", rows.parent, rows.name, rows.submit, rows.admin)
        _check_queue_names(rows.name)
        if max(chain(rows.submit, rows.admin), default=-1) >= len(self.above):
            raise ValueError("a queue refers to a level that does not exist")
        if rows.name and self._created_depths:
            raise ValueError("a queue follows the created queues")
        paths, depths, queues = self.paths, self._queue_depths, self.queues
        total = self.path_bytes
        for number, (distance, name) in enumerate(
            zip(rows.parent[:], rows.name, strict=True), len(paths)
        ):
            above = number - distance
            if not number:
                if distance or name != ROOT:
                    raise ValueError(f"the first queue is not {ROOT!r}")
                path = ROOT
                depths.append(1)
            elif 0 <= above < number:
                path = f"{paths[above]}{SEPARATOR}{name}"
                depths.append(depths[above] + 1)
            else:
                raise ValueError("a queue refers to a parent that does not exist")
            if queues.setdefault(path, number) != number:
                raise ValueError("the policy contains a queue twice")
            paths.append(path)
            size = len(path.encode())
            total += size
            if size > bounds.MAX_PATH_BYTES:
                raise ValueError(f"a queue path has more than {bounds.MAX_PATH_BYTES} bytes")
            if total > bounds.MAX_PATHS_BYTES:
                raise ValueError(f"the paths have more than {bounds.MAX_PATHS_BYTES} bytes")
        self.path_bytes = total
        added = depths[len(self.submit) :]
        self._check_starts(chain(rows.submit, rows.admin), chain(added, added))
        self.submit.fromlist(rows.submit[:])
        self.admin.fromlist(rows.admin[:])

    def _add_created(self, rows: sync_pb2.CreatedQueueColumns) -> None:
        _check_columns("created queues", rows.parent, rows.name, rows.submit, rows.admin)
        _check_queue_names(rows.name)
        if max(chain(rows.submit, rows.admin), default=0) > len(self.above):
            raise ValueError("a created queue refers to a level that does not exist")
        queues, depths = len(self.paths), self._created_depths
        for number, (distance, name) in enumerate(
            zip(rows.parent, rows.name, strict=True), queues + len(depths)
        ):
            above = number - distance
            if not 0 <= above < number:
                raise ValueError("a created queue refers to a parent that does not exist")
            if self.created.setdefault(above, {}).setdefault(name, number) != number:
                raise ValueError("the policy contains a created queue twice")
            is_queue = above < queues
            depth = self._queue_depths[above] if is_queue else depths[above - queues]
            depths.append(depth + 1)
            self._created_levels.append(1 if is_queue else self._created_levels[above - queues] + 1)
        if max(self._created_levels, default=0) > bounds.MAX_CREATED_LEVELS:
            self._note(
                f"a created queue is more than {bounds.MAX_CREATED_LEVELS} levels below a queue"
            )
        added = depths[len(self.created_submit) :]
        starts = zip(chain(rows.submit, rows.admin), chain(added, added), strict=True)
        known = [each for each in starts if each[0]]
        self._check_starts([start - 1 for start, _ in known], [depth for _, depth in known])
        self.created_submit.extend(rows.submit)
        self.created_admin.extend(rows.admin)


def _has_wrong_depth(reason: Reason, depth: int) -> bool:
    """Return whether a chain's end has a depth that contradicts its reason."""
    if reason is Reason.WILDCARD:
        return depth == 0
    return reason is Reason.CLUSTER_ADMIN and depth != 0


def _check_columns(table: str, *columns: Sized) -> None:
    if len({*map(len, columns)}) != 1:
        raise ValueError(f"the columns of {table} have different lengths")


def _check_queue_names(names: Collection[str]) -> None:
    if "" in names or SEPARATOR in "".join(names):
        raise ValueError("a queue name is empty or contains a dot")
