"""Checks in columns. A request lists each user and queue once, and checks are pairs of indexes.

A pair is decided like a batch item with the same user and queue, and cached under the bytes of the
equivalent CheckQueueAccessRequest.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice, repeat
from typing import Final

from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.v1 import access_pb2
from queuegate.v1.status_pb2 import Status
from queuegate_server.decisions.log import ERROR, GRANTS
from queuegate_server.engine import Query, ServedPartition, Snapshot
from queuegate_server.rpc import validation, wire
from queuegate_server.rpc.bulk_validation import (
    BLOCK,
    User,
    valid_paths,
    valid_queries,
    valid_users,
)
from queuegate_server.rpc.errors import InvalidRequest
from queuegate_server.rpc.response_cache import CHUNK, MAX_REQUEST_BYTES, CheckResponse

MAX_CHECKS: Final = 100_000
MAX_NAMES: Final = 10_000
"""The maximum number of users, and of queues, per request."""
MAX_FIELDS: Final = 400_000
"""The maximum number of fields in a request and its submessages, with the indexes, as in
`wire.MAX_FIELDS`."""

Request = access_pb2.CheckQueueAccessColumnsRequest
Response = access_pb2.CheckQueueAccessColumnsResponse

_Check = access_pb2.CheckQueueAccessRequest
_DIGITS: Final = bytes(b"01"[grants] for grants in GRANTS).ljust(256, b"0")
"""Maps a reason's number to `1` if it grants access, else to `0`."""


