"""AccessService: may this user use this queue?"""

import asyncio
import bisect
from collections.abc import AsyncIterator
from typing import Any, Final

from queuegate.policy.acl import Acl
from queuegate.policy.explain import Explanation, Step, StepOutcome
from queuegate.policy.names import is_at_or_below
from queuegate.v1 import access_pb2
from queuegate_server.engine import Engine
from queuegate_server.questions import Explained
from queuegate_server.rpc import convert, wire
from queuegate_server.rpc.admission_queue import AdmissionQueue, Slot
from queuegate_server.rpc.application_service import Applications
from queuegate_server.rpc.checks import Checks
from queuegate_server.rpc.decision_log import DecisionLog
from queuegate_server.rpc.errors import Draining, to_status

_DRAINING: Final = "the server is draining: ask again, on a new call, what has no answer yet"
_DEFAULT_PAGE: Final = 1_000
_LONGEST_PAGE: Final = 10_000
_STREAMED_BATCH: Final = access_pb2.StreamQueueAccessResponse.BATCH_FIELD_NUMBER
_OUTCOMES: Final = {
    StepOutcome.WILDCARD: access_pb2.STEP_OUTCOME_WILDCARD,
    StepOutcome.USER: access_pb2.STEP_OUTCOME_USER,
    StepOutcome.GROUP: access_pb2.STEP_OUTCOME_GROUP,
    StepOutcome.NO_MATCH: access_pb2.STEP_OUTCOME_NO_MATCH,
    StepOutcome.EMPTY: access_pb2.STEP_OUTCOME_EMPTY,
    StepOutcome.RECOVERY_QUEUE: access_pb2.STEP_OUTCOME_RECOVERY_QUEUE,
    StepOutcome.ACLS_DISABLED: access_pb2.STEP_OUTCOME_ACLS_DISABLED,
    StepOutcome.CLUSTER_ADMIN: access_pb2.STEP_OUTCOME_CLUSTER_ADMIN,
}


