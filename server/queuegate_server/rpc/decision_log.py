"""Counts each decision, and hands those that are due to the audit log.

A decision is known by the number of its reason in the contract, which also says
whether it was allowed; 0 stands for a question that could not be decided. Counting
is an increment in a list, because allowed answers that the memo repeats must cost
next to nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from queuegate.v1 import access_pb2
from queuegate_server.rpc import decision_records
from queuegate_server.rpc.current_caller import CALLER
from queuegate_server.rpc.errors import AuditUnavailable, reason_name

ERROR: Final = 0
_DENIED: Final = frozenset(
    {
        access_pb2.REASON_NO_MATCH,
        access_pb2.REASON_UNKNOWN_USER,
        access_pb2.REASON_RECOVERY_QUEUE,
    }
)
_REASONS: Final = range(1, max(access_pb2.Reason.values()) + 1)

Records = Callable[[], Iterable[Mapping[str, Any]]]


class AuditLog(Protocol):
    """Where records go."""

    async def append(self, records: Records, number: int, size: int) -> bool:
        """Take records, which are made by a call from another thread. `number` is how many
        there will be, `size` about how many bytes are held until then.

        Returns False if they must be written and are not.
        """


class DecisionLog:
    """The decisions so far, and what is to be recorded of them. Used from one event loop."""

    def __init__(
        self, audit: AuditLog | None = None, *, allowed: bool = False, wall: Callable[[], float]
    ) -> None:
        """Take the audit log (None: there is none), whether it is told of what was allowed,
        and a wall clock in seconds.
        """
        self._audit = audit
        self._all = allowed
        self._wall = wall
        self.counts = [0] * (len(_REASONS) + 1)
        """Decisions by the number of their reason."""
        self.is_due = tuple(
            audit is not None and (allowed or number == ERROR or number in _DENIED)
            for number in (ERROR, *_REASONS)
        )
        """By the number of a reason: whether `record` must be called."""
        self._errors: Counter[str] = Counter()

    def none_yet(self) -> list[int]:
        """Return counts for a batch."""
        return [0] * len(self.counts)

    def counted(self, reasons: bytes) -> list[int]:
        """Return the counts of a batch, given the number of each decision's reason."""
        return [reasons.count(number) for number in range(len(self.counts))]

    def are_due(self, counts: list[int]) -> bool:
        """Say whether `record` must be called for a batch with these counts."""
        return any(count and due for count, due in zip(counts, self.is_due, strict=True))

    def add(self, counts: list[int]) -> int:
        """Add the counts of a batch; return how many of them `record` must be called for."""
        due = 0
        for number, count in enumerate(counts):
            self.counts[number] += count
            due += count * self.is_due[number]
        return due

    def count_error(self, error: Exception, number: int = 1) -> None:
        """Note why questions could not be decided, besides their place in the counts."""
        self._errors[reason_name(error)] += number

    async def record(
        self, method: str, request: bytes, response: bytes, number: int = 1, *, size: int = 0
    ) -> None:
        """Record what was answered to a request, of which `number` decisions are due; raises
        AuditUnavailable. The records take at least `size` bytes, if they take more than the
        messages do.
        """
        if self._audit is None:
            return
        answered = decision_records.Answered(
            method, self._wall(), CALLER.get(), request, response, denials_only=not self._all
        )
        size = max(size, len(request) + len(response))
        if not await self._audit.append(answered.records, number, size):
            raise AuditUnavailable

    async def decided(self, method: str, request: bytes, response: bytes, reason: int) -> None:
        """Count a single decision, and record it if it is due; raises AuditUnavailable."""
        self.counts[reason] += 1
        if self.is_due[reason]:
            await self.record(method, request, response)

    async def failed(self, method: str, request: bytes, error: Exception) -> None:
        """Count and record a question that could not be decided; raises AuditUnavailable."""
        self.counts[ERROR] += 1
        self.count_error(error)
        if self._audit is not None:
            refused = decision_records.Failed(
                method, self._wall(), CALLER.get(), request, reason_name(error)
            )
            if not await self._audit.append(refused.records, 1, len(request)):
                raise AuditUnavailable from error

    def tallied(self) -> Iterator[tuple[str, str, int]]:
        """Yield outcome (allowed, denied, error), reason, and how many there were."""
        for number in _REASONS:
            name = decision_records.reason_text(number)
            outcome = "denied" if number in _DENIED else "allowed"
            yield outcome, name, self.counts[number]
        for reason, count in self._errors.items():
            yield "error", reason, count
