"""Validates many checks together.

Names in requests are nearly always valid, so a few calls validate all of them at once. The results
contain None for a check that `validation.query` must validate individually, because a name may be
invalid and the error must list its violations.
"""

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeAlias

from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.engine import Query, ServedPartition, Snapshot
from queuegate_server.rpc.validation import ACCESS, MAX_GROUPS, are_valid_names, is_short_name

BLOCK: Final = 50
"""The number of checks or users validated together. One invalid name slows down its whole block."""

User: TypeAlias = tuple[str, Sequence[str] | None]
"""A user name, with the trusted groups from the request or None to look up the groups."""
_Checks: TypeAlias = Sequence[access_pb2.CheckQueueAccessRequest]
_Kind: TypeAlias = tuple[str, int, str]
"""The partition, access type and real user of a check."""

# C functions, which are faster than comprehensions.
_kind: Any = attrgetter("partition", "access", "real_user")
_no_groups: Any = attrgetter("no_groups")
_queue: Any = attrgetter("queue")
_user: Any = attrgetter("user")


def valid_queries(checks: _Checks, snapshot: Snapshot, *, trusted: bool) -> list[Query | None]:
    """Return the query of each check; None for checks with `at_least`."""
    indexes: dict[_Kind, list[int]] = {}
    for index, (kind, check) in enumerate(zip(map(_kind, checks), checks, strict=True)):
        if not check.HasField("at_least"):
            indexes.setdefault(kind, []).append(index)
    queries: list[Query | None] = [None] * len(checks)
    for (partition, access_type, real_user), group in indexes.items():
        served = snapshot.served.get(partition or DEFAULT_PARTITION)
        access = ACCESS.get(access_type)
        if served is None or access is None or not is_short_name(real_user):
            continue
        grouped = [checks[index] for index in group]
        users = valid_users([*map(_user, grouped)], served, trusted=trusted)
        paths = valid_paths([*map(_queue, grouped)], served)
        for index, user, path in zip(group, users, paths, strict=True):
            queries[index] = valid_query(user, path, served, access, real_user)
    return queries


def valid_query(
    user: User | None,
    path: str | None,
    served: ServedPartition,
    access: Access,
    real_user: str = "",
) -> Query | None:
    """Return the query about a user and a queue; None if either may be invalid."""
    if user is None or path is None:
        return None
    # Twice as fast as the NamedTuple constructor.
    return tuple.__new__(Query, (*user, served, path, access, real_user))


def valid_users(
    informations: Sequence[UserGroupInformation], served: ServedPartition, *, trusted: bool
) -> Sequence[User | None]:
    """Return the users; None for all of them if one may be invalid or has `no_groups`."""
    names = [*map(_user, informations)]
    groups = [each.groups[:] or None for each in informations]
    asserted = [*chain.from_iterable(filter(None, groups))]
    if (
        not are_valid_names(names)
        or not are_valid_names(asserted)
        or not served.partition.accepts_users(names)
        or len(asserted) > MAX_GROUPS
        or any(map(_no_groups, informations))
    ):
        return [None] * len(informations)
    if not (trusted and served.trust_provided_groups):
        groups = [None] * len(names)
    return [*zip(names, groups, strict=True)]


def valid_paths(texts: Sequence[str], served: ServedPartition) -> list[str | None]:
    """Return the canonical queue paths; None for paths that may be invalid."""
    known, path = served.partition.queues, served.partition.path
    return [
        text if text in known else path(text) if is_short_name(text) else None for text in texts
    ]