class AccessServicer:
    """Converts, calls the engine, converts back. Method names are those of the contract."""

    def __init__(
        self,
        engine: Engine,
        checks: Checks,
        decisions: DecisionLog,
        batches_in_flight: int,
        draining: asyncio.Event,
        *,
        turns: AdmissionQueue,
    ) -> None:
        """Take the engine, the hot path, what counts and records decisions, how many batches
        of one stream may be in progress, the event that ends streams, and when lists are made.
        """
        self._turns = turns
        self._engine = engine
        self._checks = checks
        self._draining = draining
        self._batches_in_flight = batches_in_flight
        self._decisions = decisions
        self._applications = Applications(engine, decisions)
        self.at_once: Final = {"CheckQueueAccess": checks.answer_at_once}
        """By method, what answers without waiting."""

    async def CheckQueueAccess(self, data: bytes) -> bytes:
        """Decide one question."""
        return await self._checks.answer(data)

    async def BatchCheckQueueAccess(self, data: bytes) -> bytes:
        """Decide a batch."""
        return await self._checks.answer_batch(data)

    async def CheckQueueAccessColumns(self, data: bytes) -> bytes:
        """Decide questions given as columns."""
        return await self._checks.columns.answer(data)

    async def StreamQueueAccess(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Decide batches as they arrive and answer them as they are ready.

        Reads no further while as many batches as allowed are in progress, so that a
        caller who does not read the answers is not read from either. Ends when the
        caller has sent all, or the server drains: what was read is answered first. Raises
        Draining then, because more may have been sent than was read.
        """
        working: set[asyncio.Task[bytes]] = set()
        draining = asyncio.create_task(self._draining.wait())
        reading: asyncio.Task[bytes | None] | None = None
        try:
            ended = False
            # What was read while an answer was on its way counts as read.
            while not draining.done() or (reading is not None and reading.done()):
                if reading is None and len(working) < self._batches_in_flight:
                    reading = asyncio.create_task(_next(requests))
                waiting = {draining, *working, *((reading,) if reading else ())}
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if reading is not None and reading in done:
                    data = reading.result()
                    reading = None
                    if data is None:
                        ended = True
                        break
                    if (response := self._stream_batch_now(data)) is not None:
                        yield response
                    else:
                        working.add(asyncio.create_task(self._stream_batch(data)))
                for task in done & working:
                    working.discard(task)
                    yield task.result()
            for finished in asyncio.as_completed(working):
                yield await finished
            if not ended:
                raise Draining(_DRAINING)
        finally:
            _cancel(draining, *working, *((reading,) if reading else ()))

    def _stream_batch_now(self, data: bytes) -> bytes | None:
        try:
            number, batch = wire.stream_request(data)
            results = self._checks.answer_batch_now(batch)
        except Exception:  # told by `_stream_batch`
            return None
        return None if results is None else _streamed(number, results)

    async def _stream_batch(self, data: bytes) -> bytes:
        number = 0
        try:
            number, batch = wire.stream_request(data)
            results = await self._checks.answer_batch_of_stream(batch)
            return _streamed(number, results)
        except Exception as error:
            return access_pb2.StreamQueueAccessResponse(
                id=number, error=to_status(error)
            ).SerializeToString()

    async def ExplainQueueAccess(self, data: bytes) -> bytes:
        """Decide one question and show the evaluation."""
        try:
            request = wire.parse(access_pb2.ExplainQueueAccessRequest, data)
            snapshot = self._engine.snapshot
            explained = await self._engine.explain(snapshot, convert.question(request, snapshot))
        except Exception as error:
            await self._decisions.failed("ExplainQueueAccess", data, error)
            raise
        message = _explained(explained, snapshot.policy.revision)
        response = message.SerializeToString()
        reason = message.decision.reason
        await self._decisions.decided("ExplainQueueAccess", data, response, reason)
        return response

    async def CheckApplicationAccess(self, data: bytes) -> bytes:
        """Decide one question about an application."""
        return await self._applications.answer(data)

    async def BatchCheckApplicationAccess(self, data: bytes) -> bytes:
        """Decide a batch of questions about applications."""
        return await self._applications.answer_batch(data)

    async def ExplainApplicationAccess(self, data: bytes) -> bytes:
        """Decide one question about an application and show the lists."""
        return await self._applications.explain(data)

    async def ListQueues(self, data: bytes) -> bytes:
        """List the existing queues that the user may use, by pages."""
        async with self._turns.of_call() as turn:
            return await self._list(data, turn)

    async def _list(self, data: bytes, turn: Slot) -> bytes:
        request = wire.parse(access_pb2.ListQueuesRequest, data)
        snapshot = self._engine.snapshot
        asked, after = convert.listing_question(request, snapshot)
        size = min(request.page_size or _DEFAULT_PAGE, _LONGEST_PAGE)
        paths = snapshot.find(asked.partition).partition.paths
        start = bisect.bisect_right(paths, after)
        asked_for = [path for path in paths[start:] if is_at_or_below(path, asked.path)]
        found = await self._engine.usable_queues(snapshot, asked, asked_for, size + 1, turn)
        page = found[:size]
        return access_pb2.ListQueuesResponse(
            queues=page,
            next_page_token=page[-1] if len(found) > size else "",
            policy_revision=snapshot.policy.revision,
        ).SerializeToString()


def _streamed(number: int, results: bytes) -> bytes:
    head = access_pb2.StreamQueueAccessResponse(id=number).SerializeToString()
    return head + wire.embedded(_STREAMED_BATCH, results)


def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()


async def _next(requests: AsyncIterator[bytes]) -> bytes | None:
    return await anext(requests, None)


def _explained(
    explained: Explained[Explanation], revision: int
) -> access_pb2.ExplainQueueAccessResponse:
    return access_pb2.ExplainQueueAccessResponse(
        decision=convert.decision_message(explained.decision, revision),
        steps=[_step(step) for step in explained.evaluation.steps],
        groups=convert.explain_groups(explained),
        evaluated_queue=explained.evaluation.evaluated_queue,
    )


def _step(step: Step) -> access_pb2.ExplainStep:
    acl = step.acl or Acl()
    return access_pb2.ExplainStep(
        queue=step.queue,
        acl=convert.ACCESS_TYPES[step.kind] if step.kind else access_pb2.ACCESS_TYPE_UNSPECIFIED,
        acl_text=acl.text,
        outcome=_OUTCOMES[step.outcome],
        matched_subject=step.matched_subject,
        dropped_names=(*acl.dropped_users, *acl.dropped_groups),
    )
