"""Compiles partitions' ACLs into tables for gates, and converts the tables to messages.

The tables contain the chains defined in `policy/chain.py`. The chains' order depends only on the
policy, so identical policies produce identical tables on all replicas and after a restart.
Compilation runs in steps, and retains only the chains that child queues will extend.
"""

import hashlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from queuegate.policy.acl import Acl, AclNames
from queuegate.policy.chain import CLUSTER, Chain, ChainEnd, OwnLevel, own_level
from queuegate.policy.created_queues import ANY_NAME, QueueCreation
from queuegate.policy.decision import RULES, Access, Decision, Reason
from queuegate.policy.names import ROOT, SEPARATOR, parent_path
from queuegate.policy.queue import Queue, granting
from queuegate.policy.tree import Partition
from queuegate.v1 import access_pb2, sync_pb2
from queuegate_server.engine import ServedPartition, Snapshot
from queuegate_server.runtime.pacing import Pace
from queuegate_server.sync.session import ShippedPolicy

_SUBMIT: Final = Access.SUBMIT
_ADMIN: Final = Access.ADMIN
MAX_PART_BYTES: Final = 256 * 1024
MAX_PATTERNS: Final = 10_000
"""If auto-created queues need more patterns, gates query the server about these queues."""
_NO_RULES: Final = 0
"""Rules that no gate supports, so that gates query the server. Kubernetes RBAC has its own rules
for paths and groups, and an age limit.
"""
_STEP_QUEUES: Final = 250
"""The number of queues per step. A step takes about 5 ms."""
_STEP_TEXT: Final = 65_536
"""The number of ACL characters after which a step ends."""
_STEP_NAMES: Final = 4_096
"""The maximum number of names from one list that are sorted or numbered per step."""
_REASONS: Final = {
    reason: access_pb2.Reason.Value(f"REASON_{reason.name}")
    for reason in (Reason.WILDCARD, Reason.CLUSTER_ADMIN, Reason.ACLS_DISABLED, Reason.NO_MATCH)
}

_LEVEL_COLUMNS: Final = ("above", "depth", "users", "groups", "services")
_QUEUE_COLUMNS: Final = ("parent", "name", "submit", "admin")

Rows: TypeAlias = sync_pb2.PolicyPart
"""Rows to append to the tables, produced by one step."""


def queue_naming(partition: Partition) -> sync_pb2.QueueNaming.ValueType:
    """Return a partition's scheme for naming queues."""
    if partition.cluster is None:
        if partition.acl_names is AclNames.ANY:
            return sync_pb2.QUEUE_NAMING_YUNIKORN_ANY_USER
        return sync_pb2.QUEUE_NAMING_YUNIKORN
    if partition.cluster.has_short_names:
        return sync_pb2.QUEUE_NAMING_YARN_SHORT_NAMES
    return sync_pb2.QUEUE_NAMING_YARN


class Link(NamedTuple):
    """The start of a queue's chain, to which the chains of its child queues link."""

    level: int
    """The index of the chain's first level in the table."""
    otherwise: Decision | None
    """The decision if no user matches; see `Chain.otherwise`."""


class QueueLinks(NamedTuple):
    """A queue's number in the table, and the starts of its chains."""

    number: int
    submit: Link
    admin: Link


