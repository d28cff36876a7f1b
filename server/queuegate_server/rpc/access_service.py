"""AccessService: checks users' access to queues and applications."""

import bisect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final

from queuegate.policy.decide import usable
from queuegate.policy.decision import Decision
from queuegate.policy.names import is_at_or_below
from queuegate.policy.reach import grant_of
from queuegate.v1 import access_pb2
from queuegate_server.engine import Engine, Query, Snapshot
from queuegate_server.identity.shared import CacheLease
from queuegate_server.reloads import SnapshotListener
from queuegate_server.rpc import columns, validation, wire
from queuegate_server.rpc.application_service import ApplicationServicer
from queuegate_server.rpc.batch import CheckSteps, decide_each, error_reasons, reasons_of
from queuegate_server.rpc.bulk_validation import CheckReader
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.errors import NotCaughtUp
from queuegate_server.rpc.freshness import Change, Freshness
from queuegate_server.rpc.load_shedding import LongCallQueue, Slot
from queuegate_server.rpc.messages import explanation_message, grant_message
from queuegate_server.rpc.response_cache import CheckResponse, ResponseCache, respond
from queuegate_server.rpc.user_listing import UserLister
from queuegate_server.rpc.wire import MAX_SHORT_REQUEST

_Check = access_pb2.CheckQueueAccessRequest
Permit = Callable[[], AbstractContextManager[None]]
"""Returns a context manager that counts a call as in progress. Raises Overloaded at the limit."""

DEFAULT_PAGE_SIZE: Final = 1_000
MAX_PAGE_SIZE: Final = 10_000
_CHUNK: Final = 100
"""The number of queues processed between two pauses."""
_RECORD_BYTES: Final = 256
"""The approximate size of an audit record. Columns requests are more compact than their records."""


