"""What a look-up may cost: its time, how many run at once, and that it never raises."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser, Outcome, Source

_LOG = logging.getLogger("queuegate_server.identity")

_BURST: Final = 1 / 8
"""A line that has not been empty for this part of the patience is no burst. From then on, a
look-up is refused if it would wait for longer than this part, and than `_LOOK_UPS` take."""
_LOOK_UPS: Final = 3
_NEWEST: Final = 1 / 64
"""The weight of the newest look-up in the time that they take."""


class ExceptionContainment:
    """Turns whatever a source raises into CouldNotAsk, which names the type and no more."""

    def __init__(self, name: str, source: Source) -> None:
        """Take the resolver's name, for the log, besides the source."""
        self._name = name
        self._source = source

    async def resolve(self, user: str) -> Outcome:
        """Look up one user."""
        try:
            outcome: object = await self._source.resolve(user)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Something inside the source was cancelled, not this look-up.
            return self._fault(user, error)
        except Exception as error:
            return self._fault(user, error)
        if isinstance(outcome, Found | NoSuchUser):
            return outcome
        if isinstance(outcome, CouldNotAsk):
            _LOG.warning(
                "resolver %r could not be asked for %r: %s", self._name, user, outcome.detail
            )
            return outcome
        _LOG.error("resolver %r answered %s for %r", self._name, type(outcome).__name__, user)
        return CouldNotAsk("the resolver's answer is no outcome")

    def _fault(self, user: str, error: BaseException) -> CouldNotAsk:
        _LOG.error("resolver %r failed for %r", self._name, user, exc_info=error)
        return CouldNotAsk(f"the resolver failed: {type(error).__name__}")


class Timeout:
    """Gives up on a look-up after some seconds of the event loop's clock."""

    def __init__(self, name: str, seconds: float, source: Source) -> None:
        """Take the resolver's name, for the log, besides limit and source."""
        self._name = name
        self._seconds = seconds
        self._source = source

    async def resolve(self, user: str) -> Outcome:
        """Look up one user. The source must let itself be cancelled."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._source.resolve(user)
        except TimeoutError:
            detail = f"no answer within {self._seconds:g} s"
            _LOG.warning("resolver %r gave %r %s", self._name, user, detail)
            return CouldNotAsk(detail)


class Bulkhead:
    """Runs `running` look-ups at once; `waiting` more may stand in line for `patience` seconds.

    The line is there so that a burst of new users (a batch after a start) is served and
    not refused; it is bounded so that a slow source makes callers fail fast, not pile up.
    When it has not been empty for a while, more is asked for than the source can answer: then
    it is kept short.
    """

    def __init__(
        self,
        running: int,
        waiting: int,
        patience: float,
        source: Source,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turns = asyncio.Semaphore(running)
        self._limit = waiting
        self._waiting = 0
        self._running = 0
        self._most = running
        self._patience = patience
        self._source = source
        self._clock = clock
        self._stands_since = 0.0
        self._seconds = 0.0
        """What a look-up takes, on average."""

    @property
    def running(self) -> int:
        """How many look-ups are under way."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many look-ups wait for their turn."""
        return self._waiting

    async def resolve(self, user: str) -> Outcome:
        """Look up one user, or answer CouldNotAsk if there are too many look-ups."""
        if self._turns.locked():
            if self._waiting >= self._limit or self._is_too_long():
                return CouldNotAsk("too many look-ups", too_many=True)
            if not await self._turn_comes():
                told = f"too many look-ups: no turn within {self._patience:g} s"
                return CouldNotAsk(told, too_many=True)
        else:
            await self._turns.acquire()
        self._running += 1
        begin = self._clock()
        try:
            return await self._source.resolve(user)
        finally:
            self._running -= 1
            seconds = self._clock() - begin
            self._seconds += (seconds - self._seconds) * (_NEWEST if self._seconds else 1)
            self._turns.release()

    def _is_too_long(self) -> bool:
        """Say whether too many stand in line for another one."""
        if not self._waiting or self._clock() - self._stands_since < self._patience * _BURST:
            return False
        wait = self._waiting / self._most * self._seconds
        return wait > max(self._patience * _BURST, _LOOK_UPS * self._seconds)

    async def _turn_comes(self) -> bool:
        if not self._waiting:
            self._stands_since = self._clock()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience):
                await self._turns.acquire()
        except TimeoutError:
            return False
        else:
            return True
        finally:
            self._waiting -= 1
