"""Admits long calls one at a time, and sheds calls that would wait too long.

Interleaving fifty batches chunk by chunk would make each take fifty times longer. Single checks do
not queue; they are decided between the chunks of a long call.
"""

import asyncio
from collections import deque
from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple, NoReturn, Self, TypeVar

from google.protobuf.message import Message

from queuegate_server.config_fields import MIB
from queuegate_server.rpc import wire
from queuegate_server.rpc.errors import Overloaded
from queuegate_server.rpc.wire import MAX_SHORT_REQUEST
from queuegate_server.runtime.pacing import CALL_STEP_SECONDS, pause
from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.throttling.controlled_delay import CoDel

M = TypeVar("M", bound=Message)
T = TypeVar("T")

_MAX_HOLD_SECONDS: Final = 0.02
"""How long a call may compute before yielding the slot to other long calls."""
_MAX_PENALTY_SECONDS: Final = 0.1
"""The maximum delay before a failed call releases the slot."""
MAX_REQUESTS: Final = 64 * MIB
"""Long calls are refused while waiting and running requests total this many bytes or more."""
_SECONDS_PER_BYTE: Final = 5e-9
"""An upper bound on gRPC's cost of receiving and unpacking one byte of a request."""
_MAX_BUSY_SECONDS: Final = 0.01
"""Once calls have computed for this long in total, the next `pause` sleeps."""
_MAX_PREEMPTED: Final = 4
"""While this many preempted calls wait, no new call is admitted."""
_RETRY_SECONDS: Final = 1.0


class _Waiter(NamedTuple):
    turn: "asyncio.Future[None]"
    since: float


_Line = deque[_Waiter]


