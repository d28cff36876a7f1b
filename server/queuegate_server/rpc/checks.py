"""From the bytes of questions to the bytes of answers: the hot path.

A question that the memo can answer costs a dictionary look-up; one whose groups
are cached is decided without waiting; only the rest waits for a resolver.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, cast

from queuegate.policy.decision import Decision
from queuegate.v1 import access_pb2
from queuegate_server.engine import Engine
from queuegate_server.identity.cache import CacheEntry
from queuegate_server.questions import Query, Verdict
from queuegate_server.rpc import convert, wire
from queuegate_server.rpc.admission_queue import AdmissionQueue, Slot
from queuegate_server.rpc.columns import Columns
from queuegate_server.rpc.convert import REASONS
from queuegate_server.rpc.decision_log import ERROR, DecisionLog
from queuegate_server.rpc.errors import InvalidRequest, to_status
from queuegate_server.rpc.halves import Halves
from queuegate_server.rpc.response_cache import TIMELESS, CachedResponse, ResponseCache
from queuegate_server.snapshot import Snapshot

_DECISION: Final = access_pb2.CheckResult.DECISION_FIELD_NUMBER
_RESULTS: Final = access_pb2.BatchCheckQueueAccessResponse.RESULTS_FIELD_NUMBER
_KEPT_ANSWERS: Final = 16_384
"""Different answers are few: a queue, and the name that matched."""
_BATCH_RESULT: Final = 1
_REASON: Final = 3
"""Positions in `Kept`: quicker than by name."""
_DECIDED_AT_ONCE: Final = 100
_LOOKED_UP_AT_ONCE: Final = 16


class Checks:
    """Answers single questions and batches. Used from one event loop."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float],
        decisions: DecisionLog,
        turns: AdmissionQueue,
    ) -> None:
        """Take the engine, a monotonic clock in seconds, what counts and records, and when
        batches are decided.
        """
        self._engine = engine
        self._clock = clock
        self._decisions = decisions
        self._turns = turns
        self._memo = ResponseCache()
        self._answers: dict[Decision, CachedResponse] = {}
        self._revision = 0
        self._halves = Halves()
        self.columns = Columns(engine, clock, self._alone, decisions, turns)
        """For questions given as columns."""
        engine.when_replaced(self._forget)

    async def answer(self, request: bytes) -> bytes:
        """Return the answer to one question.

        Raises InvalidRequest, UnknownPartition, GroupsUnavailable, NotReady,
        AuditUnavailable.
        """
        try:
            snapshot = self._engine.snapshot
            kept = self._known(request, snapshot)
            if kept is None:
                kept = self._keep(snapshot, request, *await self._wait(request, snapshot))
        except Exception as error:
            await self._decisions.failed("CheckQueueAccess", request, error)
            raise
        self._decisions.counts[kept.reason] += 1
        if self._decisions.is_due[kept.reason]:
            await self._decisions.record("CheckQueueAccess", request, kept.response)
        return kept.response

    def answer_at_once(self, request: bytes) -> bytes | None:
        """Return the answer to one question if nothing has to be waited for or recorded.
        Raises nothing: what is wrong with a question, `answer` tells.
        """
        try:
            kept = self._known(request, self._engine.snapshot)
        except Exception:
            return None
        if kept is None or self._decisions.is_due[kept.reason]:
            return None
        self._decisions.counts[kept.reason] += 1
        return kept.response

    async def answer_batch(self, request: bytes) -> bytes:
        """Return the results of a batch, all decided on one snapshot; an item that fails
        fails alone. Lets other work run between parts of a long batch.

        Raises InvalidRequest if the batch as a whole is wrong, TooMuchWork, NotReady,
        AuditUnavailable.
        """
        return await self._batch(request, "BatchCheckQueueAccess", self._turns.of_call())

    async def answer_batch_of_stream(self, request: bytes) -> bytes:
        """Return what `answer_batch` does, however long it takes. Does not raise TooMuchWork."""
        return await self._batch(request, "StreamQueueAccess", self._turns.of_stream())

    async def _batch(self, request: bytes, method: str, turn: Slot) -> bytes:
        async with turn:
            try:
                snapshot, results, missing, counts = self._begin(request)
                if missing:
                    await self._fill(snapshot, results, missing, counts, turn)
            except Exception as error:
                turn.end()
                await self._decisions.failed(method, b"", error)
                raise
        response = b"".join(results)
        if due := self._decisions.add(counts):
            await self._decisions.record(method, request, response, due)
        return response

    def answer_batch_now(self, request: bytes) -> bytes | None:
        """Return the results of a batch if all of them are kept and none has to be recorded,
        else None.

        Raises what `answer_batch` raises. Used for streams, whose callers wait for no turn then.
        """
        _, results, missing, counts = self._begin(request)
        if missing or self._decisions.are_due(counts):
            return None
        self._decisions.add(counts)
        return b"".join(results)

    def _begin(self, request: bytes) -> tuple[Snapshot, list[bytes], list[int], list[int]]:
        """Return the snapshot to decide on, the kept results with the questions of the
        others in their places, these places, and the kept decisions by reason.
        """
        items = wire.first_field_items(request)
        if not items:
            raise InvalidRequest([("checks", "is empty")])
        if len(items) > convert.MAX_BATCH:
            raise InvalidRequest([("checks", f"has more than {convert.MAX_BATCH} questions")])
        snapshot = self._engine.snapshot
        found = [*map(self._memo.answers(snapshot).get, items)]
        now = self._clock()
        missing = [
            place
            for place, kept in enumerate(found)
            if kept is None or (kept.source is not TIMELESS and kept.source.refresh_at <= now)
        ]
        if missing:
            for place in missing:
                found[place] = None
            known = [kept for kept in found if kept is not None]
            results = [
                item if kept is None else kept.batch_result
                for item, kept in zip(items, found, strict=True)
            ]
        else:
            known = cast("list[CachedResponse]", found)
            results = [kept[_BATCH_RESULT] for kept in known]
        counts = self._decisions.counted(bytes([kept[_REASON] for kept in known]))
        return snapshot, results, missing, counts

    async def _fill(
        self,
        snapshot: Snapshot,
        results: list[bytes],
        missing: list[int],
        counts: list[int],
        turn: Slot,
    ) -> None:
        """Replace the questions at the given places by their results, and count these."""
        waiting: list[tuple[int, Query]] = []
        for count, place in enumerate(missing, start=1):
            item = results[place]
            kept = self._memo.older(snapshot, item)
            if kept is None or kept.source.refresh_at <= self._clock():
                kept = None
                try:
                    kept = self._now(item, snapshot)
                    if kept is None:
                        asked = _question(item, snapshot)
                        verdict = self._engine.check_now(snapshot, asked)
                        if verdict is None:
                            waiting.append((place, asked))
                        else:
                            kept = self._keep(snapshot, item, *verdict)
                except Exception as error:
                    results[place] = self._failed(error, counts)
            if kept is not None:
                results[place] = kept.batch_result
                counts[kept.reason] += 1
            if count % _DECIDED_AT_ONCE == 0:
                await turn.pause()
        if waiting:
            turn.end()
            await self._look_up(snapshot, results, waiting, counts)

    async def _look_up(
        self,
        snapshot: Snapshot,
        results: list[bytes],
        waiting: Sequence[tuple[int, Query]],
        counts: list[int],
    ) -> None:
        """Answer questions that wait for a resolver, a few at a time."""
        queue = iter(waiting)

        async def work() -> None:
            for place, asked in queue:
                try:
                    verdict = await self._engine.check(snapshot, asked)
                except Exception as error:
                    results[place] = self._failed(error, counts)
                else:
                    kept = self._keep(snapshot, results[place], *verdict)
                    results[place] = kept.batch_result
                    counts[kept.reason] += 1

        # The native transport begins a call before there is a task, which a group needs.
        await asyncio.sleep(0)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_LOOKED_UP_AT_ONCE, len(waiting))):
                group.create_task(work())

    def _forget(self) -> None:
        self._memo.forget()
        self._halves.forget()

    def _known(self, request: bytes, snapshot: Snapshot) -> CachedResponse | None:
        """Return the answer to a question if it is kept, or can be decided without waiting."""
        kept = self._memo.answers(snapshot).get(request) or self._memo.older(snapshot, request)
        if kept is None or kept.source.refresh_at <= self._clock():
            return self._now(request, snapshot)
        return kept

    def _now(self, request: bytes, snapshot: Snapshot) -> CachedResponse | None:
        """Decide a question of the usual kind, None if it is another one or has to wait."""
        if snapshot is not self._engine.snapshot:  # replaced while a batch was under way
            return None
        halves = self._halves.of(request, snapshot)
        if halves is None:
            return None
        (user, groups), (served, path, access) = halves
        known = self._engine.check_known(served, path, access, user, groups)
        return None if known is None else self._keep(snapshot, request, *known)

    async def _wait(self, request: bytes, snapshot: Snapshot) -> Verdict:
        """Decide any question, looking the groups up if need be."""
        asked = _question(request, snapshot)
        verdict = self._engine.check_now(snapshot, asked)
        if verdict is None:
            # The native transport begins a call before there is a task, which a time limit needs.
            await asyncio.sleep(0)
            verdict = await self._engine.check(snapshot, asked)
        return verdict

    def _keep(
        self, snapshot: Snapshot, request: bytes, decision: Decision, entry: CacheEntry | None
    ) -> CachedResponse:
        kept = self._encoded(decision, snapshot.policy.revision)
        if entry is not None:
            # What the constructor of a named tuple does, at a third of its price.
            kept = tuple.__new__(
                CachedResponse, (kept.response, kept.batch_result, entry, kept.reason)
            )
        self._memo.keep(snapshot, request, kept)
        return kept

    def _alone(self, decision: Decision, revision: int) -> tuple[bytes, int]:
        """Return the answer to a question as bytes, and the number of its reason."""
        kept = self._encoded(decision, revision)
        return kept.response, kept.reason

    def _encoded(self, decision: Decision, revision: int) -> CachedResponse:
        """Return an answer that used no groups of the cache."""
        if revision != self._revision or len(self._answers) >= _KEPT_ANSWERS:
            self._answers = {}
            self._revision = revision
        kept = self._answers.get(decision)
        if kept is None:
            response = wire.decision(decision, revision)
            framed = wire.embedded(_RESULTS, wire.embedded(_DECISION, response))
            kept = CachedResponse(response, framed, TIMELESS, REASONS[decision.reason])
            self._answers[decision] = kept
        return kept

    def _failed(self, error: Exception, counts: list[int]) -> bytes:
        counts[ERROR] += 1
        self._decisions.count_error(error)
        result = access_pb2.CheckResult(error=to_status(error))
        return access_pb2.BatchCheckQueueAccessResponse(results=[result]).SerializeToString()


def _question(request: bytes, snapshot: Snapshot) -> Query:
    return convert.question(wire.parse(access_pb2.CheckQueueAccessRequest, request), snapshot)
