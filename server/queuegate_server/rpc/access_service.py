"""AccessService: whether a user may use a queue or an application."""

import asyncio
import bisect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from queuegate.policy.decide import usable
from queuegate.policy.names import is_at_or_below
from queuegate.v1 import access_pb2
from queuegate_server.engine import Engine, Query
from queuegate_server.rpc import columns, validation, wire
from queuegate_server.rpc.admission_queue import AdmissionQueue, Slot
from queuegate_server.rpc.application_service import ApplicationServicer
from queuegate_server.rpc.batch import CHUNK, BatchRunner
from queuegate_server.rpc.decision_log import DecisionLog
from queuegate_server.rpc.errors import Draining, to_status
from queuegate_server.rpc.interceptors import ConcurrencyLimiter
from queuegate_server.rpc.messages import explanation_message
from queuegate_server.rpc.response_cache import CheckResponse, FailedCheck, ResponseCache

_DEFAULT_PAGE_SIZE: Final = 1_000
_MAX_PAGE_SIZE: Final = 10_000
_BATCH_FIELD: Final = access_pb2.StreamQueueAccessResponse.BATCH_FIELD_NUMBER
_RECORD_BYTES: Final = 256
"""About the size of an audit record, which is more than its part of a request with columns."""


class AccessServicer(ApplicationServicer):
    """Answers calls from and to bytes. Its methods are named as in the contract."""

    def __init__(
        self,
        engine: Engine,
        decisions: DecisionLog,
        queue: AdmissionQueue,
        limiter: ConcurrencyLimiter,
        draining: asyncio.Event,
        *,
        clock: Callable[[], float],
        batches_in_flight: int,
    ) -> None:
        """Answer calls.

        Args:
            engine: Decides.
            decisions: Counts and records decisions.
            queue: Admits long calls.
            limiter: Bounds the calls in progress.
            draining: The event that ends streams.
            clock: The monotonic clock of the group caches.
            batches_in_flight: How many batches of one stream may be in progress.
        """
        super().__init__(engine, decisions)
        self._queue = queue
        self._limiter = limiter
        self._draining = draining
        self._batches_in_flight = batches_in_flight
        self._cache = ResponseCache(clock)
        engine.on_swap(self._cache.reset)
        self._runner = BatchRunner(engine, self._cache, clock)

    async def CheckQueueAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide one check."""
        try:
            snapshot = self._engine.snapshot
            response = self._cache.get(snapshot, data, trusted=trusted)
            if response is None:
                query = validation.check_query(data, snapshot, trusted=trusted)
                verdict = self._engine.check(query)
                if verdict is None:
                    with self._limiter.room():
                        verdict = await self._engine.resolve_and_check(query)
                response = self._cache.put(snapshot, data, verdict, trusted=trusted)
        except Exception as error:
            await self._decisions.failed("CheckQueueAccess", data, error)
            raise
        await self._decisions.decided("CheckQueueAccess", data, response.response, response.reason)
        return response.response

    async def BatchCheckQueueAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide a batch, on one snapshot; a check that fails does not affect the others."""
        return await self._batch(
            "BatchCheckQueueAccess", data, self._queue.for_call(), trusted=trusted
        )

    async def CheckQueueAccessColumns(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide checks given as columns, on one snapshot."""
        method = "CheckQueueAccessColumns"
        async with self._queue.for_call() as slot:
            try:
                request = wire.parse(columns.Request, data)
                snapshot = self._engine.snapshot
                # Each step of 100,000 checks takes milliseconds; other calls go in between.
                await slot.pause()
                query = columns.ColumnsQuery(request, snapshot, trusted=trusted)
                await slot.pause()
                distinct = await self._runner.run(
                    snapshot, query.distinct, query.query, trusted=trusted, slot=slot
                )
            except Exception as error:
                slot.release()
                await self._decisions.failed(method, b"", error)
                raise
        await asyncio.sleep(0)
        results = query.spread(distinct)
        await asyncio.sleep(0)
        reasons = _reasons(results)
        due = self._decisions.count(reasons, _errors(results))
        revision = snapshot.policy.revision
        detailed = (
            columns.response(results, reasons, revision, with_decisions=True)
            if due or request.with_decisions
            else b""
        )
        if due:
            size = due * _RECORD_BYTES
            await self._decisions.record(method, data, detailed, due, size=size)
        if request.with_decisions:
            return detailed
        return columns.response(results, reasons, revision, with_decisions=False)

    async def StreamQueueAccess(
        self, requests: AsyncIterator[bytes], *, trusted: bool
    ) -> AsyncIterator[bytes]:
        """Decide batches as they arrive, and answer them as they are ready.

        No more is read while as many batches as allowed are in progress, so that a caller that
        does not read the answers is not read from either. The stream ends when the caller has
        sent all, or the server drains: what has been read is answered first. Raises Draining
        then, because the caller may have sent more.
        """
        working: set[asyncio.Task[bytes]] = set()
        draining = asyncio.create_task(self._draining.wait())
        reading: asyncio.Task[bytes | None] | None = None
        try:
            is_complete = False
            # A message that arrived while an answer was written counts as read.
            while not draining.done() or (reading is not None and reading.done()):
                if reading is None and len(working) < self._batches_in_flight:
                    reading = asyncio.create_task(_next(requests))
                waiting = {draining, *working, *((reading,) if reading else ())}
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if reading is not None and reading in done:
                    data = reading.result()
                    reading = None
                    if data is None:
                        is_complete = True
                        break
                    working.add(asyncio.create_task(self._stream_batch(data, trusted=trusted)))
                for task in done & working:
                    working.discard(task)
                    yield task.result()
            for finished in asyncio.as_completed(working):
                yield await finished
            if not is_complete:
                raise Draining(
                    "the server is draining: send the batches without an answer on a new call"
                )
        finally:
            _cancel(draining, *working, *((reading,) if reading else ()))

    async def ExplainQueueAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide one check, and show its evaluation."""
        method = "ExplainQueueAccess"
        try:
            request = wire.parse(access_pb2.ExplainQueueAccessRequest, data)
            snapshot = self._engine.snapshot
            query = validation.query(request, snapshot, trusted=trusted)
            explained = await self._engine.explain(query)
        except Exception as error:
            await self._decisions.failed(method, data, error)
            raise
        message = explanation_message(explained, snapshot.policy.revision)
        response = message.SerializeToString()
        await self._decisions.decided(method, data, response, message.decision.reason)
        return response

    async def ListQueues(self, data: bytes, *, trusted: bool) -> bytes:
        """List the existing queues that the user may use, by pages."""
        async with self._queue.for_call() as slot:
            request = wire.parse(access_pb2.ListQueuesRequest, data)
            snapshot = self._engine.snapshot
            query, after = validation.list_query(request, snapshot, trusted=trusted)
            size = min(request.page_size or _DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE)
            paths = query.served.partition.paths
            start = bisect.bisect_right(paths, after)
            candidates = [path for path in paths[start:] if is_at_or_below(path, query.path)]
            # One more than a page holds shows whether there is another page.
            found = await self._usable(query, candidates, size + 1, slot)
        page = found[:size]
        return access_pb2.ListQueuesResponse(
            queues=page,
            next_page_token=page[-1] if len(found) > size else "",
            policy_revision=snapshot.policy.revision,
        ).SerializeToString()

    async def _usable(
        self, query: Query, paths: Sequence[str], limit: int, slot: Slot
    ) -> list[str]:
        """Return the first `limit` of the queues at `paths` that the user may use."""
        user, given, served, _, access, real_user = query
        groups: Sequence[str] | None = given or None
        found: list[str] = []
        for start in range(0, len(paths), CHUNK):
            chunk = paths[start : start + CHUNK]
            allowed = usable(served.partition, chunk, access, user, groups, real_user=real_user)
            if allowed is None:
                slot.release()
                # An unknown user has no groups, but keeps the queues that list them or everybody.
                groups = await self._engine.groups(query)
                await slot.reacquire()
                allowed = usable(served.partition, chunk, access, user, groups, real_user=real_user)
            found += allowed or ()
            if len(found) >= limit:
                break
            await slot.pause()
        return found[:limit]

    async def _stream_batch(self, data: bytes, *, trusted: bool) -> bytes:
        number = 0
        try:
            number, batch = wire.stream_request(data)
            slot = self._queue.for_stream()
            results = await self._batch("StreamQueueAccess", batch, slot, trusted=trusted)
        except Exception as error:
            return access_pb2.StreamQueueAccessResponse(
                id=number, error=to_status(error).proto
            ).SerializeToString()
        head = access_pb2.StreamQueueAccessResponse(id=number).SerializeToString()
        return head + wire.embedded(_BATCH_FIELD, results)

    async def _batch(self, method: str, data: bytes, slot: Slot, *, trusted: bool) -> bytes:
        async with slot:
            try:
                checks = wire.batch_items(data)
                snapshot = self._engine.snapshot
                results = await self._runner.run(
                    snapshot,
                    checks,
                    lambda index: validation.check_query(checks[index], snapshot, trusted=trusted),
                    trusted=trusted,
                    slot=slot,
                )
            except Exception as error:
                slot.release()
                await self._decisions.failed(method, b"", error)
                raise
        response = b"".join([result.batch_result for result in results])
        if due := self._decisions.count(_reasons(results), _errors(results)):
            await self._decisions.record(method, data, response, due)
        return response


def _reasons(results: list[CheckResponse]) -> bytes:
    return bytes([result.reason for result in results])


def _errors(results: list[CheckResponse]) -> list[str]:
    return [result.error_reason for result in results if isinstance(result, FailedCheck)]


def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()


async def _next(requests: AsyncIterator[bytes]) -> bytes | None:
    return await anext(requests, None)
