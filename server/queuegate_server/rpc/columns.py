"""Questions as columns: users and queues once, then pairs of positions.

Each different pair is decided once, and kept in a grid. What is done for each question is left
to loops that run in C: maps over positions, and a number read from a text of zeros and ones.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from queuegate.v1 import access_pb2
from queuegate_server.engine import Engine, Snapshot, Verdict
from queuegate_server.policy.tree import Decision
from queuegate_server.rpc import convert, wire
from queuegate_server.rpc.audit_records import COLUMNS
from queuegate_server.rpc.decisions import ERROR, Decisions
from queuegate_server.rpc.grid import UNKNOWN, Grid, Grids, Row, numbers
from queuegate_server.rpc.pairs import Failed, Outcomes, Pair, Request, Work

MAX_QUESTIONS: Final = 100_000
MAX_NAMES: Final = 10_000
"""Users of a request, and queues."""
_RECORD_BYTES: Final = 256
"""About as much as an audit record takes, which is more than its part of a request."""
_BYTES: Final = 256
_DIGITS: Final = b"01".ljust(_BYTES, b"\0")

Response = access_pb2.CheckQueueAccessColumnsResponse


class Columns:
    """Answers requests with columns. Used from one event loop."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float],
        encoded: Callable[[Decision, int], tuple[bytes, int]],
        decisions: Decisions,
    ) -> None:
        """Take the engine, a monotonic clock in seconds, what makes bytes of a decision by a
        policy revision and knows the number of its reason, and what counts and records.
        """
        self._engine = engine
        self._clock = clock
        self._encoded = encoded
        self._decisions = decisions
        self._grids = Grids()

    async def answer(self, data: bytes) -> bytes:
        """Return the answers, all decided on one snapshot. Lets other work run between
        parts of a long request.

        Raises InvalidRequest if the request as a whole is wrong, NotReady, AuditUnavailable.
        """
        try:
            response, decided = await self._decide(data)
        except Exception as error:
            await self._decisions.failed(COLUMNS, b"", error)
            raise
        if due := self._decisions.add(decided.counts):
            told = response if decided.are_told else response + self._told(decided)
            size = due * _RECORD_BYTES
            await self._decisions.record(COLUMNS, data, told, due, size=size)
        return response

    async def _decide(self, data: bytes) -> tuple[bytes, "_Decided"]:
        """Return the response, and what was decided."""
        request = wire.parse(Request, data)
        asking, asked = request.user_indexes[:], request.queue_indexes[:]
        _check(request, asking, asked)
        snapshot = self._engine.snapshot
        revision = snapshot.policy.revision
        grid, selected = self._select(snapshot, request)
        found = numbers(*selected, asking, asked) if selected else [UNKNOWN] * len(asking)
        errors: list[access_pb2.ColumnsError] = []
        if UNKNOWN in found:
            missing = [place for place, number in enumerate(found) if number == UNKNOWN]
            pairs = [(asking[place], asked[place]) for place in missing]
            outcomes = await Work(self._engine, snapshot, request).decide(pairs)
            if selected is None:
                grid = Grid()
            else:
                _keep(grid, selected, outcomes)
            errors = self._fill(grid, found, missing, pairs, outcomes)
        response = Response(
            allowed=_bits(_allowed(grid, found)),
            errors=errors,
            policy_revision=revision,
        )
        encoded = response.SerializeToString()
        decided = self._count(grid, found, revision, are_told=request.with_decisions)
        if decided.are_told:
            encoded += self._told(decided)
        return encoded, decided

    def _count(
        self, grid: Grid, found: Sequence[int], revision: int, *, are_told: bool
    ) -> "_Decided":
        """Return the different decisions as bytes, and how often there was which reason."""
        counts = self._decisions.none_yet()
        parts: dict[int, bytes] = {}
        for number, times in Counter(found).items():
            decision = grid.decisions[number]
            if decision is None:
                counts[ERROR] += times
            else:
                parts[number], reason = self._encoded(decision, revision)
                counts[reason] += times
        return _Decided(found, parts, counts, are_told)

    def _select(
        self, snapshot: Snapshot, request: Request
    ) -> tuple[Grid, tuple[list[Row], list[int]] | None]:
        """Return a grid and what of it is asked for; None if that is too large to be kept."""
        grid = self._grids.of(snapshot, request.partition, request.access)
        users = [user.SerializeToString(deterministic=True) for user in request.users]
        now = self._clock()
        selected = grid.select(users, request.queues, now)
        if selected is None:
            grid = self._grids.renew(request.partition, request.access)
            selected = grid.select(users, request.queues, now)
        return grid, selected

    def _told(self, decided: "_Decided") -> bytes:
        """Return the different decisions and their positions, as bytes to append."""
        parts = [
            wire.embedded(Response.DECISIONS_FIELD_NUMBER, part) for part in decided.parts.values()
        ]
        places = {number: place for place, number in enumerate(decided.parts, start=1)}
        places[UNKNOWN] = 0
        indexes = Response(decision_indexes=map(places.__getitem__, decided.found))
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


class _Decided(NamedTuple):
    """What was decided for one request."""

    found: Sequence[int]
    """The number of each question's decision."""
    parts: Mapping[int, bytes]
    """The different decisions by number, as bytes."""
    counts: list[int]
    """How often there was which reason, by its number."""
    are_told: bool
    """Whether the caller asked for decisions."""


def _check(request: Request, asking: Sequence[int], asked: Sequence[int]) -> None:
    """Check the columns; raise InvalidRequest."""
    users, queues = len(request.users), len(request.queues)
    faults: convert.Violations = []
    for field, count, most in (
        ("users", users, MAX_NAMES),
        ("queues", queues, MAX_NAMES),
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
    for field, indexes, count in (
        ("user_indexes", asking, users),
        ("queue_indexes", asked, queues),
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


def _allowed(grid: Grid, found: Sequence[int]) -> bytes:
    """Return a 0 or 1 for each question."""
    if len(grid.allowed) <= _BYTES:
        return bytes(found).translate(grid.allowed.ljust(_BYTES, b"\0"))
    return bytes(map(grid.allowed.__getitem__, found))


def _bits(values: bytes) -> bytes:
    """Return a bit for each 0 or 1, the first one as the least significant of the first byte."""
    digits = values.translate(_DIGITS)[::-1]
    return int(digits, 2).to_bytes((len(values) + 7) // 8, "little")