class ColumnsReader:
    """Reads the queries of a columns request whose lengths and indexes are valid."""

    def __init__(self, request: Request, snapshot: Snapshot, *, trusted: bool) -> None:
        """Validate lengths and indexes. Raises InvalidRequest.

        Names that may be invalid are left to `read`.
        """
        self._request = request
        self._snapshot = snapshot
        self._trusted = trusted
        users, queues = request.user_indexes[:], request.queue_indexes[:]
        _check_sizes(request, users, queues)
        _check_indexes(request, users, queues)
        # Encode pairs as single integers, because integers are faster to deduplicate than tuples.
        width = len(request.queues)
        self._width = width
        self._pairs = [user * width + queue for user, queue in zip(users, queues, strict=True)]
        self._distinct = list(dict.fromkeys(self._pairs))
        # Truncate keys to save memory. The cache ignores keys longer than MAX_REQUEST_BYTES anyway.
        cut = MAX_REQUEST_BYTES + 1
        heads = [
            wire.embed(_Check.USER_FIELD_NUMBER, user.SerializeToString(deterministic=True))[:cut]
            for user in request.users
        ]
        tail = _Check(partition=request.partition[:cut], access=request.access)
        tails = []
        for name in request.queues:
            tail.queue = name[:cut]
            tails.append(tail.SerializeToString()[:cut])
        self.distinct: Sequence[bytes] = [
            heads[pair // width] + tails[pair % width] for pair in self._distinct
        ]
        """The cache key of each distinct pair: the equivalent CheckQueueAccessRequest."""
        served = snapshot.served.get(request.partition or DEFAULT_PARTITION)
        is_rbac = served is not None and served.partition.named_grants is not None
        self._served = None if is_rbac else served
        self._access = validation.ACCESS.get(request.access)
        self._valid_users: list[User | None] = []
        self._valid_paths: list[str | None] = []
        if self._served is not None:
            for start in range(0, len(request.users), BLOCK):
                block = request.users[start : start + BLOCK]
                self._valid_users += valid_users(block, self._served, trusted=trusted)
            self._valid_paths = valid_paths(request.queues, self._served)
        self._users: dict[int, tuple[str, Sequence[str] | None, validation.Violations]] = {}
        self._paths: dict[int, tuple[str, validation.Violations]] = {}

    def read_many(self, indexes: Sequence[int]) -> Sequence[Query | None]:
        """Return the queries for distinct pairs; None for pairs that `read` must validate."""
        served, access, width = self._served, self._access, self._width
        if served is None or access is None:
            return [None] * len(indexes)
        pairs = [self._distinct[index] for index in indexes]
        return valid_queries(
            [self._valid_users[pair // width] for pair in pairs],
            [self._valid_paths[pair % width] for pair in pairs],
            served,
            repeat(access),
            repeat(""),
        )

    def read(self, index: int) -> Query:
        """Return the query for a distinct pair. Raises InvalidRequest and UnknownPartition."""
        user_index, queue_index = divmod(self._distinct[index], self._width)
        violations: validation.Violations = []
        served = validation.find_partition(self._request.partition, self._snapshot, violations)
        if user_index not in self._users:
            self._users[user_index] = self._user(user_index, served)
        if queue_index not in self._paths:
            self._paths[queue_index] = self._path(queue_index, served)
        user, groups, of_user = self._users[user_index]
        path, of_queue = self._paths[queue_index]
        if of_user or of_queue:
            violations += of_user + of_queue
        access = validation.access_kind(self._request.access, served, violations)
        if violations or served is None or access is None:
            raise InvalidRequest(violations)
        return Query(user, groups, served, path, access)

    def spread(self, results: Sequence[CheckResponse]) -> list[CheckResponse]:
        """Return the result of each pair, given the results of the distinct pairs."""
        by_pair = dict(zip(self._distinct, results, strict=True))
        return list(map(by_pair.__getitem__, self._pairs))

    def _user(
        self, index: int, served: ServedPartition | None
    ) -> tuple[str, Sequence[str] | None, validation.Violations]:
        violations: validation.Violations = []
        user, groups = validation.user_and_groups(self._request.users[index], served, violations)
        if served is not None:
            groups = validation.trusted_groups(user, groups, served, trusted=self._trusted)
        return user, groups, violations

    def _path(
        self, index: int, served: ServedPartition | None
    ) -> tuple[str, validation.Violations]:
        violations: validation.Violations = []
        path = validation.queue("queue", self._request.queues[index], served, violations)
        return path, violations


def response(results: Sequence[CheckResponse], reasons: bytes, revision: int) -> Response:
    """Build a response without the decisions. `reasons` contains each result's reason number."""
    digits = reasons.translate(_DIGITS)[::-1]
    return Response(
        allowed=int(digits, 2).to_bytes((len(results) + 7) // 8, "little"),
        errors=_errors(results, reasons),
        policy_revision=revision,
    )


async def with_decisions(
    brief: Response, results: Sequence[CheckResponse], pause: Callable[[], Awaitable[None]]
) -> bytes:
    """Add the decisions to a response and serialize it. Pauses every few milliseconds."""
    message = Response()
    message.CopyFrom(brief)
    numbers = {b"": 0}
    for start in range(0, len(results), CHUNK):
        for each in results[start : start + CHUNK]:
            if each.reason == ERROR:
                message.decision_indexes.append(0)
            else:
                number = numbers.setdefault(each.response, len(numbers))
                message.decision_indexes.append(number)
        await pause()
    decision = access_pb2.CheckQueueAccessResponse.FromString
    for start in range(1, len(numbers), CHUNK):
        message.decisions.extend(map(decision, islice(numbers, start, start + CHUNK)))
        await pause()
    return message.SerializeToString()


def _errors(results: Sequence[CheckResponse], reasons: bytes) -> list[access_pb2.ColumnsError]:
    """Return each distinct error with the indexes of the checks that failed with it."""
    if ERROR not in reasons:
        return []
    indexes: dict[bytes, list[int]] = {}
    for index, each in enumerate(results):
        if each.reason == ERROR:
            indexes.setdefault(each.response, []).append(index)
    return [
        access_pb2.ColumnsError(questions=concerned, error=Status.FromString(status))
        for status, concerned in indexes.items()
    ]


def _check_sizes(request: Request, users: Sequence[int], queues: Sequence[int]) -> None:
    """Validate the lengths of the columns. Raises InvalidRequest."""
    violations: validation.Violations = []
    for field, count, limit in (
        ("users", len(request.users), MAX_NAMES),
        ("queues", len(request.queues), MAX_NAMES),
        ("user_indexes", len(users), MAX_CHECKS),
    ):
        if not count:
            violations.append((field, "is empty"))
        elif count > limit:
            violations.append((field, f"has more than {limit} entries"))
    if len(users) != len(queues):
        text = f"has {len(queues)} entries, and user_indexes has {len(users)}"
        violations.append(("queue_indexes", text))
    validation.raise_if(violations)


def _check_indexes(request: Request, users: Sequence[int], queues: Sequence[int]) -> None:
    """Validate the indexes in all pairs. Raises InvalidRequest."""
    violations: validation.Violations = []
    for field, indexes, count in (
        ("user_indexes", users, len(request.users)),
        ("queue_indexes", queues, len(request.queues)),
    ):
        if max(indexes) >= count:
            position = next(number for number, index in enumerate(indexes) if index >= count)
            text = f"is {indexes[position]}, must be less than {count}"
            violations.append((f"{field}[{position}]", text))
    validation.raise_if(violations)