class LongCallQueue:
    """Grants the slot to one long call at a time.

    New calls, stream messages and preempted calls take turns.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        max_wait: float,
        refused: MutableMapping[str, int],
        unread: ByteBudget,
    ) -> None:
        """Create a queue with a free slot.

        Args:
            clock: A monotonic clock, in seconds.
            max_wait: CoDel's target for how long calls wait for the slot, in seconds.
            refused: Counters of shed calls by exceeded limit: `waited`, `unread` or `bytes`.
            unread: The budget for unread response bytes; calls are refused while it is spent.
        """
        self.clock = clock
        self._codel = CoDel(max_wait)
        self.unread = unread
        self.requests = ByteBudget(MAX_REQUESTS)
        """The byte budget for waiting and running requests; calls are refused while it is spent."""
        self._refused = refused
        self._is_taken = False
        self._busy_since = clock()
        self._lines: tuple[_Line, ...] = (deque(), deque(), deque())
        self._calls, self._streams, self.preempted = self._lines
        self._next = 0
        # Use one thread, because work that outlives a cancelled call must not run in parallel.
        self.thread = ThreadPoolExecutor(1, "requests")

    async def in_turn(self, request: bytes, work: Callable[[], T]) -> T:
        """Run `work`, after waiting for the slot if the request is long. Raises Overloaded."""
        if len(request) <= MAX_SHORT_REQUEST:
            return work()
        async with self.for_call(request) as slot:
            return await slot.run(request, work)

    async def parse(self, message: type[M], request: bytes) -> M:
        """Parse a request, after waiting for the slot if the request is long. Raises Overloaded."""
        return await self.in_turn(request, partial(wire.parse, message, request))

    def for_call(self, request: bytes) -> "Slot":
        """Return a slot for a call. The call may be shed while it waits."""
        return Slot(self, self._calls, len(request), may_be_shed=True)

    def for_stream(self, request: bytes) -> "Slot":
        """Return a slot for a stream message. Such messages are never shed."""
        return Slot(self, self._streams, len(request), may_be_shed=False)

    @property
    def has_waiters(self) -> bool:
        """Whether any call is waiting for the slot."""
        return any(self._lines)

    def refuse(self, bound: str, message: str) -> NoReturn:
        """Count a refused call and raise Overloaded."""
        self._refused[bound] += 1
        raise Overloaded(message, _RETRY_SECONDS)

    async def acquire(self, line: _Line) -> None:
        """Wait for the slot. Raises Overloaded if the call is shed."""
        if self.unread.is_spent and line is not self.preempted:
            self.refuse("unread", "too many bytes of responses are waiting to be read by callers")
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
            # The slot may have been granted just before the cancellation. If so, pass it on.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release()
            raise

    async def pause(self) -> None:
        """Yield to other work; every 10 ms, sleep briefly.

        Without the sleep, gRPC's threads get so little CPU time that new calls wait for up to 0.5 s
        inside gRPC, where they cannot be shed.
        """
        if self.clock() - self._busy_since < _MAX_BUSY_SECONDS:
            await asyncio.sleep(0)
        else:
            await pause()
            self._busy_since = self.clock()

    def release(self) -> None:
        """Grant the slot to the next waiter, or mark the slot as free if there is none."""
        now = self.clock()
        if len(self.preempted) >= _MAX_PREEMPTED and self._grant(self.preempted, now):
            return
        for _ in self._lines:
            self._next = (self._next + 1) % len(self._lines)
            if self._grant(self._lines[self._next], now):
                return
        self._is_taken = False

    def _grant(self, line: _Line, now: float) -> bool:
        """Grant the slot to the first waiter not shed or cancelled; return whether one exists."""
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
    """One call's use of the queue's slot. `async with` acquires and releases it."""

    def __init__(self, queue: LongCallQueue, line: _Line, size: int, *, may_be_shed: bool) -> None:
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
        """Release the slot if it is held, after a delay if the call failed."""
        self._queue.requests.give_back(self._size)
        if kind is not None and issubclass(kind, Exception):
            await self.penalize()
        else:
            self.release()

    async def penalize(self) -> None:
        """After a failed call, hold its slot for longer than the call took.

        Otherwise, a caller that fails quickly and retries immediately would starve others.
        """
        if self._is_held:
            cost = 2 * (self._clock() - self._since) + self._size * _SECONDS_PER_BYTE
            try:
                await asyncio.sleep(min(cost, _MAX_PENALTY_SECONDS))
            finally:
                self.release()

    def release(self) -> None:
        """Release the slot. A call must not hold it while waiting for anything else."""
        if self._is_held:
            self._is_held = False
            self._queue.release()

    async def run(self, request: bytes, work: Callable[[], T]) -> T:
        """Run `work`, in a thread if the request or batch item is long."""
        if len(request) <= MAX_SHORT_REQUEST:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._queue.thread, work)

    async def parse(self, message: type[M], request: bytes) -> M:
        """Parse a request, in a thread if it is long."""
        return await self.run(request, partial(wire.parse, message, request))

    @property
    def is_due(self) -> bool:
        """Whether the call has been computing for so long that it must pause."""
        return self._clock() >= self._step_end

    async def pause_if_due(self) -> None:
        """Pause if `is_due`."""
        if self.is_due:
            # A call's concurrent lookups pause one at a time; otherwise, each would compute for a
            # full step before other work runs.
            async with self._pausing:
                if self.is_due:
                    await self.pause()

    async def pause(self) -> None:
        """Yield to single checks and, after 20 ms, to other long calls."""
        held_for = self._clock() - self._since
        if self._is_held and self._queue.has_waiters and held_for >= _MAX_HOLD_SECONDS:
            self.release()
            await self.reacquire()
        else:
            await self._queue.pause()
        self._step_end = self._clock() + CALL_STEP_SECONDS

    async def reacquire(self) -> None:
        """Wait for the slot again after `release`."""
        await self._queue.acquire(self._queue.preempted)
        self._hold()

    def _hold(self) -> None:
        self._is_held = True
        self._since = self._clock()
        self._step_end = self._since + CALL_STEP_SECONDS
