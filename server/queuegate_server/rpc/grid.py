"""Decisions by user and queue, as small numbers in rows that C code can read.

What `memo.DecisionMemo` says of answers holds here too: a grid is kept for one snapshot, and a
row that used groups for as long as the cache entry they came from is fresh.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import getitem
from typing import TYPE_CHECKING, Final

from queuegate.policy.decision import Decision
from queuegate_server.questions import Verdict
from queuegate_server.rpc.convert import REASONS
from queuegate_server.snapshot import Snapshot

if TYPE_CHECKING:
    from queuegate_server.identity.cache import CacheEntry

UNKNOWN: Final = 0
"""The number of what has not been decided."""
MAX_CELLS: Final = 4_000_000
"""Rows times columns, of three bytes each. A grid that would be larger starts anew."""
_MAX_NAMES: Final = 16_384
_MAX_NUMBER: Final = 65_535
_MAX_GRIDS: Final = 8
_LONGEST_NAME: Final = 512

ALLOWED: Final = 0x80
"""In an outcome: access is granted."""
REASON: Final = 0x7F
"""In an outcome: the number of the reason; 0 if it is unknown."""

Numbers = Sequence[int]


class Row:
    """The decisions about one user, and the cache entry whose groups they used."""

    __slots__ = ("entry", "numbers", "outcomes")

    def __init__(self) -> None:
        """Know none."""
        self.entry: CacheEntry | None = None
        self.numbers = array("H")
        """Of decisions, by column."""
        self.outcomes = bytearray()
        """Of the same decisions."""


class Grid:
    """The decisions about one kind of access in one partition of one snapshot."""

    def __init__(self) -> None:
        """Know none."""
        self.decisions: list[Decision | None] = [None]
        """By number."""
        self.outcomes = bytearray(1)
        """By number."""
        self._numbers: dict[Decision, int] = {}
        self._rows: dict[bytes, Row] = {}
        self._columns: dict[str, int] = {}

    def select(
        self, users: Sequence[bytes], queues: Sequence[str], now: float
    ) -> tuple[list[Row], list[int]] | None:
        """Return the row of each user and the column of each queue; None if there is no room
        beside what is known.
        """
        rows, columns = self._rows, self._columns
        width = len(columns) + sum(queue not in columns for queue in queues)
        height = len(rows) + sum(user not in rows for user in users)
        if width * height > MAX_CELLS or max(width, height) > _MAX_NAMES:
            return None
        if len(self.decisions) > _MAX_NUMBER:
            return None
        if max(map(len, users)) > _LONGEST_NAME or max(map(len, queues)) > _LONGEST_NAME:
            return None
        places = [columns.setdefault(queue, len(columns)) for queue in queues]
        return [self._row(user, now) for user in users], places

    def number(self, decision: Decision) -> int:
        """Return the number of a decision."""
        known = self._numbers.get(decision)
        if known is None:
            known = self._numbers[decision] = len(self.decisions)
            self.decisions.append(decision)
            self.outcomes.append(REASONS[decision.reason] | (ALLOWED if decision.allowed else 0))
        return known

    def outcomes_of(self, found: Iterable[int]) -> bytes:
        """Return the outcomes of decisions, given by their numbers."""
        return bytes(map(self.outcomes.__getitem__, found))

    def keep(self, row: Row, column: int, verdict: Verdict) -> None:
        """Keep a decision in a row of `select`, unless it used other groups than the row."""
        if verdict.entry is not None:
            if row.entry is None:
                row.entry = verdict.entry
            elif row.entry is not verdict.entry:
                return
        number = self.number(verdict.decision)
        if number <= _MAX_NUMBER:
            row.numbers[column] = number
            row.outcomes[column] = self.outcomes[number]

    def _row(self, user: bytes, now: float) -> Row:
        row = self._rows.get(user)
        if row is None or (row.entry is not None and row.entry.refresh_at <= now):
            row = self._rows[user] = Row()
        missing = len(self._columns) - len(row.numbers)
        if missing:
            row.numbers.frombytes(bytes(2 * missing))
            row.outcomes.extend(bytes(missing))
        return row


class Grids:
    """The grids of one snapshot at a time, by partition and kind of access."""

    def __init__(self) -> None:
        """Know none."""
        self._snapshot: Snapshot | None = None
        self._grids: dict[tuple[str, int], Grid] = {}

    def forget(self) -> None:
        """Let go of the snapshot and its grids."""
        self._snapshot = None
        self._grids = {}

    def of(self, snapshot: Snapshot, partition: str, access: int) -> Grid:
        """Return a grid."""
        if snapshot is not self._snapshot or len(self._grids) > _MAX_GRIDS:
            self.forget()
            self._snapshot = snapshot
        return self._grids.setdefault((partition, access), Grid())

    def renew(self, partition: str, access: int) -> Grid:
        """Replace a grid that is full."""
        grid = self._grids[partition, access] = Grid()
        return grid


def numbers(
    rows: Iterable[Row], columns: Sequence[int], asking: Numbers, asked: Numbers
) -> list[int]:
    """Return the number of what each question, a pair of positions, was decided as."""
    return list(_cells([row.numbers for row in rows], columns, asking, asked))


def outcomes(rows: Iterable[Row], columns: Sequence[int], asking: Numbers, asked: Numbers) -> bytes:
    """Return the outcome of each question, which is all that most callers ask for."""
    return bytes(_cells([row.outcomes for row in rows], columns, asking, asked))


def _cells(
    by_user: Sequence[Sequence[int]], columns: Sequence[int], asking: Numbers, asked: Numbers
) -> Iterator[int]:
    return map(getitem, map(by_user.__getitem__, asking), map(columns.__getitem__, asked))
