"""Compiles the ACLs of a partition into the tables from which gates decide.

The tables hold the chains of `policy/chain.py`. They are written in an order that depends only on
the policy, so equal policies have equal tables on all replicas and after a restart. The work is
done in steps, and keeps only the chains that the queues below will extend.
"""

from collections.abc import Generator, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from queuegate.policy.acl import Acl, AclNames
from queuegate.policy.chain import CLUSTER, Chain, ChainEnd
from queuegate.policy.created_queues import ANY_NAME, QueueCreation
from queuegate.policy.decision import Access, Reason
from queuegate.policy.names import ROOT, SEPARATOR, parent_path
from queuegate.policy.queue import Queue
from queuegate.policy.tree import Partition
from queuegate.v1 import access_pb2, sync_pb2

MAX_PATTERNS: Final = 10_000
"""If it takes more patterns to describe the queues that the scheduler will create, gates ask."""
_STEP_QUEUES: Final = 250
"""Queues in one step, which takes about 5 ms."""
_STEP_TEXT: Final = 65_536
"""Characters of the ACLs in one step."""
_STEP_NAMES: Final = 4_096
"""Names of one list that are sorted or numbered in one step."""
_SUBMIT: Final = Access.SUBMIT
_ADMIN: Final = Access.ADMIN
_REASONS: Final = {
    Reason.WILDCARD: access_pb2.REASON_WILDCARD,
    Reason.CLUSTER_ADMIN: access_pb2.REASON_CLUSTER_ADMIN,
    Reason.ACLS_DISABLED: access_pb2.REASON_ACLS_DISABLED,
    Reason.NO_MATCH: access_pb2.REASON_NO_MATCH,
}

Rows: TypeAlias = sync_pb2.PolicyPart
"""The next rows of all tables."""


def queue_naming(partition: Partition) -> sync_pb2.QueueNaming.ValueType:
    """Return how a partition names its queues."""
    if partition.cluster is None:
        if partition.acl_names is AclNames.ANY:
            return sync_pb2.QUEUE_NAMING_YUNIKORN_ANY_USER
        return sync_pb2.QUEUE_NAMING_YUNIKORN
    if partition.cluster.has_short_names:
        return sync_pb2.QUEUE_NAMING_YARN_SHORT_NAMES
    return sync_pb2.QUEUE_NAMING_YARN


class Link(NamedTuple):
    """A chain, and the index of the level at which it begins in the table."""

    chain: Chain
    level: int


class QueueLinks(NamedTuple):
    """The chains of a queue, and its number in the table."""

    number: int
    submit: Link
    admin: Link


class LevelRows:
    """The next rows of the table of levels. Plain lists: appending to a message takes longer."""

    def __init__(self) -> None:
        """Start without rows."""
        self.above: list[int] = []
        self.depth: list[int] = []
        self.users: list[int] = []
        self.groups: list[int] = []
        self.services: list[int] = []
        self.listed: list[int] = []
        self.end_reasons: list[access_pb2.Reason.ValueType] = []


class QueueRows:
    """The next rows of the table of queues, or of that of patterns."""

    def __init__(self) -> None:
        """Start without rows."""
        self.parent: list[int] = []
        self.name: list[str] = []
        self.submit: list[int] = []
        self.admin: list[int] = []

    def append(self, distance: int, path: str, submit: int, admin: int) -> None:
        """Append a queue."""
        self.parent.append(distance)
        self.name.append(path.rpartition(SEPARATOR)[2])
        self.submit.append(submit)
        self.admin.append(admin)


