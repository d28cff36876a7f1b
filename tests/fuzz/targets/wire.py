"""Bytes of requests, answered by the service as protobuf and the slow evaluators answer them.

The first byte of an input selects the method; the rest is the request. Each request is sent twice:
the second answer may come from the response cache.
"""

import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from queuegate.v1 import access_pb2, status_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.rpc import wire
from queuegate_server.rpc.errors import InvalidRequest, to_status
from tests.fuzz.targets.event_loop import run
from tests.fuzz.targets.wire_services import (
    ITEMS,
    ORACLE,
    QUEUES,
    YARN,
    YARN_ORACLE,
    YUNIKORN,
    restart,
)
from tests.support.batch_results import with_errors
from tests.support.generators.requests import RequestGenerator
from tests.support.generators.yarn_requests import YarnRequestGenerator
from tests.support.oracles.requests import (
    DENIED,
    GRANTED,
    INVALID,
    UNAVAILABLE,
    UNKNOWN_PARTITION,
)

TOKENS: Final = (
    b"\x0a\x07\x0a\x05alice",
    b"\x0a\x0b\x0a\x09testuser5",
    b"\x0a\x0c\x0a\x03bob\x12\x05staff",
    b"\x12\x05table",
    b"\x12\x07default",
    b"\x12\x08capacity",
    b"\x1a\x04root",
    b"\x1a\x07root.q1",
    b"\x1a\x0froot.@recovery@",
    b"\x1a\x01a",
    b"\x20\x01",
    b"\x20\x02",
    b"\x2a\x04knox",
    b"\x7b",
    b"\x7c",
    b"\x12\x02\xc3\x28",
    b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
)
"""Whole fields, most of them: a message may have each of them anywhere, and several times."""

M = TypeVar("M", bound=Message)
_CODES: Final = {3: INVALID, 5: UNKNOWN_PARTITION, 14: UNAVAILABLE}
_SEED: Final = 20
_MANY_FIELDS: Final = 2_000
"""Bytes: the least that a thousand fields take."""


def target(data: bytes) -> None:
    """Ask one method."""
    restart()
    if data:
        _METHODS[data[0] % len(_METHODS)][0](data[1:])


def seeds() -> Iterable[bytes]:
    """Requests of the generators of the random tests, valid or nearly so."""
    rng = random.Random(_SEED)
    for number in range(len(_METHODS)):
        for _ in range(8):
            yield bytes([number]) + _made(number, rng)


def mutated(data: bytes, rng: random.Random) -> bytes | None:
    """Return the input with another request behind it, as protobuf merges two, or that alone."""
    number = data[0] if data else rng.randrange(len(_METHODS))
    made = _made(number % len(_METHODS), rng)
    return bytes([number]) + (data[1:] + made if rng.random() < 0.5 else made)


def _made(number: int, rng: random.Random) -> bytes:
    """Return a request to a method."""
    _, make = _METHODS[number]
    return make(RequestGenerator(rng, [*QUEUES["default"]]), YarnRequestGenerator(rng, YARN_ORACLE))


def _batch_of(queues: RequestGenerator, _: YarnRequestGenerator) -> bytes:
    return wire.embed(1, queues.question()) * 2 + wire.embed(1, queues.question())


def _batch_of_applications(queues: RequestGenerator, yarn: YarnRequestGenerator) -> bytes:
    return wire.embed(1, yarn.about_application()) * 2 + wire.embed(1, queues.question())


def _columns_of(queues: RequestGenerator, _: YarnRequestGenerator) -> bytes:
    check = access_pb2.CheckQueueAccessRequest.FromString(queues.question())
    return access_pb2.CheckQueueAccessColumnsRequest(
        partition=check.partition,
        access=check.access,
        users=[check.user, UserGroupInformation(user="bob")],
        queues=[check.queue, "root.q1"],
        user_indexes=[0, 1, 0, 1],
        queue_indexes=[0, 0, 1, 1],
    ).SerializeToString()


def _list_of(queues: RequestGenerator, _: YarnRequestGenerator) -> bytes:
    check = access_pb2.CheckQueueAccessRequest.FromString(queues.question())
    return access_pb2.ListQueuesRequest(
        user=check.user,
        partition=check.partition,
        access=check.access,
        prefix=check.queue,
        page_size=3,
        real_user=check.real_user,
        with_via=True,
    ).SerializeToString()