class NameTable(dict[str, int]):
    """Maps names to indexes. Looking up an unknown name assigns the next index to it."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []
        """The names added since this list was last replaced."""

    def __missing__(self, name: str) -> int:
        """Add an unknown name, and return its index."""
        number = self[name] = len(self)
        self.new.append(name)
        return number


class ChainCompiler:
    """A single-use compiler for one partition."""

    def __init__(self, partition: Partition) -> None:
        """Create a compiler for a partition. The ACLs that it parses are not retained."""
        self._partition = partition
        self._names = NameTable()
        self._levels = 0
        self._queues = 0
        """The number of queues and patterns in the table."""
        self._links: dict[str, QueueLinks] = {}
        """The configured queues with child queues, by path."""
        self._parents: dict[str, QueueLinks] = {}
        """The auto-created queues with child queues, by pattern."""
        self._lists: list[frozenset[str]] = []
        """The names in the levels of the current step, in table order."""
        self._level_rows: list[tuple[int, ...]] = []
        """Rows of the current step, kept in lists because appending to a message is slower."""
        self._listed: list[int] = []
        self._end_reasons: list[access_pb2.Reason.ValueType] = []
        self._queue_rows: list[tuple[int, str, int, int]] = []
        self._created_rows: list[tuple[int, str, int, int]] = []
        self._text = 0
        """The number of ACL characters in the current step."""

    def steps(self) -> Iterator[Rows]:
        """Yield the rows that each step adds to the tables. A step may add none."""
        # Gates use level 0 for ambiguous short names.
        self._append_chain(self._partition.ambiguous_chain())
        yield from self._configured()
        if self._partition.creation is not None:
            yield from self._created(self._partition.creation)
        yield from self._finish_step()

    def _configured(self) -> Iterator[Rows]:
        partition = self._partition
        parents = yield from self._paths_with_queues_below()
        chains = [partition.chain(CLUSTER, access) for access in (_SUBMIT, _ADMIN)]
        admin = self._append_chain(chains[1])
        submit = admin if chains[0] is chains[1] else self._append_chain(chains[0])
        self._links[CLUSTER] = QueueLinks(0, submit, admin)
        for path, queue in partition.queues.items():
            above = self._links[parent_path(path)]
            submit_acl, admin_acl = queue.read_acls(partition.parse_acl)
            links = QueueLinks(
                self._queues,
                self._extend(above.submit, path, granting(_SUBMIT, submit_acl, admin_acl)),
                self._extend(above.admin, path, granting(_ADMIN, submit_acl, admin_acl)),
            )
            self._queues += 1
            if path in parents:
                self._links[path] = links
            number, submit, admin = links
            name = path.rpartition(SEPARATOR)[2]
            self._queue_rows.append((number - above.number, name, submit.level, admin.level))
            self._text += len(submit_acl.text) + len(admin_acl.text)
            if len(self._queue_rows) >= _STEP_QUEUES or self._text > _STEP_TEXT:
                yield from self._finish_step()

    def _paths_with_queues_below(self) -> Generator[Rows, None, set[str]]:
        creation = self._partition.creation
        paths = set(creation.creators if creation else ())
        for number, path in enumerate(self._partition.queues, 1):
            paths.add(parent_path(path))
            if number % _STEP_NAMES == 0:
                yield self._next_rows()
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
                links = self._link_created(acls)
                submit, admin = links.submit.level + 1, links.admin.level + 1
            parent = self._links[above].number if above in queues else numbers[above]
            name = pattern.rpartition(SEPARATOR)[2]
            self._created_rows.append((number - parent, name, submit, admin))
            if len(self._created_rows) >= _STEP_QUEUES:
                yield from self._finish_step()

    def _link_created(self, created: Sequence[Queue]) -> QueueLinks:
        """Append the chains of `created[0]`. The other queues are its ancestors, nearest first."""
        links = self._links[parent_path(created[-1].path)]
        for queue in reversed(created[1:]):
            if queue.path not in self._parents:
                self._parents[queue.path] = self._extend_created(links, queue)
            links = self._parents[queue.path]
        return self._extend_created(links, created[0])

    def _extend_created(self, above: QueueLinks, queue: Queue) -> QueueLinks:
        """Append one level for each ACL, as `Partition.chain` does."""
        links = []
        for access, start in ((_SUBMIT, above.submit), (_ADMIN, above.admin)):
            link = start
            for acl in reversed(queue.acls_granting(access)):
                link = self._extend(link, queue.path, (acl,))
            links.append(link)
        return QueueLinks(above.number, *links)

    def _extend(self, above: Link, path: str, acls: Sequence[Acl]) -> Link:
        """Extend a chain by a queue's ACLs, adding an end, a level, both or neither."""
        level = own_level(path, acls, above.otherwise)
        depth = path.count(SEPARATOR) + 1
        if level.end is not None:
            above = self._end(level.end, depth)
        return self._append(above, depth, level)

    def _append_chain(self, chain: Chain) -> Link:
        """Append a chain at depth 0, above the root queue's own level."""
        if isinstance(chain, ChainEnd):
            return self._end(chain.otherwise, 0)
        above = self._append_chain(chain.above)
        return self._append(above, 0, chain)

    def _append(self, above: Link, depth: int, level: OwnLevel | Chain) -> Link:
        """Append a level if it lists any names."""
        lists = level.users, level.groups, level.services
        if not any(lists):
            return above
        self._lists += lists
        number = self._append_level(self._levels - above.level, depth, *map(len, lists))
        return Link(number, None if level.groups else above.otherwise)

    def _end(self, decision: Decision | None, depth: int) -> Link:
        if decision is None:
            raise AssertionError("the end of a chain has a decision")
        self._end_reasons.append(_REASONS[decision.reason])
        return Link(self._append_level(0, depth, 0, 0, 0), decision)

    def _append_level(self, above: int, depth: int, users: int, groups: int, services: int) -> int:
        self._level_rows.append((above, depth, users, groups, services))
        self._levels += 1
        return self._levels - 1

    def _finish_step(self) -> Iterator[Rows]:
        """Add the sorted names of the step's levels, in substeps if needed, and yield the rows."""
        lists, self._lists = self._lists, []
        for names in filter(None, lists):
            if len(names) > _STEP_NAMES:
                yield from self._list_in_steps(names)
            else:
                self._list(sorted(names))
        yield self._next_rows()

    def _list_in_steps(self, names: frozenset[str]) -> Iterator[Rows]:
        entries = [*names]
        blocks = []
        for start in range(0, len(entries), _STEP_NAMES):
            blocks.append(sorted(entries[start : start + _STEP_NAMES]))
            yield self._next_rows()
        ordered = merge(*blocks)
        while block := [*islice(ordered, _STEP_NAMES)]:
            self._list(block)
            yield self._next_rows()

    def _list(self, names: Iterable[str]) -> None:
        self._listed.extend(map(self._names.__getitem__, names))

    def _next_rows(self) -> Rows:
        """Return the accumulated rows and clear them."""
        rows = Rows(
            names=self._names.new,
            levels=sync_pb2.LevelColumns(
                listed=self._listed,
                end_reasons=self._end_reasons,
                **_columns(_LEVEL_COLUMNS, self._level_rows),
            ),
            configured_queues=sync_pb2.QueueColumns(**_columns(_QUEUE_COLUMNS, self._queue_rows)),
            created_queues=sync_pb2.CreatedQueueColumns(
                **_columns(_QUEUE_COLUMNS, self._created_rows)
            ),
        )
        self._names.new, self._level_rows, self._text = [], [], 0
        self._listed, self._end_reasons = [], []
        self._queue_rows, self._created_rows = [], []
        return rows


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Transpose rows to columns, by name. Returns an empty dict if there are no rows."""
    return dict(zip(names, zip(*rows, strict=True), strict=False))


async def ship(snapshot: Snapshot) -> Mapping[str, ShippedPolicy]:
    """Convert each partition's policy to messages, yielding to other tasks between steps."""
    revision = snapshot.policy.revision
    return {name: await _ship(served, revision) for name, served in snapshot.served.items()}