class AccessServicer(ApplicationServicer):
    """Implements AccessService. Its methods take and return serialized messages."""

    def __init__(
        self,
        engine: Engine,
        call_log: CallLog,
        queue: LongCallQueue,
        *,
        clock: Callable[[], float],
        lease: CacheLease | None = None,
        freshness: Freshness | None = None,
    ) -> None:
        """Create a servicer with empty caches.

        Args:
            engine: The engine that decides checks.
            call_log: Counts and records decisions.
            queue: Admits long calls.
            clock: The group caches' monotonic clock, in seconds.
            lease: The lease on the group caches; None for a lease that never expires.
            freshness: Waits for the changes required by checks.
        """
        super().__init__(engine, call_log, queue)
        self._freshness = freshness or Freshness()
        self._cache = ResponseCache(clock, lease=lease)
        engine.on_swap(SnapshotListener.RESPONSES, self._cache.reset)
        self._lister = UserLister(engine, clock)

    async def CheckQueueAccess(
        self, data: bytes, *, trusted: bool, permit: Permit = nullcontext
    ) -> bytes:
        """Decide one check. Holds a permit only while groups are looked up."""
        try:
            response = self._cache.get(self._engine.snapshot, data, trusted=trusted)
            if response is None:
                if len(data) > MAX_SHORT_REQUEST:
                    snapshot, query = await self._read_long_check(data, trusted=trusted)
                else:
                    request = wire.parse(_Check, data)
                    if request.HasField("at_least"):
                        await self._freshness.ensure(request)
                    snapshot = self._engine.snapshot
                    query = validation.query(request, snapshot, trusted=trusted)
                verdict = self._engine.check(query)
                if verdict is None:
                    with permit():
                        verdict = await self._engine.resolve_and_check(query)
                response = self._cache.put(snapshot, data, verdict, trusted=trusted)
        except Exception as error:
            await self._call_log.record_failure("CheckQueueAccess", data, error)
            raise
        await self._call_log.record("CheckQueueAccess", data, response.response, response.reason)
        return response.response

    async def _read_long_check(self, data: bytes, *, trusted: bool) -> tuple[Snapshot, Query]:
        """Parse a check in a thread; return the snapshot on which to decide it, and its query."""
        async with self._queue.for_call(data) as slot:
            request = await slot.parse(_Check, data)
            if request.HasField("at_least"):
                await self._freshness.ensure(request, slot)
            snapshot = self._engine.snapshot
            validate = partial(validation.query, request, snapshot, trusted=trusted)
            return snapshot, await slot.run(data, validate)

    async def BatchCheckQueueAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide a batch's checks on one snapshot. A failed check does not affect the others."""
        method = "BatchCheckQueueAccess"
        async with self._queue.for_call(data) as slot:
            try:
                checks = wire.batch_items(data)
                await slot.pause_if_due()
                behind: set[Change] = set()
                results = await self._decide(checks, slot, behind, trusted=trusted)
                if behind and await self._freshness.catch_up(behind, slot):
                    # Decide all checks again, because the changes may include a new policy.
                    results = await self._decide(checks, slot, set(), trusted=trusted)
            except Exception as error:
                await slot.penalize()
                await self._call_log.record_failure(method, b"", error)
                raise
        return await self._batch_response(method, data, results)

    async def _decide(
        self, checks: Sequence[bytes], slot: Slot, behind: set[Change], *, trusted: bool
    ) -> list[CheckResponse]:
        """Return the checks' results, and add to `behind` the required changes not yet applied."""
        snapshot = self._engine.snapshot
        budget = wire.search_budget()

        def read(index: int) -> Query:
            request = wire.parse(_Check, checks[index], budget)
            if request.HasField("at_least") and (change := self._freshness.missing(request)):
                behind.add(change)
                raise NotCaughtUp
            return validation.query(request, snapshot, trusted=trusted)

        reader = CheckReader(checks, snapshot, trusted=trusted)
        results = await self._run(snapshot, checks, reader.read_many, read, slot, trusted=trusted)
        await slot.pause_if_due()
        return results

    async def _run(
        self,
        snapshot: Snapshot,
        requests: Sequence[bytes],
        read_many: Callable[[Sequence[int]], Sequence[Query | None]],
        read: Callable[[int], Query],
        slot: Slot,
        *,
        trusted: bool,
    ) -> list[CheckResponse]:
        """Return each check's result, reusing cached results where possible."""
        cache = self._cache
        return await decide_each(
            requests,
            await cache.get_most(snapshot, requests, slot.pause, trusted=trusted),
            CheckSteps(
                read_many,
                read,
                self._engine.check,
                self._engine.resolve_and_check,
                partial(respond, snapshot),
                partial(cache.put_many, snapshot, trusted=trusted),
            ),
            slot,
        )

    async def CheckQueueAccessColumns(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide checks given as columns, all on one snapshot."""
        method = "CheckQueueAccessColumns"
        async with self._queue.for_call(data) as slot:
            try:
                parse = partial(self._columns, data, trusted=trusted)
                request, snapshot, reader = await slot.run(data, parse)
                await slot.pause()
                distinct = await self._run(
                    snapshot,
                    reader.distinct,
                    reader.read_many,
                    reader.read,
                    slot,
                    trusted=trusted,
                )
            except Exception as error:
                await slot.penalize()
                await self._call_log.record_failure(method, b"", error)
                raise
            await slot.pause()
            results = reader.spread(distinct)
            await slot.pause()
            reasons = reasons_of(results)
            due = self._call_log.due(reasons)
            revision = snapshot.policy.revision
            brief = columns.response(results, reasons, revision)
            detailed = (
                await columns.with_decisions(brief, results, slot.pause)
                if due or request.with_decisions
                else b""
            )
        await self._call_log.record_batch(
            method, data, detailed, reasons, error_reasons(results), size=due * _RECORD_BYTES
        )
        return detailed if request.with_decisions else brief.SerializeToString()

    async def ExplainQueueAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide one check and explain the decision."""

        def read() -> tuple[Snapshot, Query]:
            request = wire.parse(access_pb2.ExplainQueueAccessRequest, data)
            snapshot = self._engine.snapshot
            return snapshot, validation.query(request, snapshot, trusted=trusted)

        return await self._explain(
            "ExplainQueueAccess", data, read, self._engine.explain, explanation_message
        )

    async def ListQueues(self, data: bytes, *, trusted: bool) -> bytes:
        """Return one page of the existing queues that a user may use."""
        async with self._queue.for_call(data) as slot:
            request = await slot.parse(access_pb2.ListQueuesRequest, data)
            snapshot = self._engine.snapshot
            query, after = validation.list_query(request, snapshot, trusted=trusted)
            size = min(request.page_size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
            paths = query.served.partition.paths
            # Fetch one extra queue to find out whether there is a next page.
            start = bisect.bisect_right(paths, after)
            usable = await self._usable(query, start, size + 1, slot)
            page = usable[:size]
            response = access_pb2.ListQueuesResponse(
                queues=[path for path, _ in page],
                next_page_token=page[-1][0] if len(usable) > size else "",
                policy_revision=snapshot.policy.revision,
            )
            if request.with_via:
                await _add_via(response, query, page, slot)
        return response.SerializeToString()

    async def ListUsers(self, data: bytes) -> bytes:
        """Return one page of the users who may use a queue."""
        async with self._queue.for_call(data) as slot:
            request = await slot.parse(access_pb2.ListUsersRequest, data)
            snapshot = self._engine.snapshot
            query = validation.users_query(request, snapshot)
            response = await self._lister.page(query, snapshot, slot)
        return response.SerializeToString()

    async def _usable(
        self, query: Query, first: int, limit: int, slot: Slot
    ) -> list[tuple[str, Decision]]:
        """Return up to `limit` queues that the user may use, starting at path index `first`."""
        user, groups, served, above, access, real_user = query
        paths = served.partition.paths
        queues: list[tuple[str, Decision]] = []
        for start in range(first, len(paths), _CHUNK):
            part = paths[start : start + _CHUNK]
            chunk = [path for path in part if is_at_or_below(path, above)]
            allowed = usable(served.partition, chunk, access, user, groups, real_user=real_user)
            if allowed is None:
                slot.release()
                # For an unknown user, continue without groups, because ACLs may list the name or
                # contain wildcards.
                groups = await self._engine.groups(query)
                await slot.reacquire()
                allowed = usable(served.partition, chunk, access, user, groups, real_user=real_user)
            queues += allowed or ()
            if len(queues) >= limit:
                break
            await slot.pause_if_due()
        return queues[:limit]

    def _columns(
        self, data: bytes, *, trusted: bool
    ) -> tuple[columns.Request, Snapshot, columns.ColumnsReader]:
        request = wire.parse(columns.Request, data, max_fields=columns.MAX_FIELDS)
        snapshot = self._engine.snapshot
        return request, snapshot, columns.ColumnsReader(request, snapshot, trusted=trusted)


async def _add_via(
    response: access_pb2.ListQueuesResponse,
    query: Query,
    page: Sequence[tuple[str, Decision]],
    slot: Slot,
) -> None:
    # Convert each distinct decision once, because most queues share an inherited decision.
    grants: dict[Decision, access_pb2.AccessGrant] = {}
    for number, (path, decision) in enumerate(page, 1):
        message = grants.get(decision)
        if message is None:
            grant = grant_of(query.served.partition, path, query.access, decision, query.user)
            message = grants[decision] = grant_message(grant)
        response.via.append(message)
        if not number % _CHUNK:
            await slot.pause_if_due()
