"""Compact encoding for batches that repeat users and queues: each name is sent once, and columns of
indexes refer to the names.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from queuegate import _errors, _responses
from queuegate._requests import ACCESS_TYPES, MAX_REQUEST_BYTES, user_and_groups
from queuegate._types import Check, CheckFailure, Decision
from queuegate.exceptions import ServerError
from queuegate.v1 import access_pb2

MIN_QUESTIONS: Final = 64
"""The minimum number of checks to encode as columns. Columns save a third of the time if few names
repeat, and nine tenths if most do.
"""
MIN_MIXED_QUESTIONS: Final = 512
"""The minimum number if other checks in the batch cannot be encoded as columns. Those checks need a
separate request, which costs as much as 400 checks.
"""
MAX_QUESTIONS: Final = 20_000
"""The maximum number of checks in a request. With this limit, responses never exceed gRPC's size
limit."""
MAX_NAMES: Final = 10_000


def requests(
    questions: Sequence[Check],
) -> Iterator[tuple[list[int], access_pb2.CheckQueueAccessColumnsRequest]]:
    """Yield requests, each with its checks' indexes, for large groups of checks that have the same
    partition and kind of access. The caller must send all other checks in batches.
    """
    alike: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, one in enumerate(questions):
        if not one.real_user:
            alike[one.partition, one.access].append(place)
    for group in alike.values():
        if len(group) < (MIN_QUESTIONS if len(group) == len(questions) else MIN_MIXED_QUESTIONS):
            continue
        # Split evenly, because few names would repeat in a small last request.
        size = math.ceil(len(group) / math.ceil(len(group) / MAX_QUESTIONS))
        for start in range(0, len(group), size):
            places = group[start : start + size]
            request = _request([questions[place] for place in places])
            if request is not None:
                yield places, request


def _request(questions: Sequence[Check]) -> access_pb2.CheckQueueAccessColumnsRequest | None:
    users: dict[tuple[str, Iterable[str] | None], int] = {}
    queues: dict[str, int] = {}
    asking = [users.setdefault((one.user, one.groups), len(users)) for one in questions]
    asked = [queues.setdefault(one.queue, len(queues)) for one in questions]
    if max(len(users), len(queues)) > MAX_NAMES or len(users) + len(queues) > len(questions):
        return None
    request = access_pb2.CheckQueueAccessColumnsRequest(
        partition=questions[0].partition,
        access=ACCESS_TYPES[questions[0].access],
        users=[user_and_groups(user, groups) for user, groups in users],
        queues=queues,
        user_indexes=asking,
        queue_indexes=asked,
        with_decisions=True,
    )
    return request if request.ByteSize() <= MAX_REQUEST_BYTES else None


def results(
    request: access_pb2.CheckQueueAccessColumnsRequest,
    response: access_pb2.CheckQueueAccessColumnsResponse,
) -> list[Decision | CheckFailure]:
    """Return the result of each check.

    Raises:
        ServerError: The response does not match the request.
    """
    expected, received = len(request.user_indexes), len(response.decision_indexes)
    if expected != received:
        raise ServerError(
            f"the server returned {received} results for {expected} checks", code="INTERNAL"
        )
    absent = CheckFailure(ServerError("the server omitted a result", code="INTERNAL"))
    outcomes: list[Decision | CheckFailure] = [absent]
    outcomes += [_responses.decision_or_failure(each) for each in response.decisions]
    try:
        collected = [outcomes[index] for index in response.decision_indexes]
        for error in response.errors:
            failure = CheckFailure(_errors.from_item(error.error))
            for number in error.questions:
                collected[number] = failure
    except IndexError:
        raise ServerError("the response does not match the request", code="INTERNAL") from None
    return collected
