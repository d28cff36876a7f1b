"""Admits long calls one at a time, and sheds them if they would wait too long.

If fifty batches took turns after each chunk, each would take fifty times as long. Single checks do
not queue: they are decided between two chunks of a long call.
"""

import asyncio
from collections import deque
from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, NoReturn, Self, TypeVar

from queuegate_server.config_fields import MIB
from queuegate_server.rpc.errors import Overloaded
from queuegate_server.runtime.event_loop import PAUSE_SECONDS
from queuegate_server.throttling import ByteBudget, CoDel

T = TypeVar("T")

MAX_SHORT_REQUEST: Final = 16 * 1024
"""Bytes. Longer requests are worked on in a thread, one at a time."""
STEP_SECONDS: Final = 0.0005
"""How long a call computes before single checks are decided."""
_MAX_HOLD_SECONDS: Final = 0.02
"""How long a call may compute before it yields the slot to others."""
_MAX_PENALTY_SECONDS: Final = 0.1
"""The maximum time for which a failed call keeps the slot."""
MAX_REQUESTS: Final = 64 * MIB
"""Bytes of waiting or running requests at which no more long calls are admitted."""
_SECONDS_PER_BYTE: Final = 5e-9
"""More than gRPC needs to receive and unpack a byte of a request."""
_MAX_BUSY_SECONDS: Final = 0.01
"""After this much computing, by one or several calls, the next `pause` sleeps."""
_MAX_PREEMPTED: Final = 4
"""While this many preempted calls wait, no new call begins."""
_RETRY_SECONDS: Final = 1.0


class _Waiter(NamedTuple):
    turn: "asyncio.Future[None]"
    since: float


_Line = deque[_Waiter]


