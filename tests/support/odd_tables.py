"""Policy tables that no server of ours sends, and what the gates of all languages make of them.

    python -m tests.support.odd_tables

writes `tests/vectors/odd_table_vectors.json`. Each vector has a name, the parts of a policy, and
the questions of `gate_vectors.json`, or none if gates refuse the policy.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from queuegate.gate import bounds
from queuegate.policy.decision import RULES
from queuegate.v1 import access_pb2, sync_pb2
from tests.support.hostile_tables import HOSTILE_TABLES, faulty

FILE: Final = Path("tests/vectors/odd_table_vectors.json")
YUNIKORN, YARN = sync_pb2.QUEUE_NAMING_YUNIKORN, sync_pb2.QUEUE_NAMING_YARN
SHORT_NAMES: Final = sync_pb2.QUEUE_NAMING_YARN_SHORT_NAMES
NO_MATCH, DISABLED = access_pb2.REASON_NO_MATCH, access_pb2.REASON_ACLS_DISABLED
WILDCARD, CLUSTER_ADMIN = access_pb2.REASON_WILDCARD, access_pb2.REASON_CLUSTER_ADMIN

Question = tuple[str, str, str, list[str] | None, list[Any] | None]
"""A user, a queue, an access, groups (None if unknown) and the answer: empty if it depends on the
groups, None if only a server can decide.
"""


class Level(NamedTuple):
    """A level of a chain. `listed` are indexes of names: the users, then the groups, then the
    services, whose numbers are in `counts`.
    """

    above: int
    depth: int
    counts: tuple[int, int, int] = (0, 0, 0)
    listed: tuple[int, ...] = ()


NAMES: Final = ("alice", "dev", "livy", "bob")
END: Final = Level(0, 0)
ALICE, DEV, LIVY = ((1, 0, 0), (0,)), ((0, 1, 0), (1,)), ((0, 0, 1), (2,))


def tables(
    levels: Sequence[Level],
    queues: Sequence[tuple[int, str, int]],
    *,
    reasons: Sequence[access_pb2.Reason.ValueType] = (NO_MATCH,),
    created: Sequence[tuple[int, str, int]] = (),
    naming: sync_pb2.QueueNaming.ValueType = YARN,
    names: Sequence[str] = NAMES,
    ambiguous: int = 0,
) -> sync_pb2.PolicyPart:
    """Return a policy. A queue has the distance to its parent, a name, and the first level of both
    its chains; for a created queue, plus 1.
    """

    def columns(rows: Sequence[tuple[int, str, int]]) -> dict[str, Any]:
        starts = [start for _, _, start in rows]
        return {
            "parent": [distance for distance, _, _ in rows],
            "name": [name for _, name, _ in rows],
            "submit": starts,
            "admin": starts,
        }

    return sync_pb2.PolicyPart(
        partition="default",
        first=True,
        last=True,
        rules=RULES,
        naming=naming,
        revision=1,
        checksum=b"1",
        ambiguous_level=ambiguous,
        names=names,
        levels=sync_pb2.LevelColumns(
            above=[level.above for level in levels],
            depth=[level.depth for level in levels],
            users=[level.counts[0] for level in levels],
            groups=[level.counts[1] for level in levels],
            services=[level.counts[2] for level in levels],
            listed=[number for level in levels for number in level.listed],
            end_reasons=reasons,
        ),
        configured_queues=sync_pb2.QueueColumns(**columns(queues)),
        created_queues=sync_pb2.CreatedQueueColumns(**columns(created)),
    )


def _above_an_end(
    listed: tuple[tuple[int, int, int], tuple[int, ...]],
    reason: access_pb2.Reason.ValueType,
    depth: int = 0,
) -> sync_pb2.PolicyPart:
    """Return a policy whose only queue has a level above an end with a reason."""
    levels = [END, Level(0, depth), Level(1, 1, *listed)]
    return tables(levels, [(0, "root", 2)], reasons=(NO_MATCH, reason))


def created_chain(depths: Sequence[int], created: int = 1) -> sync_pb2.PolicyPart:
    """Return a policy in which YARN creates queues with a chain of levels at these depths, from its
    end, the given number of levels below the root.
    """
    levels = [END, *(Level(1, depth, *ALICE) for depth in depths)]
    rows = [(1, "*", 0)] * (created - 1) + [(1, "*", len(levels))]
    return tables(levels, [(0, "root", 0)], created=rows)


GRANTING: Final = ((WILDCARD, 1), (CLUSTER_ADMIN, 0), (DISABLED, 0))
REFUSED: Final[Mapping[str, Callable[[], sync_pb2.PolicyPart]]] = {
    **{
        f"{what} although {access_pb2.Reason.Name(reason)} ends the chain": partial(
            _above_an_end, listed, reason, depth
        )
        for what, listed in (("groups", DEV), ("services", LIVY))
        for reason, depth in GRANTING
    },
    "groups far from an end that grants": lambda: tables(
        [Level(0, 0), Level(1, 1, *ALICE), Level(1, 2, *DEV)],
        [(0, "root", 0), (1, "a", 2)],
        reasons=(CLUSTER_ADMIN,),
    ),
    "a name twice": lambda: tables([END], [(0, "root", 0)], names=("alice", "bob", "alice")),
    "a wildcard of the cluster": lambda: _above_an_end(ALICE, WILDCARD),
    "a cluster's administrators at a queue": lambda: _above_an_end(ALICE, CLUSTER_ADMIN, 1),
    "a level above that is deeper": lambda: tables(
        [END, Level(1, 2, *ALICE), Level(1, 1, *DEV)], [(0, "root", 0), (1, "a", 2)]
    ),
    "a chain that starts deeper than its queue": lambda: tables(
        [END, Level(1, 2, *ALICE)], [(0, "root", 1), (1, "a", 0)]
    ),
    "a chain that starts deeper than the created queue": lambda: tables(
        [END, Level(1, 3, *ALICE)],
        [(0, "root", 0), (1, "a", 0), (1, "b", 0)],
        created=[(3, "*", 2)],
    ),
    "names of several queues with the ACL of one": lambda: tables(
        [END, Level(1, 1, *ALICE)], [(0, "root", 0)], naming=SHORT_NAMES, ambiguous=1
    ),
    "more levels than the path has": lambda: tables(
        [END, *[Level(1, 1, *ALICE)] * 4], [(0, "root", 4)]
    ),
    "8190 levels below a created queue": lambda: created_chain([2] * 8_190),
    "a created queue 21 levels below a queue": lambda: created_chain(
        [1], bounds.MAX_CREATED_LEVELS + 1
    ),
}


PARTED: Final = tables(
    [END, Level(1, 1, *ALICE), Level(1, 2, *DEV), Level(1, 2, *LIVY)],
    [(0, "root", 1), (1, "a", 2)],
    created=[(1, "*", 4)],
)
"""A policy to be sent in several parts."""
NEXT: Final[Mapping[str, Any]] = {"partition": "default"}
LAST: Final[Mapping[str, Any]] = {"partition": "default", "last": True}


def _in_parts(*moved: Sequence[str]) -> list[sync_pb2.PolicyPart]:
    """Return the policy in parts, each later one with some of its tables or columns."""
    first = sync_pb2.PolicyPart()
    first.CopyFrom(PARTED)
    first.last = False
    parts = [first]
    for tables_of_part in moved:
        part = sync_pb2.PolicyPart(partition="default")
        for path in tables_of_part:
            table, _, column = path.partition(".")
            source: Any = getattr(first, table) if column else first
            target = getattr(part, table) if column else part
            getattr(target, column or table).MergeFrom(getattr(source, column or table))
            source.ClearField(column or table)
        parts.append(part)
    parts[-1].last = True
    return parts


def _with_fields(**fields: Any) -> list[sync_pb2.PolicyPart]:
    """Return the policy in two parts, the second with further fields."""
    parts = _in_parts(["configured_queues", "created_queues"])
    parts[-1].MergeFrom(sync_pb2.PolicyPart(**fields))
    return parts


def _row_by_row() -> list[sync_pb2.PolicyPart]:
    """Return the policy in parts of one row of each table, which the created queues follow."""
    parts = [_in_parts(["names", "levels", "configured_queues", "created_queues"])[0]]
    for row, name in enumerate(NAMES):
        part = sync_pb2.PolicyPart(**NEXT, names=[name])
        for table in ("levels", "configured_queues"):
            for field, column in getattr(PARTED, table).ListFields():
                # The end lists nobody, and the first queue refers to the level after it.
                first = row - (table == "configured_queues" or field.name == "listed")
                values = column[first : first + 1] if first >= 0 else []
                getattr(getattr(part, table), field.name).extend(values)
        parts.append(part)
    return [*parts, sync_pb2.PolicyPart(**LAST, created_queues=PARTED.created_queues)]


REFUSED_IN_PARTS: Final[Mapping[str, list[sync_pb2.PolicyPart]]] = {
    "names after the level that lists them": _in_parts(["names"]),
    "levels after the queue that starts at them": _in_parts(["created_queues", "levels"]),
    "levels after the created queue that starts at them": [
        _in_parts(["levels", "configured_queues", "created_queues"])[0],
        sync_pb2.PolicyPart(
            **NEXT,
            levels=tables([END], []).levels,
            configured_queues=tables([], [(0, "root", 0)]).configured_queues,
            created_queues=tables([], [], created=[(1, "*", 2)]).created_queues,
        ),
        sync_pb2.PolicyPart(**LAST, levels=tables([Level(1, 1, *ALICE)], [], reasons=()).levels),
    ],
    "queues after the created ones": _in_parts(["configured_queues"]),
    "columns of levels that only the parts together complete": _in_parts(
        ["levels.services", "configured_queues", "created_queues"]
    ),
    "columns of queues that only the parts together complete": _in_parts(
        ["configured_queues.admin", "created_queues"]
    ),
    "columns of created queues that only the parts together complete": _in_parts(
        ["created_queues.parent"]
    ),
    "a later part with the naming": _with_fields(naming=YARN),
    "a later part with another naming": _with_fields(naming=SHORT_NAMES),
    "a later part with the rules": _with_fields(rules=RULES),
    "a later part with a level of ambiguous names": _with_fields(ambiguous_level=1),
    "a later part that lets callers state groups": _with_fields(use_given_groups=True),
    "a later part with a revision": _with_fields(revision=1),
    "a later part with a checksum": _with_fields(checksum=b"1"),
    "a later part with a resolver": _with_fields(resolver_fingerprint=b"1"),
    "a policy without a first part": _in_parts(["created_queues"])[1:],
    "a policy whose first part is of another partition": [
        tables([END], [(0, "root", 0)]),
        sync_pb2.PolicyPart(partition="gpu", first=True, rules=RULES, naming=YARN),
        sync_pb2.PolicyPart(**LAST),
    ],
    "a policy that is removed between its parts": [
        _in_parts(["created_queues"])[0],
        sync_pb2.PolicyPart(partition="default", removed=True),
        _in_parts(["created_queues"])[1],
    ],
}


def _asked(user: str, queue: str, groups: list[str] | None, *answer: Any) -> list[Question]:
    """Return the question for both kinds of access, which have equal answers."""
    return [(user, queue, access, groups, [*answer]) for access in ("submit", "admin")]


PARTED_ANSWERS: Final = [
    *_asked("alice", "root", None, True, "user", "root", "alice", ""),
    *_asked("bob", "root.a", ["dev"], True, "group", "root.a", "dev", ""),
    *_asked("bob", "root.a", [], False, "no_match", "", "", ""),
    *_asked("alice", "root.a.x", None, True, "user", "root", "alice", ""),
]
ODD_IN_PARTS: Final[Mapping[str, list[sync_pb2.PolicyPart]]] = {
    "each table in a part of its own": _in_parts(
        ["names"], ["levels"], ["configured_queues"], ["created_queues"]
    ),
    "each row in a part of its own": _row_by_row(),
    "names of levels and reasons of ends in a later part": _in_parts(
        ["levels.listed", "levels.end_reasons"]
    ),
    "a part with tables without rows after the created queues": [
        *_in_parts(["created_queues"], [])[:2],
        sync_pb2.PolicyPart(
            **LAST,
            levels=sync_pb2.LevelColumns(),
            configured_queues=sync_pb2.QueueColumns(),
            created_queues=sync_pb2.CreatedQueueColumns(),
        ),
    ],
    "an empty part": _in_parts([]),
    "a first part that comes again": [
        tables([END], [(0, "root", 0)], names=["eve"]),
        *_in_parts(["created_queues"]),
    ],
}
ODD: Final[Mapping[str, tuple[sync_pb2.PolicyPart, list[Question]]]] = {
    "a level of queues in different places": (
        tables(
            [END, Level(1, 2, *ALICE), Level(1, 3, *DEV)],
            [(0, "root", 0), (1, "a", 1), (2, "b", 1), (1, "c", 2), (3, "d", 2)],
        ),
        [
            *_asked("alice", "root.a", [], True, "user", "root.a", "alice", ""),
            *_asked("alice", "root.b", [], True, "user", "root.b", "alice", ""),
            *_asked("alice", "root.b.c", [], True, "user", "root.b", "alice", ""),
            *_asked("bob", "root.b.c", ["dev"], True, "group", "root.b.c", "dev", ""),
            *_asked("bob", "root.a.d", ["dev"], True, "group", "root.a.d", "dev", ""),
            *_asked("alice", "root.a.d", ["dev"], True, "user", "root.a", "alice", ""),
            *_asked("alice", "root.a.d.x", None, True, "user", "root.a", "alice", "root.a.d"),
        ],
    ),
    "a wildcard of queues in different places": (
        tables(
            [END, Level(0, 2)],
            [(0, "root", 0), (1, "a", 1), (2, "b", 1)],
            reasons=(NO_MATCH, WILDCARD),
        ),
        [
            *_asked("bob", "root.a", None, True, "wildcard", "root.a", "*", ""),
            *_asked("bob", "root.b", None, True, "wildcard", "root.b", "*", ""),
            *_asked("bob", "root.a.x", None, True, "wildcard", "root.a", "*", "root.a"),
        ],
    ),
    "users although ACLs are disabled": (
        _above_an_end(ALICE, DISABLED),
        [
            *_asked("alice", "root", None, True, "user", "root", "alice", ""),
            *_asked("bob", "root", None, True, "acls_disabled", "", "", ""),
        ],
    ),
    "names in another order, and twice": (
        tables([END, Level(1, 1, (3, 2, 0), (3, 0, 3, 2, 1))], [(0, "root", 1)]),
        [
            *_asked("alice", "root", None, True, "user", "root", "alice", ""),
            *_asked("bob", "root", None, True, "user", "root", "bob", ""),
            *_asked("carol", "root", ["dev"], True, "group", "root", "dev", ""),
            *_asked("carol", "root", [], False, "no_match", "", "", ""),
            *_asked("carol", "root", None),
        ],
    ),
    "a level and an end that no queue has": (
        tables(
            [END, Level(0, 0), Level(1, 1, *ALICE)],
            [(0, "root", 0)],
            reasons=(NO_MATCH, CLUSTER_ADMIN),
        ),
        [*_asked("alice", "root", None, False, "no_match", "", "", "")],
    ),
    "YuniKorn's recovery queue below created queues": (
        tables([END], [(0, "root", 0)], naming=YUNIKORN, created=[(1, "x", 1)]),
        [
            (
                "bob",
                "root.@recovery@",
                "submit",
                None,
                [False, "recovery_queue", "root.@recovery@", "", ""],
            ),
            ("bob", "root.@recovery@", "admin", None, None),
            ("bob", "root.x", "submit", None, [False, "no_match", "", "", ""]),
        ],
    ),
    "a queue below the root that is called root": (
        tables(
            [END, Level(1, 2, *ALICE)],
            [(0, "root", 0), (1, "root", 1), (2, "a", 0), (2, "a", 1)],
            naming=SHORT_NAMES,
        ),
        [
            *_asked("alice", "root", [], False, "no_match", "", "", ""),
            *_asked("alice", "root.root", [], True, "user", "root.root", "alice", ""),
            *_asked("alice", "a", [], False, "no_match", "", "", ""),
        ],
    ),
    "a created queue 20 levels below a queue": (
        created_chain([21, 21], bounds.MAX_CREATED_LEVELS),
        [
            *_asked(
                "alice", "root" + ".x" * 20, None, True, "user", "root" + ".x" * 20, "alice", ""
            ),
            ("alice", "root" + ".x" * 19, "submit", None, None),
            ("alice", "root" + ".x" * 21, "submit", None, None),
        ],
    ),
}


def vectors() -> str:
    """Return the file."""
    lines = []
    for name, policy, questions in _vectors():
        parts = [part.SerializeToString(deterministic=True) for part in policy]
        texts = [base64.b64encode(part).decode() for part in parts]
        vector = {"name": name, "parts": texts, "questions": questions}
        lines.append(json.dumps(vector, separators=(",", ":")))
    return "[\n{}\n]\n".format(",\n".join(lines))


def _vectors() -> Iterator[tuple[str, list[sync_pb2.PolicyPart], list[Question] | None]]:
    for fault, change in HOSTILE_TABLES.items():
        yield fault, [faulty(change)], None
    for name, build in REFUSED.items():
        yield name, [build()], None
    for name, parts in REFUSED_IN_PARTS.items():
        yield name, parts, None
    for name, (policy, questions) in ODD.items():
        yield name, [policy], questions
    for name, parts in ODD_IN_PARTS.items():
        yield name, parts, PARTED_ANSWERS


if __name__ == "__main__":
    FILE.write_text(vectors())
