"""Policy tables that no server of ours sends."""

from collections.abc import Callable, Mapping
from typing import Final

from queuegate.gate import bounds
from queuegate.v1 import access_pb2, sync_pb2
from tests.support.compiled_policies import yunikorn_part

MAX_UINT32: Final = 2**32 - 1
QUEUES: Final = {"root": ("alice staff", "ops"), "root.a": ("bob", ""), "root.a.b": ("*", "")}


def faulty(change: Callable[[sync_pb2.PolicyPart], object]) -> sync_pb2.PolicyPart:
    """Return a policy with a fault."""
    part = yunikorn_part(QUEUES)
    change(part)
    return part


def _set(column: str, index: int, value: int | str) -> Callable[[sync_pb2.PolicyPart], object]:
    table, name = column.split(".")

    def change(part: sync_pb2.PolicyPart) -> None:
        getattr(getattr(part, table), name)[index] = value

    return change


def _append(column: str, value: int) -> Callable[[sync_pb2.PolicyPart], object]:
    table, name = column.split(".")
    return lambda part: getattr(getattr(part, table), name).append(value)


def _created(
    parent: int, name: str, *more: tuple[int, str], submit: int = 0
) -> Callable[[sync_pb2.PolicyPart], object]:
    rows = [(parent, name), *more]
    table = sync_pb2.CreatedQueueColumns(
        parent=[distance for distance, _ in rows],
        name=[each for _, each in rows],
        submit=[submit] * len(rows),
        admin=[0] * len(rows),
    )
    return lambda part: part.created_queues.MergeFrom(table)


def _late_queue(part: sync_pb2.PolicyPart) -> None:
    _created(1, "*")(part)
    part.last = False


def _long_chain(part: sync_pb2.PolicyPart) -> None:
    levels = part.levels
    for _ in range(bounds.MAX_CHAIN_LEVELS + 1):
        for column, value in (
            (levels.above, 1),
            (levels.depth, 1),
            (levels.users, 0),
            (levels.groups, 0),
            (levels.services, 0),
        ):
            column.append(value)


def _long_path(part: sync_pb2.PolicyPart) -> None:
    part.configured_queues.name[1] = "é" * (bounds.MAX_PATH_BYTES // 2)


LEVELS: Final = len(yunikorn_part(QUEUES).levels.above)
HOSTILE_TABLES: Final[Mapping[str, Callable[[sync_pb2.PolicyPart], object]]] = {
    "a level refers to a level before the first": _set("levels.above", 2, 3),
    "a level refers to a level before": _set("levels.above", LEVELS - 1, MAX_UINT32),
    "the columns of levels have": _append("levels.users", 0),
    "the columns of levels have different": _append("levels.above", 1),
    "the number of listed names does not match the levels": _append("levels.listed", 0),
    "number of listed names does not match": _set("levels.users", LEVELS - 2, MAX_UINT32),
    "listed names does not match the levels": _set("levels.services", LEVELS - 2, 1),
    "a level lists a name that": _set("levels.listed", 0, MAX_UINT32),
    "a level lists a name that does not exist": _set("levels.listed", 0, 5),
    "the end of a chain lists names": _set("levels.above", 2, 0),
    "a level is deeper than the path": _set("levels.depth", 2, 4),
    "a level is deeper than the path of any": _set("levels.depth", 2, MAX_UINT32),
    "an invalid reason": _set("levels.end_reasons", 0, access_pb2.REASON_USER),
    "has an invalid reason": _set("levels.end_reasons", 0, 77),
    "number of reasons does not match the ends": _append(
        "levels.end_reasons", access_pb2.REASON_NO_MATCH
    ),
    "number of reasons does not match": lambda part: part.levels.end_reasons.pop(),
    "a chain has more than 8192 levels": _long_chain,
    "a name in an ACL is empty": lambda part: part.names.append(""),
    "the columns of queues have different": _append("configured_queues.admin", 0),
    "a queue refers to a level": _set("configured_queues.submit", 1, LEVELS),
    "a queue refers to a level that does not": _set("configured_queues.admin", 1, MAX_UINT32),
    "a queue refers to a parent": _set("configured_queues.parent", 1, 0),
    "a queue refers to a parent that": _set("configured_queues.parent", 1, 2),
    "refers to a parent that does not exist": _set("configured_queues.parent", 2, MAX_UINT32),
    "the first queue is not 'root'": _set("configured_queues.name", 0, "Root"),
    "the first queue is not": _set("configured_queues.parent", 0, 1),
    "a queue name is empty or": _set("configured_queues.name", 1, ""),
    "a queue name is empty or contains a dot": _set("configured_queues.name", 1, "b.c"),
    "a queue path has more than 4096 bytes": _long_path,
    "the policy has no queues": lambda part: part.ClearField("configured_queues"),
    "ambiguous names refer to a level": lambda part: setattr(part, "ambiguous_level", LEVELS),
    "created queue refers to a parent that does not": _created(0, "*"),
    "created queue refers to a parent that does not exist": _created(4, "*"),
    "created queue refers to a parent that": _created(1, "*", (MAX_UINT32, "*")),
    "contains a created queue twice": _created(1, "*", (2, "*")),
    "created queue refers to a level that does not exist": _created(1, "*", submit=LEVELS + 1),
    "queue name is empty": _created(1, ""),
    "columns of created queues have different": lambda part: part.created_queues.parent.append(1),
}
"""The faults as named by a gate, and how to cause them."""
