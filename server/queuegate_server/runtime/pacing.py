"""Schedules work on the event loop: long work in steps, and periodic work on a common beat.

Steps take milliseconds, and calls are served in the pauses between them. gRPC delivers one call at
a time, its threads may share the core, and each delivery takes several iterations of the event
loop. Therefore a pause is at least as long as the step before it.

- `Pace` is for one piece of work that only computes, such as a reload.
- `run_with_pauses` does such work if it is a generator.
- `turn_with_pause` is for pieces of work that arrive on many connections, each of which is short.
- `ANSWERS` and `in_steps` are for answers from directories and identity providers, which arrive on
many connections: all of them pause together, for longer.
- `next_beat` and `beats` are for work every few seconds: an idle process wakes up once for all of
it.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Generator, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

FIRST_STEP_SECONDS: Final = 0.0005
"""How long work that only computes may take before its first pause. Much of it arrives at once, and
a call waits for all first steps: those of 40 reviews that took 1 ms each kept it for 70 ms."""
FREE_SECONDS: Final = 0.001
"""How long work on an answer may take before its first pause. Typical work takes less."""
STEP_SECONDS: Final = 0.002
"""The duration of each further step."""
CALL_STEP_SECONDS: Final = 0.0005
"""How long one step of a long call may take. Single checks wait for the step."""
PAUSE_SECONDS: Final = 0.001
"""The shortest pause. After `sleep(0)`, the next step would start before gRPC's threads could
deliver a call."""
_MAX_PAUSE_SECONDS: Final = 0.1
_ANSWERS_PAUSE_FACTOR: Final = 2
"""The pause after a step on an answer, as a multiple of the step."""
_SHORT_SECONDS: Final = 0.0003
"""No pause follows a shorter step on an answer. Most steps are shorter."""

BEAT_SECONDS: Final = 5.0


async def pause() -> None:
    """Let other work run."""
    await asyncio.sleep(PAUSE_SECONDS)


class Pace:
    """The steps of one piece of work, which takes at most about half of the event loop's time.

    The first step begins when the object is created, and each later one after a pause.
    """

    __slots__ = ("_began", "_seconds")

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._seconds = FIRST_STEP_SECONDS

    @property
    def is_due(self) -> bool:
        """Whether the current step has taken its time."""
        return time.perf_counter() - self._began >= self._seconds

    async def pause(self) -> None:
        """Pause for as long as the step has taken, and begin the next one."""
        worked = time.perf_counter() - self._began
        await asyncio.sleep(min(max(PAUSE_SECONDS, worked), _MAX_PAUSE_SECONDS))
        self._began, self._seconds = time.perf_counter(), STEP_SECONDS

    async def pause_if_due(self) -> None:
        """Pause if the current step has taken its time."""
        if self.is_due:
            await self.pause()


async def run_with_pauses(steps: Generator[None, None, T], turn: asyncio.Lock | None = None) -> T:
    """Run work in steps, and return its result. Short work has one step, and is done at once.

    Args:
        steps: The work, which may pause wherever it yields.
        turn: The lock to hold after the first step, so that only one such work runs at a time.
    """
    pace = Pace()
    try:
        while not pace.is_due:
            next(steps)
        async with turn or contextlib.nullcontext():
            while True:
                await pace.pause()
                while not pace.is_due:
                    next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


@contextlib.asynccontextmanager
async def turn_with_pause(turn: asyncio.Lock, wait_seconds: float) -> AsyncIterator[None]:
    """Hold a turn for the block, and for a pause of the same length after it.

    The pause delays only the next block. Without it, each of many connections would have a turn in
    the same iteration of the event loop. Raises TimeoutError after `wait_seconds` without a turn.
    """
    async with asyncio.timeout(wait_seconds):
        await turn.acquire()
    began = time.perf_counter()
    try:
        yield
    finally:
        worked = time.perf_counter() - began
        seconds = min(max(PAUSE_SECONDS, worked), _MAX_PAUSE_SECONDS)
        asyncio.get_running_loop().call_later(seconds, turn.release)


class Pacer:
    """The budget shared by all work on answers: determines when the next step may start."""

    def __init__(self) -> None:
        self._free_at = 0.0

    def wait(self, worked: float = 0.0) -> float:
        """Record a step of `worked` seconds; return the seconds to wait before the next step."""
        now = time.monotonic()
        if worked > _SHORT_SECONDS:
            self._free_at = min(
                max(self._free_at, now) + worked * _ANSWERS_PAUSE_FACTOR, now + _MAX_PAUSE_SECONDS
            )
        return max(0.0, self._free_at - now)

    async def take_turn(self) -> None:
        """Wait until the next step may start."""
        while (seconds := self.wait()) > 0:  # noqa: ASYNC110 - waits for a time
            await asyncio.sleep(seconds)


ANSWERS: Final = Pacer()


@dataclass(slots=True, eq=False)
class Turn:
    """A turn to work on a long answer from one connection."""

    _lock: asyncio.Lock
    """The connection's lock."""
    _is_taken: bool = False

    async def take(self) -> None:
        """Wait until earlier turns have ended, unless this one has begun already."""
        if not self._is_taken:
            await self._lock.acquire()
            self._is_taken = True

    def end(self) -> None:
        """Let the next turn begin."""
        if self._is_taken:
            self._is_taken = False
            self._lock.release()


async def in_steps(items: Iterable[T], turn: Turn | None = None) -> AsyncIterator[T]:
    """Yield items of an answer, with a pause after each step.

    Args:
        items: The items.
        turn: Taken before the first pause, and ended after the last item.
    """
    start = time.monotonic()
    end = start + FREE_SECONDS
    for item in items:
        if (now := time.monotonic()) > end:
            ANSWERS.wait(now - start)
            if turn is not None:
                await turn.take()
            await ANSWERS.take_turn()
            start = time.monotonic()
            end = start + STEP_SECONDS
        yield item
    if turn is not None:
        turn.end()


def next_beat(seconds: float = BEAT_SECONDS) -> float:
    """Return the time of the next beat on the event loop's clock: a multiple of `seconds`."""
    return (math.floor(asyncio.get_running_loop().time() / seconds) + 1) * seconds


async def beats(seconds: float = BEAT_SECONDS) -> AsyncIterator[None]:
    """Yield at each beat."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(next_beat(seconds) - loop.time())
        yield
