"""Questions as columns: users and queues once, then pairs of positions.

Each different pair is decided once, and kept in a grid. What is done for each question is left
to loops that run in C: maps over positions, and a number read from a text of zeros and ones.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from queuegate.policy.decision import Decision
from queuegate.v1 import access_pb2
from queuegate_server.engine import Engine
from queuegate_server.questions import Verdict
from queuegate_server.rpc import convert, wire
from queuegate_server.rpc.admission_queue import AdmissionQueue, Slot
from queuegate_server.rpc.decision_log import DecisionLog
from queuegate_server.rpc.decision_records import COLUMNS
from queuegate_server.rpc.grid import (
    ALLOWED,
    REASON,
    UNKNOWN,
    Grid,
    Grids,
    Row,
    numbers,
    outcomes,
)
from queuegate_server.rpc.pairs import Failed, Outcomes, Pair, Request, Work
from queuegate_server.snapshot import Snapshot, UnknownPartition

MAX_QUESTIONS: Final = 100_000
MAX_NAMES: Final = 10_000
"""Users of a request, and queues."""
_RECORD_BYTES: Final = 256
"""About as much as an audit record takes, which is more than its part of a request."""
_BYTES: Final = range(256)
_DIGITS: Final = bytes(b"01"[bool(outcome & ALLOWED)] for outcome in _BYTES)
_REASONS: Final = bytes(outcome & REASON for outcome in _BYTES)

Response = access_pb2.CheckQueueAccessColumnsResponse


class Columns:
    """Answers requests with columns. Used from one event loop."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float],
        encoded: Callable[[Decision, int], tuple[bytes, int]],
        decisions: DecisionLog,
        turns: AdmissionQueue,
    ) -> None:
        """Take the engine, a monotonic clock in seconds, what makes bytes of a decision by a
        policy revision and knows the number of its reason, what counts and records, and
        when questions are decided.
        """
        self._turns = turns
        self._engine = engine
        self._clock = clock
        self._encoded = encoded
        self._decisions = decisions
        self._grids = Grids()
        engine.when_replaced(self._grids.forget)

    async def answer(self, data: bytes) -> bytes:
        """Return the answers, all decided on one snapshot. Lets other work run between
        parts of a long request.

        Raises InvalidRequest if the request as a whole is wrong, TooMuchWork, NotReady,
        AuditUnavailable.
        """
        async with self._turns.of_call() as turn:
            try:
                response, told, counts = await self._decide(data, turn)
            except Exception as error:
                turn.end()
                await self._decisions.failed(COLUMNS, b"", error)
                raise
        if due := self._decisions.add(counts):
            size = due * _RECORD_BYTES
            await self._decisions.record(COLUMNS, data, told, due, size=size)
        return response

    async def _decide(self, data: bytes, turn: Slot) -> tuple[bytes, bytes, list[int]]:
        """Return the response, the same with decisions if anything is to be recorded, and how
        often there was which reason.
        """
        request = wire.parse(Request, data)
        asking, asked = request.user_indexes[:], request.queue_indexes[:]
        _check_sizes(request, asking, asked)
        snapshot = self._engine.snapshot
        revision = snapshot.policy.revision
        grid, selected = self._select(snapshot, request)
        errors: list[access_pb2.ColumnsError] = []
        found: list[int] = []
        may_be_told = request.with_decisions or any(self._decisions.is_due)
        known = bytes(len(asking))
        if selected and not may_be_told:
            # Where an index is too large nothing is known, and the check below tells which.
            with contextlib.suppress(IndexError):
                known = outcomes(*selected, asking, asked)
        if UNKNOWN in known:
            _check_indexes(request, asking, asked)
            found = numbers(*selected, asking, asked) if selected else [UNKNOWN] * len(asking)
            known = grid.outcomes_of(found)
        if UNKNOWN in known:
            missing = [place for place, number in enumerate(found) if number == UNKNOWN]
            pairs = [(asking[place], asked[place]) for place in missing]
            decided = await Work(self._engine, snapshot, request).decide(pairs, turn)
            if selected is None:
                grid = Grid()
            else:
                _keep(grid, selected, decided)
            errors = self._fill(grid, found, missing, pairs, decided)
            known = grid.outcomes_of(found)
        response = Response(
            allowed=_bits(known), errors=errors, policy_revision=revision
        ).SerializeToString()
        counts = self._decisions.counted(known.translate(_REASONS))
        told = response
        if request.with_decisions or self._decisions.are_due(counts):
            told += self._told(grid, found, revision)
        return told if request.with_decisions else response, told, counts

    def _select(
        self, snapshot: Snapshot, request: Request
    ) -> tuple[Grid, tuple[list[Row], list[int]] | None]:
        """Return a grid and what of it is asked for; None if that is too large to be kept, or
        cannot be decided.
        """
        faults: convert.Violations = []
        convert.check_partition(request.partition, faults)
        try:
            partition = snapshot.find(request.partition).partition.name
        except UnknownPartition:
            return Grid(), None
        if faults or request.access not in convert.ACCESS:
            return Grid(), None
        grid = self._grids.of(snapshot, partition, request.access)
        users = [user.SerializeToString(deterministic=True) for user in request.users]
        now = self._clock()
        selected = grid.select(users, request.queues, now)
        if selected is None:
            grid = self._grids.renew(partition, request.access)
            selected = grid.select(users, request.queues, now)
        return grid, selected

    def _told(self, grid: Grid, found: Sequence[int], revision: int) -> bytes:
        """Return the different decisions and their positions, as bytes to append."""
        parts = []
        places = {UNKNOWN: 0}
        for number in dict.fromkeys(found):
            decision = grid.decisions[number]
            if decision is not None:
                part, _ = self._encoded(decision, revision)
                parts.append(wire.embedded(Response.DECISIONS_FIELD_NUMBER, part))
                places[number] = len(parts)
        indexes = Response(decision_indexes=map(places.__getitem__, found))
        return b"".join([*parts, indexes.SerializeToString()])

    def _fill(
        self,
        grid: Grid,
        found: list[int],
        missing: Sequence[int],
        pairs: Sequence[Pair],
        outcomes: Outcomes,
    ) -> list[access_pb2.ColumnsError]:
        """Put numbers in the missing places, of which those of errors stay unknown, and
        return the errors.
        """
        questions: dict[bytes, list[int]] = {}
        faults: dict[bytes, Exception] = {}
        for place, pair in zip(missing, pairs, strict=True):
            outcome = outcomes[pair]
            if isinstance(outcome, Failed):
                questions.setdefault(outcome.status, []).append(place)
                faults[outcome.status] = outcome.error
            else:
                found[place] = grid.number(outcome.decision)
        errors = []
        for status, places in questions.items():
            message = access_pb2.ColumnsError.FromString(status)
            message.questions.extend(places)
            self._decisions.count_error(faults[status], len(places))
            errors.append(message)
        return errors


