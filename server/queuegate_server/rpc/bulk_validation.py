"""Validates many checks together.

Names in requests are nearly always valid, so a few calls validate all of them at once. The results
contain None for a check that `validation.query` must validate individually, because a name may be
invalid and the error must list its violations.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeAlias

from google.protobuf.message import DecodeError

from queuegate.policy.decision import Access
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.engine import Query, ServedPartition, Snapshot
from queuegate_server.rpc.validation import ACCESS, MAX_GROUPS, are_valid_names, is_short_name
from queuegate_server.rpc.wire import shallow_class

BLOCK: Final = 50
"""The number of checks or users validated together. One invalid name slows down its whole block."""
_MAX_USER_BYTES: Final = 256 * 1024
"""The maximum serialized size of a reader's retained users, about 4 MiB in memory."""
_MOSTLY_DISTINCT: Final = 0.9
"""A reader starts to retain users at a block in which at most this fraction of them are distinct.
Retaining users that do not recur would cost more than it saves."""

User: TypeAlias = tuple[str, Sequence[str] | None]
"""A user name, with the trusted groups from the request or None to look up the groups."""

# C functions, which are faster than comprehensions.
_fields: Any = attrgetter("user", "partition", "queue", "access", "real_user", "at_least")
_no_groups: Any = attrgetter("no_groups")
_user: Any = attrgetter("user")
_Shallow: Any = shallow_class(access_pb2.CheckQueueAccessRequest)


class CheckReader:
    """Reads the queries of a batch's checks, a block at a time."""

    def __init__(self, checks: Sequence[bytes], snapshot: Snapshot, *, trusted: bool) -> None:
        """Create a reader of serialized checks. `trusted` is as in `validation.query`."""
        self._checks = checks
        self._snapshot = snapshot
        self._trusted = trusted
        self._users: dict[str, dict[bytes, User | None]] = {}
        """The retained users, by partition and serialized form."""
        self._user_bytes = 0

    def read_many(self, indexes: Sequence[int]) -> Sequence[Query | None]:
        """Return the queries of several checks.

        A query is None if the check has `at_least` or must be validated individually.
        """
        unread = [None] * len(indexes)
        serialized = [self._checks[index] for index in indexes]
        try:
            checks = [*map(_Shallow.FromString, serialized)]
            if [*map(_Shallow.ByteSize, checks)] != [*map(len, serialized)]:
                return unread  # a field may be present twice, and must then be merged
            users, partitions, queues, kinds, real_users, cursors = zip(
                *map(_fields, checks), strict=True
            )
            if len({*partitions}) > 1:
                return self._of_several_partitions(indexes, partitions)
            served = self._snapshot.served.get(partitions[0] or DEFAULT_PARTITION)
            if served is None or not all(map(is_short_name, {*real_users})):
                return unread
            if served.partition.named_grants is not None:
                return unread  # RBAC has ignored groups, one kind of access, and an age
            valid = self._valid_users(users, served)
        except DecodeError:
            return unread
        paths = valid_paths(queues, served)
        if any(cursors):
            paths = [None if cursor else path for cursor, path in zip(cursors, paths, strict=True)]
        return valid_queries(valid, paths, served, map(ACCESS.get, kinds), real_users)

    def _of_several_partitions(
        self, indexes: Sequence[int], partitions: Sequence[str]
    ) -> Sequence[Query | None]:
        queries: dict[int, Query | None] = {}
        for partition in {*partitions}:
            group = [i for i, each in zip(indexes, partitions, strict=True) if each == partition]
            queries.update(zip(group, self.read_many(group), strict=True))
        return [queries[index] for index in indexes]

    def _valid_users(
        self, encoded: Sequence[bytes], served: ServedPartition
    ) -> Sequence[User | None]:
        """Return the users like `valid_users`, parsing users that recur in the batch only once."""
        if self._user_bytes > _MAX_USER_BYTES:
            self._users.clear()
            self._user_bytes = 0
        distinct = {*encoded}
        retained = self._users.get(served.partition.name)
        if retained is None:
            if len(distinct) > len(encoded) * _MOSTLY_DISTINCT:
                return self._parsed_users(encoded, served)
            retained = self._users[served.partition.name] = {}
        new = [user for user in distinct if user not in retained]
        users = self._parsed_users(new, served)
        if None not in users:
            retained.update(zip(new, users, strict=True))
            self._user_bytes += sum(map(len, new))
        return [*map(retained.get, encoded)]

    def _parsed_users(
        self, encoded: Sequence[bytes], served: ServedPartition
    ) -> Sequence[User | None]:
        parsed = [*map(UserGroupInformation.FromString, encoded)]
        return valid_users(parsed, served, trusted=self._trusted)


def valid_queries(
    users: Iterable[User | None],
    paths: Iterable[str | None],
    served: ServedPartition,
    accesses: Iterable[Access | None],
    real_users: Iterable[str],
) -> list[Query | None]:
    """Return queries, each from the corresponding elements; None if any of these may be invalid."""
    new = tuple.__new__  # twice as fast as the NamedTuple constructor
    return [
        None
        if user is None or path is None or access is None
        else new(Query, (user[0], user[1], served, path, access, real_user))
        for user, path, access, real_user in zip(users, paths, accesses, real_users, strict=False)
    ]


def valid_users(
    users: Sequence[UserGroupInformation], served: ServedPartition, *, trusted: bool
) -> Sequence[User | None]:
    """Return the users; None for all of them if one may be invalid or has `no_groups`."""
    names = [*map(_user, users)]
    groups = [each.groups[:] or None for each in users]
    asserted = [*chain.from_iterable(filter(None, groups))]
    if (
        not are_valid_names(names)
        or not are_valid_names(asserted)
        or not served.partition.accepts_users(names)
        or len(asserted) > MAX_GROUPS
        or any(map(_no_groups, users))
    ):
        return [None] * len(users)
    if not (trusted and served.trust_provided_groups):
        groups = [None] * len(names)
    return [*zip(names, groups, strict=True)]


def valid_paths(texts: Sequence[str], served: ServedPartition) -> list[str | None]:
    """Return the canonical queue paths; None for paths that may be invalid."""
    known, canonical_path = served.partition.queues, served.partition.canonical_path
    return [
        (text if text in known else canonical_path(text)) if is_short_name(text) else None
        for text in texts
    ]
