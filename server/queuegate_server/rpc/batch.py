"""Decides all checks of a request: the runner behind batches and columns.

Checks that the response cache answers cost a dictionary lookup each. The rest is decided while
the request holds the slot of the admission queue, and so are checks whose resolver asks nobody.
Checks that wait for a directory do so without the slot, a few at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from queuegate.v1 import access_pb2
from queuegate_server.decisions.log import ERROR
from queuegate_server.engine import Engine, Query, Snapshot
from queuegate_server.rpc import wire
from queuegate_server.rpc.admission_queue import MAX_SHORT_REQUEST, Slot
from queuegate_server.rpc.errors import reason_name, to_status
from queuegate_server.rpc.response_cache import CheckResponse, FailedCheck, ResponseCache

T = TypeVar("T")

CHUNK: Final = 10_000
"""Checks that the response cache answers, in a few milliseconds, without a pause."""
MAX_LOOKUPS: Final = 16
"""Lookups of one request at the same time."""
_RESULTS: Final = access_pb2.BatchCheckQueueAccessResponse.RESULTS_FIELD_NUMBER
_ERROR: Final = access_pb2.CheckResult.ERROR_FIELD_NUMBER


class BatchRunner:
    """Decides checks, given by the bytes of their requests."""

    def __init__(self, engine: Engine, cache: ResponseCache, clock: Callable[[], float]) -> None:
        """Use an engine, the response cache, and the monotonic clock of both."""
        self._engine = engine
        self._cache = cache
        self._clock = clock

    async def run(
        self,
        snapshot: Snapshot,
        requests: Sequence[bytes],
        query_of: Callable[[int], Query],
        *,
        trusted: bool,
        slot: Slot,
    ) -> list[CheckResponse]:
        """Return the responses in the order of the requests.

        A check that fails yields a FailedCheck; the others are not affected.

        Args:
            snapshot: The snapshot on which all checks are decided.
            requests: The bytes of each CheckQueueAccessRequest.
            query_of: Returns the query at an index of `requests`, or raises what validation
                raises. It is called only if the cache has no response.
            trusted: Whether the groups that the caller asserts are used.
            slot: The slot of the request, which is held. It may be released in between.
        """
        newest = self._cache.newest(snapshot, trusted=trusted)
        now = self._clock()
        found: list[CheckResponse | None] = []
        for start in range(0, len(requests), CHUNK):
            if start:
                await slot.pause()
            found += [
                None if cached is None or cached.entry.fresh_until <= now else cached
                for cached in map(newest.get, requests[start : start + CHUNK])
            ]
        missing = [index for index, cached in enumerate(found) if cached is None]
        if not missing:
            return found  # type: ignore[return-value] # no index is missing
        call = _Call(snapshot, requests, query_of, trusted, slot, found, [])
        for index in missing:
            try:
                found[index] = await self._decide(call, index)
            except Exception as error:
                found[index] = failed(error)
            await slot.pause_if_due()
        if call.waiting:
            slot.release()
            await self._look_up(call)
            await slot.reacquire()
        return found  # type: ignore[return-value] # as above

    async def _decide(self, call: "_Call", index: int) -> CheckResponse | None:
        """Decide a check, or note that it waits for a lookup."""
        request = call.requests[index]
        cached = self._cache.get(call.snapshot, request, trusted=call.trusted)
        if cached is not None:
            return cached
        query = (
            call.query_of(index)
            if len(request) <= MAX_SHORT_REQUEST
            else await call.slot.run(request, partial(call.query_of, index))
        )
        verdict = self._engine.check(query)
        if verdict is None:
            call.waiting.append((index, query))
            return None
        return self._cache.put(call.snapshot, request, verdict, trusted=call.trusted)

    async def _look_up(self, call: "_Call") -> None:
        """Decide the checks that wait for a lookup."""

        async def decide(waiting: tuple[int, Query]) -> None:
            index, query = waiting
            try:
                verdict = await self._engine.resolve_and_check(query)
                call.found[index] = self._cache.put(
                    call.snapshot, call.requests[index], verdict, trusted=call.trusted
                )
            except Exception as error:
                call.found[index] = failed(error)

        await for_each(call.waiting, decide, call.slot.pause_if_due)


class _Call(NamedTuple):
    """The arguments of `run`, and the results so far."""

    snapshot: Snapshot
    requests: Sequence[bytes]
    query_of: Callable[[int], Query]
    trusted: bool
    slot: Slot
    found: list[CheckResponse | None]
    waiting: list[tuple[int, Query]]
    """The checks that wait for a lookup."""


async def for_each(
    items: Sequence[T],
    work: Callable[[T], Awaitable[None]],
    pause_if_due: Callable[[], Awaitable[None]],
) -> None:
    """Do work that may wait for lookups for each item, MAX_LOOKUPS items at a time.

    Args:
        items: The items.
        work: Takes an item.
        pause_if_due: Called after each item; lets other work run.
    """
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(item)
            await pause_if_due()

    # Not a TaskGroup: on Python 3.11, cancelling it leaves a cycle that holds the whole request.
    await asyncio.gather(*(worker() for _ in range(min(MAX_LOOKUPS, len(items)))))


def failed(error: Exception) -> FailedCheck:
    """Return the result of a check that could not be decided."""
    return FailedCheck(to_status(error).trailer, ERROR, reason_name(error))


def reasons_of(results: Sequence[CheckResponse]) -> bytes:
    """Return the number of the reason of each result."""
    return bytes([result.reason for result in results])


def error_reasons(results: Sequence[CheckResponse]) -> list[str]:
    """Return the reasons of the results that are errors, as in their ErrorInfo."""
    return [result.error_reason for result in results if isinstance(result, FailedCheck)]


def encode(results: Sequence[CheckResponse], reasons: bytes) -> bytes:
    """Return the response to a batch, of either kind: their results have the same fields.

    An error that several checks have is sent once: an outage of the directory would otherwise make
    the response many times as long as the request.

    Args:
        results: The result of each check.
        reasons: Their reasons.
    """
    if ERROR not in reasons:
        return b"".join([result.batch_result for result in results])  # type: ignore[union-attr]
    first: dict[bytes, int] = {}
    parts = []
    for number, result in enumerate(results):
        if not isinstance(result, FailedCheck):
            parts.append(result.batch_result)
        elif (earlier := first.setdefault(result.response, number)) == number:
            parts.append(wire.embedded(_RESULTS, wire.embedded(_ERROR, result.response)))
        else:
            same = access_pb2.CheckResult(same_error_as=earlier)
            parts.append(wire.embedded(_RESULTS, same.SerializeToString()))
    return b"".join(parts)
