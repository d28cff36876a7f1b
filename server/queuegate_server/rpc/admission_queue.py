"""Long calls are worked on one after another, and refused if their turn comes too late.

Decided a part at a time, all in turn, fifty batches would each take fifty times as long.
Single questions do not stand in line: they are decided between two parts of a long call.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Final, NamedTuple, Self

from queuegate_server.load_shedding import CoDel
from queuegate_server.rpc.errors import TooMuchWork

_LONGEST: Final = 0.02
"""Seconds after which a call lets others have their turn."""
_BEGUN: Final = 4
"""While so many calls wait to go on, no other one begins."""
_ROUNDS: Final = 4
"""After so many rounds of the loop without a new call, all that had arrived have been seen."""
_MOST_ROUNDS: Final = 64
"""The most rounds that are waited for that."""
_RETRY_SECONDS: Final = 1.0
"""For how long refused callers are told to wait."""


class _InLine(NamedTuple):
    turn: "asyncio.Future[None]"
    since: float


_Line = deque[_InLine]


class AdmissionQueue:
    """Lines of long calls, which come up in rotation. Used from one event loop."""

    def __init__(
        self, clock: Callable[[], float], max_wait: float, refused: MutableMapping[str, int]
    ) -> None:
        """Take a monotonic clock in seconds, how many of them a call may stand in line, which
        `Waiting` explains, and where refused ones are counted, as `waited`.
        """
        self.clock = clock
        self._waiting = CoDel(max_wait)
        self._refused = refused
        self._is_taken = False
        self._lines: tuple[_Line, ...] = (deque(), deque(), deque())
        self._calls, self._streams, self._begun = self._lines
        self._next = 0
        self._seen = 0

    def of_call(self) -> "Slot":
        """Return the turn of a call."""
        return Slot(self, self._calls)

    def of_stream(self) -> "Slot":
        """Return the turn of a batch of a stream: its caller sends no more meanwhile."""
        return Slot(self, self._streams)

    @property
    def is_waited_for(self) -> bool:
        """Whether anybody stands in line."""
        return any(self._lines)

    async def breathe(self) -> None:
        """Let all that has come be seen: what gRPC still keeps for itself nobody can refuse.

        It hands over a call in every other round of the loop, if its own thread gets the
        processor.
        """
        quiet = 0
        for _ in range(_MOST_ROUNDS):
            seen = self._seen
            os.sched_yield()
            await asyncio.sleep(0)
            quiet = quiet + 1 if seen == self._seen else 0
            if quiet == _ROUNDS:
                return

    async def go_on(self) -> None:
        """Return when it is one's turn again."""
        await self.take(self._begun)

    async def take(self, line: _Line) -> None:
        """Return when it is one's turn. Raises TooMuchWork if that is too late for a call."""
        now = self.clock()
        if not self._is_taken:
            self._is_taken = True
            self._waiting.admit(0.0, now)
            return
        self._seen += 1
        turn = asyncio.get_running_loop().create_future()
        line.append(_InLine(turn, now))
        try:
            await turn
            await self.breathe()
        except asyncio.CancelledError:
            # A turn that has come already has to be passed on.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.end()
            raise

    def end(self) -> None:
        """Let the next one have its turn."""
        now = self.clock()
        if len(self._begun) >= _BEGUN and self._begin(self._begun, now):
            return
        for _ in self._lines:
            self._next = (self._next + 1) % len(self._lines)
            if self._begin(self._lines[self._next], now):
                return
        self._is_taken = False

    def _begin(self, line: _Line, now: float) -> bool:
        """Let the first of a line begin, if there is one that is not refused or gone."""
        while line:
            turn, since = line.popleft()
            if turn.done():
                continue
            if line is self._calls and not self._waiting.admit(now - since, now):
                self._refused["waited"] += 1
                told = "there is more work than can be done in time"
                turn.set_exception(TooMuchWork(told, _RETRY_SECONDS))
                continue
            turn.set_result(None)
            return True
        return False


class Slot:
    """The turn of one call, as a context manager."""

    __slots__ = ("_began", "_clock", "_has_begun", "_line", "_turns")

    def __init__(self, turns: AdmissionQueue, line: _Line) -> None:
        """Take the lines, and in which of them it stands."""
        self._turns = turns
        self._clock = turns.clock
        self._line = line
        self._has_begun = False
        self._began = 0.0

    async def __aenter__(self) -> Self:
        """Wait for it. Raises TooMuchWork if it comes too late."""
        await self._turns.take(self._line)
        self._has_begun = True
        self._began = self._clock()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it."""
        self.end()

    def end(self) -> None:
        """End it, if that has not been done: while it waits for others it must have none."""
        if self._has_begun:
            self._has_begun = False
            self._turns.end()

    async def pause(self) -> None:
        """Let single questions be decided; after some time also other calls."""
        if not self._turns.is_waited_for:
            await asyncio.sleep(0)
            return
        if self._clock() - self._began < _LONGEST:
            await self._turns.breathe()
            return
        self.end()
        await self.again()

    async def again(self) -> None:
        """Wait to go on after `end`."""
        await self._turns.go_on()
        self._has_begun = True
        self._began = self._clock()