def _ask(call: Callable[..., Coroutine[Any, Any, bytes]], data: bytes) -> tuple[str, bytes]:
    """Return the name of the status of a call, and its answer."""
    try:
        return "OK", run(call(data, trusted=True))
    except Exception as error:
        return _outcome_of_status(to_status(error).proto), b""


def _outcome_of_status(status: status_pb2.Status) -> str:
    return _CODES.get(status.code, f"{status.code}: {status.message}")


def _parsed(message: type[M], data: bytes) -> M | None:
    try:
        return message.FromString(data)
    except DecodeError:
        return None


def _same(found: object, expected: object) -> None:
    assert found == expected, f"{found!r}, expected {expected!r}"


def _queue_check(call: Callable[..., Any], data: bytes, expected: str) -> None:
    for _ in range(2):
        name, answer = _ask(call, data)
        if name == "OK":
            allowed = access_pb2.CheckQueueAccessResponse.FromString(answer).allowed
            name = GRANTED if allowed else DENIED
        _same(name, expected)


def _check(data: bytes) -> None:
    _queue_check(YUNIKORN.access.CheckQueueAccess, data, ORACLE.expected(data))


def _yarn_queue(data: bytes) -> None:
    expected = YARN_ORACLE.expected_of_queue(data)
    _queue_check(YARN.access.CheckQueueAccess, data, expected)


def _explain(data: bytes) -> None:
    name, answer = _ask(YUNIKORN.access.ExplainQueueAccess, data)
    if name == "OK":
        explained = access_pb2.ExplainQueueAccessResponse.FromString(answer)
        name = GRANTED if explained.decision.allowed else DENIED
    _same(name, ORACLE.expected(data))


def _batch(data: bytes) -> None:
    for _ in range(2):
        name, answer = _ask(YUNIKORN.access.BatchCheckQueueAccess, data)
        found = access_pb2.BatchCheckQueueAccessResponse.FromString(answer)
        _same((name, _outcomes(found.results)), _expected_of_batch(data, ORACLE.expected))


def _expected_of_batch(data: bytes, expected: Callable[[bytes], str]) -> tuple[str, list[str]]:
    items = _parsed(ITEMS, data)
    if items is None or not items.field1:
        return INVALID, []
    return "OK", [expected(item) for item in items.field1]


def _outcomes(results: Any) -> list[str]:
    return [
        (GRANTED if result.decision.allowed else DENIED)
        if result.HasField("decision")
        else _outcome_of_status(result.error)
        for result in with_errors(results)
    ]


def _one_by_one(data: bytes) -> None:
    """The split of batches that are too long for protobuf's."""
    items = _parsed(ITEMS, data)
    try:
        found = list(wire._items_one_by_one(data))
    except InvalidRequest:
        assert items is None, "refused, but protobuf reads it"
        return
    assert items is not None, "protobuf refuses it"
    _same(found, list(items.field1))


def _columns(data: bytes) -> None:
    request = _parsed(access_pb2.CheckQueueAccessColumnsRequest, data)
    for _ in range(2):
        name, answer = _ask(YUNIKORN.access.CheckQueueAccessColumns, data)
        _same(name, "OK" if request and _is_complete(request) else INVALID)
        if request is not None and name == "OK":
            _judge_columns(request, access_pb2.CheckQueueAccessColumnsResponse.FromString(answer))


def _is_complete(request: access_pb2.CheckQueueAccessColumnsRequest) -> bool:
    users, queues = request.user_indexes, request.queue_indexes
    return (
        len(users) == len(queues) > 0
        and max(users) < len(request.users)
        and max(queues) < len(request.queues)
    )