def _check_sizes(request: Request, asking: Sequence[int], asked: Sequence[int]) -> None:
    """Check how long the columns are; raise InvalidRequest."""
    faults: convert.Violations = []
    for field, count, most in (
        ("users", len(request.users), MAX_NAMES),
        ("queues", len(request.queues), MAX_NAMES),
        ("user_indexes", len(asking), MAX_QUESTIONS),
    ):
        if not count:
            faults.append((field, "is empty"))
        elif count > most:
            faults.append((field, f"has more than {most} entries"))
    if len(asking) != len(asked):
        told = f"has {len(asked)} entries, and user_indexes has {len(asking)}"
        faults.append(("queue_indexes", told))
    convert.raise_if(faults)


def _check_indexes(request: Request, asking: Sequence[int], asked: Sequence[int]) -> None:
    """Check that all users and queues of the questions are there; raise InvalidRequest."""
    faults: convert.Violations = []
    for field, indexes, count in (
        ("user_indexes", asking, len(request.users)),
        ("queue_indexes", asked, len(request.queues)),
    ):
        if max(indexes) >= count:
            place = next(place for place, index in enumerate(indexes) if index >= count)
            faults.append((f"{field}[{place}]", f"is {indexes[place]}, and there are {count}"))
    convert.raise_if(faults)


def _keep(grid: Grid, selected: tuple[list[Row], list[int]], outcomes: Outcomes) -> None:
    rows, columns = selected
    for (user, queue), outcome in outcomes.items():
        if isinstance(outcome, Verdict):
            grid.keep(rows[user], columns[queue], outcome)


def _bits(known: bytes) -> bytes:
    """Return a bit for each outcome, the first one as the least significant of the first byte."""
    digits = known.translate(_DIGITS)[::-1]
    return int(digits, 2).to_bytes((len(known) + 7) // 8, "little")