async def _ship(served: ServedPartition, revision: int) -> ShippedPolicy:
    partition = served.partition
    is_rbac = partition.named_grants is not None
    head = sync_pb2.PolicyPart(
        first=True,
        naming=queue_naming(partition),
        use_given_groups=served.trust_provided_groups,
        rules=_NO_RULES if is_rbac else RULES,
    )
    digest = hashlib.sha256(head.SerializeToString(deterministic=True))
    unchanged = sync_pb2.PolicyPart(unchanged=True, last=True)
    unchanged.MergeFrom(head)
    parts: list[sync_pb2.PolicyPart] = [head]
    size = 0
    pace = Pace()
    for rows in () if is_rbac else ChainCompiler(partition).steps():
        data = rows.SerializeToString(deterministic=True)
        digest.update(data)
        if size + len(data) > MAX_PART_BYTES:
            parts.append(sync_pb2.PolicyPart())
            size = 0
        parts[-1].MergeFrom(rows)
        size += len(data)
        await pace.pause_if_due()
    for part in (head, unchanged):
        part.revision, part.checksum = revision, digest.digest()
        part.resolver_fingerprint = served.groups.resolver_fingerprint
    parts[-1].last = True
    for part in (*parts, unchanged):
        part.partition = partition.name
    return ShippedPolicy(
        head.checksum,
        revision,
        [sync_pb2.SyncResponse(policy=part) for part in parts],
        sync_pb2.SyncResponse(policy=unchanged),
        head.resolver_fingerprint,
    )