class AdmissionQueue:
    """Grants one slot to long calls: in turn to a new call, a message of a stream, and a preempted
    call, each of the three first in, first out.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        max_wait: float,
        refused: MutableMapping[str, int],
        unread: ByteBudget,
    ) -> None:
        """Start with the slot free.

        Args:
            clock: A monotonic clock, in seconds.
            max_wait: The target of CoDel: how many seconds a call may wait for its slot.
            refused: Counts shed calls, as `waited`, `unread` or `bytes`.
            unread: The bytes of unwritten answers; no call is admitted while the budget is spent.
        """
        self.clock = clock
        self._codel = CoDel(max_wait)
        self.unread = unread
        self.requests = ByteBudget(MAX_REQUESTS)
        """The bytes of waiting or running requests; while it is spent, calls are refused."""
        self._refused = refused
        self._is_taken = False
        self._busy_since = clock()
        self._lines: tuple[_Line, ...] = (deque(), deque(), deque())
        self._calls, self._streams, self.preempted = self._lines
        self._next = 0
        # Only one thread, even if calls are cancelled while it is working on them.
        self.thread = ThreadPoolExecutor(1, "requests")

    async def in_turn(self, request: bytes, work: Callable[[], T]) -> T:
        """Do work whose cost grows with the request, in its turn if the request is long.

        Raises Overloaded if the call is shed, and what the work raises.
        """
        if len(request) <= MAX_SHORT_REQUEST:
            return work()
        async with self.for_call(request) as slot:
            return await slot.run(request, work)

    def for_call(self, request: bytes) -> "Slot":
        """Return the slot of a call, which may be shed."""
        return Slot(self, self._calls, len(request), may_be_shed=True)

    def for_stream(self, request: bytes) -> "Slot":
        """Return the slot of a message on a stream, which is not shed: streams wait for answers."""
        return Slot(self, self._streams, len(request), may_be_shed=False)

    @property
    def has_waiters(self) -> bool:
        """Whether any call waits for the slot."""
        return any(self._lines)

    def refuse(self, bound: str, message: str) -> NoReturn:
        """Count a call as refused, and raise Overloaded."""
        self._refused[bound] += 1
        raise Overloaded(message, _RETRY_SECONDS)

    async def acquire(self, line: _Line) -> None:
        """Wait for the slot. Raises Overloaded if the call is shed."""
        if self.unread.is_spent and line is not self.preempted:
            self.refuse("unread", "too many bytes of answers are waiting to be read by callers")
        now = self.clock()
        if not self._is_taken:
            self._is_taken = True
            self._busy_since = now
            self._codel.admit(0.0, now)
            return
        turn = asyncio.get_running_loop().create_future()
        line.append(_Waiter(turn, now))
        try:
            await turn
        except asyncio.CancelledError:
            # If the slot has just been granted, pass it on.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release()
            raise

    async def pause(self) -> None:
        """Let other work run, and sleep every 10 ms: otherwise gRPC's threads get so little
        processor time that new calls wait there, where nothing sheds them, for up to 0.5 s.
        """
        if self.clock() - self._busy_since < _MAX_BUSY_SECONDS:
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(PAUSE_SECONDS)
            self._busy_since = self.clock()

    def release(self) -> None:
        """Grant the slot to the next waiter."""
        now = self.clock()
        if len(self.preempted) >= _MAX_PREEMPTED and self._grant(self.preempted, now):
            return
        for _ in self._lines:
            self._next = (self._next + 1) % len(self._lines)
            if self._grant(self._lines[self._next], now):
                return
        self._is_taken = False

    def _grant(self, line: _Line, now: float) -> bool:
        """Grant the slot to the first waiter that is neither shed nor cancelled."""
        while line:
            turn, since = line.popleft()
            if turn.done():
                continue
            if line is self._calls and not self._codel.admit(now - since, now):
                self._refused["waited"] += 1
                message = "the server has more long calls than it can answer in time"
                turn.set_exception(Overloaded(message, _RETRY_SECONDS))
                continue
            turn.set_result(None)
            return True
        return False


class Slot:
    """The slot of one call, held within `async with`."""

    def __init__(self, queue: AdmissionQueue, line: _Line, size: int, *, may_be_shed: bool) -> None:
        self._queue = queue
        self._clock = queue.clock
        self._line = line
        self._size = size
        self._may_be_shed = may_be_shed
        self._pausing = asyncio.Lock()
        self._is_held = False
        self._since = 0.0
        self._step_end = 0.0

    async def __aenter__(self) -> Self:
        """Wait for the slot. Raises Overloaded if the call is shed."""
        requests = self._queue.requests
        if requests.is_spent and self._may_be_shed:
            self._queue.refuse("bytes", "too many bytes of requests are waiting to be processed")
        requests.take(self._size)
        try:
            await self._queue.acquire(self._line)
        except BaseException:
            requests.give_back(self._size)
            raise
        self._hold()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Release the slot if it is held; after a failure, with a penalty."""
        self._queue.requests.give_back(self._size)
        if kind is not None and issubclass(kind, Exception):
            await self.penalize()
        else:
            self.release()

    async def penalize(self) -> None:
        """Release the slot of a failed call, but only after more time than the call has cost:
        callers whose calls fail at once repeat them at once, and others must get their share.
        """
        if self._is_held:
            cost = 2 * (self._clock() - self._since) + self._size * _SECONDS_PER_BYTE
            try:
                await asyncio.sleep(min(cost, _MAX_PENALTY_SECONDS))
            finally:
                self.release()

    def release(self) -> None:
        """Release the slot, which a call must not hold while it waits for something else."""
        if self._is_held:
            self._is_held = False
            self._queue.release()

    async def run(self, request: bytes, work: Callable[[], T]) -> T:
        """Do work on a request or a part of it, in a thread if that is long."""
        if len(request) <= MAX_SHORT_REQUEST:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._queue.thread, work)

    @property
    def is_due(self) -> bool:
        """Whether the call has computed for long enough, and should pause."""
        return self._clock() >= self._step_end

    async def pause_if_due(self) -> None:
        """Pause if the call has computed for long enough."""
        if self.is_due:
            # Concurrent lookups of the call pause one after another: otherwise, each of them would
            # compute for a step before others run.
            async with self._pausing:
                if self.is_due:
                    await self.pause()

    async def pause(self) -> None:
        """Let single checks be decided, and after 20 ms other long calls."""
        held_for = self._clock() - self._since
        if self._is_held and self._queue.has_waiters and held_for >= _MAX_HOLD_SECONDS:
            self.release()
            await self.reacquire()
        else:
            await self._queue.pause()
        self._step_end = self._clock() + STEP_SECONDS

    async def reacquire(self) -> None:
        """Wait for the slot again after `release`."""
        await self._queue.acquire(self._queue.preempted)
        self._hold()

    def _hold(self) -> None:
        self._is_held = True
        self._since = self._clock()
        self._step_end = self._since + STEP_SECONDS