def _judge_columns(
    request: access_pb2.CheckQueueAccessColumnsRequest,
    answer: access_pb2.CheckQueueAccessColumnsResponse,
) -> None:
    failures = {index: each.error for each in answer.errors for index in each.questions}
    pairs = zip(request.user_indexes, request.queue_indexes, strict=True)
    for number, (user, queue) in enumerate(pairs):
        single = access_pb2.CheckQueueAccessRequest(
            user=request.users[user],
            partition=request.partition,
            queue=request.queues[queue],
            access=request.access,
        )
        allowed = bool(answer.allowed[number // 8] >> number % 8 & 1)
        found = GRANTED if allowed else DENIED
        if number in failures:
            assert not allowed
            found = _outcome_of_status(failures[number])
        _same(found, ORACLE.expected(single.SerializeToString()))


def _list(data: bytes) -> None:
    name, answer = _ask(YUNIKORN.access.ListQueues, data)
    request = _parsed(access_pb2.ListQueuesRequest, data)
    if request is None:
        _same(name, INVALID)
        return
    found = access_pb2.ListQueuesResponse.FromString(answer)
    # The same question about each queue: a fault of the request is a fault of each.
    paths = [path or "root" for path in (request.prefix, request.page_token)]
    outcomes = [_listed(request, path) for path in paths]
    faults = [each for each in outcomes if each in {INVALID, UNKNOWN_PARTITION}]
    if faults or request.page_size < 0:
        _same(name, UNKNOWN_PARTITION if UNKNOWN_PARTITION in faults else INVALID)
        return
    if name == UNAVAILABLE:
        return  # Another queue of those that were looked at needs groups that cannot be had.
    _same(name, "OK")
    partition = request.partition.rpartition("]")[2] or "default"
    prefix, token = request.prefix.lower(), request.page_token.lower()
    expected = [
        path
        for path in sorted(QUEUES[partition])
        if path > token
        and (not prefix or f"{path}.".startswith(f"{prefix}."))
        and _listed(request, path) == GRANTED
    ]
    size = min(request.page_size or 1_000, 10_000)
    _same(list(found.queues), expected[:size])
    _same(found.next_page_token, expected[size - 1] if len(expected) > size else "")
    _same(len(found.via), len(found.queues) if request.with_via else 0)
    for path, via in zip(found.queues, found.via, strict=False):
        _same(via.kind != access_pb2.SUBJECT_KIND_UNSPECIFIED and bool(via.name), True)
        _same(f"{path}.".startswith(f"{via.queue or 'root'}."), True)


def _listed(request: access_pb2.ListQueuesRequest, path: str) -> str:
    return ORACLE.expected(
        access_pb2.CheckQueueAccessRequest(
            user=request.user,
            partition=request.partition,
            queue=path,
            access=request.access,
            real_user=request.real_user,
        ).SerializeToString()
    )


def _application(data: bytes) -> None:
    name, answer = _ask(YARN.access.CheckApplicationAccess, data)
    if name == "OK":
        allowed = access_pb2.CheckApplicationAccessResponse.FromString(answer).allowed
        name = GRANTED if allowed else DENIED
    _same(name, YARN_ORACLE.expected_of_application(data))


def _explained_application(data: bytes) -> None:
    name, answer = _ask(YARN.access.ExplainApplicationAccess, data)
    if name == "OK":
        explained = access_pb2.ExplainApplicationAccessResponse.FromString(answer)
        name = GRANTED if explained.decision.allowed else DENIED
    _same(name, YARN_ORACLE.expected_of_explanation(data))


def _application_batch(data: bytes) -> None:
    name, answer = _ask(YARN.access.BatchCheckApplicationAccess, data)
    found = access_pb2.BatchCheckApplicationAccessResponse.FromString(answer)
    expected = _expected_of_batch(data, YARN_ORACLE.expected_of_application)
    _same((name, _outcomes(found.results)), expected)


_Judge = Callable[[bytes], None]
_Make = Callable[[RequestGenerator, YarnRequestGenerator], bytes]
_METHODS: Final[Sequence[tuple[_Judge, _Make]]] = (
    (_check, lambda queues, _: queues.question()),
    (_yarn_queue, lambda _, yarn: yarn.about_queue()),
    (_explain, lambda queues, _: queues.question()),
    (_batch, _batch_of),
    (_one_by_one, _batch_of),
    (_columns, _columns_of),
    (_list, _list_of),
    (_application, lambda _, yarn: yarn.about_application()),
    (_explained_application, lambda _, yarn: wire.embed(1, yarn.about_application())),
    (_application_batch, _batch_of_applications),
)
"""The judge and the generator of requests, by method."""