class ChainCompiler:
    """Compiles one partition, once."""

    def __init__(self, partition: Partition) -> None:
        """Start before the first step.

        Args:
            partition: The partition, whose ACLs are parsed but not kept.
        """
        self._partition = partition
        self._names: dict[str, int] = {}
        """The index of each name in the table."""
        self._levels = 0
        self._queues = 0
        """Queues and patterns in the table."""
        self._links: dict[str, QueueLinks] = {}
        """By path: those queues that have queues below them."""
        self._parents: dict[str, QueueLinks] = {}
        """By pattern: those queues that will be created above others."""
        self._new_names: list[str] = []
        """In the current step, as all that follow."""
        self._level_rows = LevelRows()
        self._queue_rows = QueueRows()
        self._created_rows = QueueRows()
        self._text = 0
        """Characters of ACLs."""

    def steps(self) -> Iterator[Rows]:
        """Yield the next rows of the tables, step by step. A step may have no rows."""
        # Gates decide about an ambiguous short name from level 0.
        nobody = self._end(self._partition.ambiguous_chain(), 0)
        yield from self._configured(nobody)
        if self._partition.creation is not None:
            yield from self._created(self._partition.creation)
        yield self._next_step()

    def _configured(self, nobody: Link) -> Iterator[Rows]:
        partition = self._partition
        parents = yield from self._paths_with_queues_below()
        submit, admin = (partition.chain(CLUSTER, access) for access in (_SUBMIT, _ADMIN))
        admins = yield from self._append(admin, nobody, 0)
        others = admins
        if submit is not admin:
            others = yield from self._append(submit, nobody, 0)
        self._links[CLUSTER] = QueueLinks(0, others, admins)
        for path, queue in partition.queues.items():
            above = self._links[parent_path(path)]
            submit_acl, admin_acl = queue.read_acls()
            links = QueueLinks(
                self._queues,
                (yield from self._extend(above.submit, path, (submit_acl, admin_acl))),
                (yield from self._extend(above.admin, path, (admin_acl,))),
            )
            self._queues += 1
            if path in parents:
                self._links[path] = links
            rows = self._queue_rows
            rows.append(links.number - above.number, path, links.submit.level, links.admin.level)
            self._text += len(submit_acl.text) + len(admin_acl.text)
            if len(rows.name) >= _STEP_QUEUES or self._text > _STEP_TEXT:
                yield self._next_step()

    def _paths_with_queues_below(self) -> Generator[Rows, None, set[str]]:
        creation = self._partition.creation
        paths = set(creation.creators if creation else ())
        for number, path in enumerate(self._partition.queues, 1):
            paths.add(parent_path(path))
            if number % _STEP_NAMES == 0:
                yield self._next_step()
        return paths

    def _created(self, creation: QueueCreation) -> Iterator[Rows]:
        queues = self._partition.queues
        patterns = [*islice(creation.paths_below(ROOT, ROOT, queues), MAX_PATTERNS + 1)]
        if len(patterns) > MAX_PATTERNS:
            patterns = [f"{path}{SEPARATOR}{ANY_NAME}" for path in creation.creators]
        numbers: dict[str, int] = {}
        for pattern in sorted({*patterns}):
            above = parent_path(pattern)
            number = numbers[pattern] = self._queues
            self._queues += 1
            submit = admin = 0
            if len(patterns) <= MAX_PATTERNS and (acls := self._partition.created(pattern)):
                links = yield from self._link_created(acls)
                submit, admin = links.submit.level + 1, links.admin.level + 1
            rows = self._created_rows
            parent = self._links[above].number if above in queues else numbers[above]
            rows.append(number - parent, pattern, submit, admin)
            if len(rows.name) >= _STEP_QUEUES:
                yield self._next_step()

    def _link_created(self, created: Sequence[Queue]) -> Generator[Rows, None, QueueLinks]:
        """Append the chains of a queue that will be created.

        Args:
            created: The queue, then those that will be created above it, upwards.
        """
        links = self._links[parent_path(created[-1].path)]
        for queue in reversed(created[1:]):
            known = self._parents.get(queue.path)
            if known is None:
                known = yield from self._extend_created(links, queue)
                self._parents[queue.path] = known
            links = known
        return (yield from self._extend_created(links, created[0]))

    def _extend_created(self, above: QueueLinks, queue: Queue) -> Generator[Rows, None, QueueLinks]:
        """Append one level for each ACL, as `Partition.chain` does."""
        submit_acl, admin_acl = (queue.submit_acl,), (queue.admin_acl,)
        submit = yield from self._extend(above.submit, queue.path, admin_acl)
        submit = yield from self._extend(submit, queue.path, submit_acl)
        admin = yield from self._extend(above.admin, queue.path, admin_acl)
        return QueueLinks(above.number, submit, admin)

    def _extend(self, above: Link, path: str, acls: Sequence[Acl]) -> Generator[Rows, None, Link]:
        """Append what the ACLs of a queue add to the chain above."""
        chain = above.chain.extend(path, acls)
        if chain is above.chain:
            return above
        return (yield from self._append(chain, above, path.count(SEPARATOR) + 1))

    def _append(self, chain: Chain, above: Link, depth: int) -> Generator[Rows, None, Link]:
        """Append a level, or an end, or a level and its end."""
        if isinstance(chain, ChainEnd):
            return self._end(chain, depth)
        if chain.above is not above.chain:
            above = self._end(chain.above, depth)
        lists = chain.users, chain.groups, chain.services
        level = self._append_level(self._levels - above.level, depth, *map(len, lists))
        for names in lists:
            if len(names) > _STEP_NAMES:
                yield from self._list(names)
            else:
                self._append_names(sorted(names))
        return Link(chain, level)

    def _end(self, chain: Chain, depth: int) -> Link:
        """Append the end of a chain."""
        if chain.otherwise is None:
            raise AssertionError("the end of a chain has a decision")
        self._level_rows.end_reasons.append(_REASONS[chain.otherwise.reason])
        return Link(chain, self._append_level(0, depth, 0, 0, 0))

    def _append_level(self, above: int, depth: int, users: int, groups: int, services: int) -> int:
        rows = self._level_rows
        rows.above.append(above)
        rows.depth.append(depth)
        rows.users.append(users)
        rows.groups.append(groups)
        rows.services.append(services)
        self._levels += 1
        return self._levels - 1

    def _list(self, names: frozenset[str]) -> Iterator[Rows]:
        """Append the names of a level, sorted, in several steps."""
        entries = [*names]
        blocks = []
        for start in range(0, len(entries), _STEP_NAMES):
            blocks.append(sorted(entries[start : start + _STEP_NAMES]))
            yield self._next_step()
        ordered = merge(*blocks)
        while block := [*islice(ordered, _STEP_NAMES)]:
            self._append_names(block)
            yield self._next_step()

    def _append_names(self, names: Sequence[str]) -> None:
        table, listed = self._names, self._level_rows.listed
        for name in names:
            number = table.get(name)
            if number is None:
                number = table[name] = len(table)
                self._new_names.append(name)
            listed.append(number)

    def _next_step(self) -> Rows:
        """Return the rows of the current step, and begin the next one."""
        rows = Rows(
            names=self._new_names,
            levels=sync_pb2.LevelColumns(**vars(self._level_rows)),
            configured_queues=sync_pb2.QueueColumns(**vars(self._queue_rows)),
            created_queues=sync_pb2.CreatedQueueColumns(**vars(self._created_rows)),
        )
        self._new_names, self._level_rows, self._text = [], LevelRows(), 0
        self._queue_rows, self._created_rows = QueueRows(), QueueRows()
        return rows
