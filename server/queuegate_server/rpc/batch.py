"""Decides the checks in batches and columns, and encodes batch results.

Checks that need a directory lookup are decided concurrently, a few at a time, after the call has
released the slot for long calls. The other checks are decided while the call holds the slot.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from queuegate.v1 import access_pb2
from queuegate_server.decisions.log import ERROR
from queuegate_server.rpc import wire
from queuegate_server.rpc.bulk_validation import BLOCK
from queuegate_server.rpc.errors import reason_name, to_status
from queuegate_server.rpc.load_shedding import Slot
from queuegate_server.rpc.response_cache import CachedResponse, CheckResponse, FailedCheck
from queuegate_server.rpc.wire import MAX_SHORT_REQUEST

T = TypeVar("T")
Q = TypeVar("Q")
V = TypeVar("V")

MAX_LOOKUPS: Final = 16
"""The maximum number of concurrent lookups per request."""
_RESULTS: Final = access_pb2.BatchCheckQueueAccessResponse.RESULTS_FIELD_NUMBER
_ERROR: Final = access_pb2.CheckResult.ERROR_FIELD_NUMBER


class CheckSteps(NamedTuple, Generic[Q, V]):
    """The steps of deciding a check, which is given by its request or its index in the batch."""

    read_many: Callable[[Sequence[int]], Sequence[Q | None]]
    """Returns the queries of several short checks; None for checks that `read` must validate."""
    read: Callable[[int], Q]
    """Returns the query, or raises validation errors. Runs in a thread for long requests."""
    check: Callable[[Q], V | None]
    """Returns None if groups must be looked up first."""
    resolve: Callable[[Q], Awaitable[V]]
    """Looks up groups and decides."""
    respond: Callable[[V], CachedResponse]
    store: Callable[[Iterable[tuple[bytes, CachedResponse]]], None]
    """Caches responses, each given with its request."""


async def decide_each(
    requests: Sequence[bytes],
    results: list[CheckResponse | None],
    steps: CheckSteps[Q, V],
    slot: Slot,
) -> list[CheckResponse]:
    """Decide the checks that have no result yet; return all results.

    A failed check yields a FailedCheck and does not affect the others.

    Args:
        requests: The serialized checks.
        results: The results so far, in the order of `requests`; None for undecided checks.
        steps: The functions that decide a check.
        slot: The call's slot. It is released during lookups.
    """
    read_many, read, check, resolve, respond, store = steps
    waiting: list[tuple[int, Q]] = []
    undecided = [index for index, result in enumerate(results) if result is None]
    for indexes in _blocks(requests, undecided):
        queries: Sequence[Q | None] = [None] * len(indexes)
        if len(indexes) > 1:
            with suppress(Exception):  # then each check is read, and fails, on its own
                queries = read_many(indexes)
        decided: list[tuple[bytes, CachedResponse]] = []
        for index, valid in zip(indexes, queries, strict=True):
            request = requests[index]
            try:
                query = await slot.run(request, partial(read, index)) if valid is None else valid
                verdict = check(query)
                if verdict is None:
                    waiting.append((index, query))
                else:
                    results[index] = response = respond(verdict)
                    decided.append((request, response))
            except Exception as error:
                results[index] = failed_check(error)
            if slot.is_due:
                await slot.pause_if_due()
        store(decided)

    async def look_up(check: tuple[int, Q]) -> None:
        index, query = check
        try:
            results[index] = response = respond(await resolve(query))
            store([(requests[index], response)])
        except Exception as error:
            results[index] = failed_check(error)

    if waiting:
        slot.release()
        await for_each(waiting, look_up, slot.pause_if_due)
        await slot.reacquire()
    return results  # type: ignore[return-value] # none is missing


def _blocks(requests: Sequence[bytes], indexes: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split checks into blocks of at most BLOCK checks and MAX_SHORT_REQUEST bytes.

    A longer check gets its own block. A block of queue checks is decided in about 0.3 ms.
    """
    block: list[int] = []
    size = 0
    for index in indexes:
        size += len(requests[index])
        if block and (size > MAX_SHORT_REQUEST or len(block) == BLOCK):
            yield block
            block, size = [], len(requests[index])
        block.append(index)
    if block:
        yield block


async def for_each(
    items: Sequence[T],
    work: Callable[[T], Awaitable[None]],
    pause_if_due: Callable[[], Awaitable[None]],
) -> None:
    """Call `work` for each item, up to MAX_LOOKUPS at a time. Pauses between items if due."""
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(item)
            await pause_if_due()

    # On Python 3.11, a cancelled TaskGroup leaves a reference cycle that keeps the request alive.
    await asyncio.gather(*(worker() for _ in range(min(MAX_LOOKUPS, len(items)))))


def failed_check(error: Exception) -> FailedCheck:
    """Convert an error to a check result."""
    return FailedCheck(to_status(error).trailer, ERROR, reason_name(error))


def reasons_of(results: Sequence[CheckResponse]) -> bytes:
    """Return the results' reason numbers, one byte each."""
    return bytes([result.reason for result in results])


def error_reasons(results: Sequence[CheckResponse]) -> list[str]:
    """Return the ErrorInfo reasons of failed checks."""
    return [result.error_reason for result in results if isinstance(result, FailedCheck)]


def encode(results: Sequence[CheckResponse], reasons: bytes) -> bytes:
    """Encode the response to a batch of queue or application checks.

    Both types of batch have the same response fields. Each distinct error is sent only once;
    otherwise, a directory outage could make the response many times longer than the request.
    """
    if ERROR not in reasons:
        return b"".join([result.batch_result for result in results])  # type: ignore[union-attr]
    first: dict[bytes, int] = {}
    parts = []
    for number, result in enumerate(results):
        if not isinstance(result, FailedCheck):
            parts.append(result.batch_result)
        elif (earlier := first.setdefault(result.response, number)) == number:
            parts.append(wire.embed(_RESULTS, wire.embed(_ERROR, result.response)))
        else:
            same = access_pb2.CheckResult(same_error_as=earlier)
            parts.append(wire.embed(_RESULTS, same.SerializeToString()))
    return b"".join(parts)
