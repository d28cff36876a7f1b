"""The circuit breaker: a failing resolver is not asked for a while, instead of in every look-up."""

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import NewType

from queuegate_server.identity.resolver import CouldNotAsk, Outcome, Source

_LOG = logging.getLogger(__name__)

Permit = NewType("Permit", int)
"""Permission for one look-up. Its outcome counts only if the breaker has not changed since."""


class CircuitState(StrEnum):
    """Whether look-ups reach the resolver."""

    CLOSED = "closed"
    """They do."""
    OPEN = "open"
    """They do not."""
    HALF_OPEN = "half-open"
    """One at a time does, to find out whether the resolver is back."""


class CircuitBreaker:
    """Opens after the look-ups of several different users failed with no success between.

    Different users, because a source may fail for one broken entry again and again while it
    serves everybody else.

    Args:
        failures: After how many failures it opens.
        pause: For how many seconds it stays open.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, failures: int, pause: float, clock: Callable[[], float]) -> None:
        self._threshold = failures
        self._pause = pause
        self._clock = clock
        self._failed: set[str] = set()
        self._open_until: float | None = None
        self._probing = False
        self._changes = 0

    @property
    def state(self) -> CircuitState:
        """The state at this moment."""
        if self._open_until is None:
            return CircuitState.CLOSED
        if self._clock() < self._open_until:
            return CircuitState.OPEN
        return CircuitState.HALF_OPEN

    @property
    def refuses(self) -> bool:
        """Whether a look-up would be refused at this moment."""
        state = self.state
        return state is CircuitState.OPEN or (state is CircuitState.HALF_OPEN and self._probing)

    @property
    def remaining(self) -> float:
        """For how many more seconds the breaker stays open."""
        return max(0.0, (self._open_until or 0.0) - self._clock())

    def acquire(self) -> Permit | None:
        """Permit a look-up, or refuse it. A permit ends in one of the calls below."""
        if self.refuses:
            return None
        self._probing = self.state is CircuitState.HALF_OPEN
        return Permit(self._changes)

    def record_success(self, permit: Permit) -> None:
        """Record that the resolver answered."""
        if permit != self._changes:
            return
        self._failed.clear()
        if self._open_until is not None:
            self._change(None)

    def record_failure(self, permit: Permit, user: str) -> None:
        """Record that the resolver could not be asked."""
        if permit != self._changes:
            return
        self._failed.add(user)
        if self._open_until is not None or len(self._failed) >= self._threshold:
            self._change(self._clock() + self._pause)

    def release(self, permit: Permit) -> None:
        """Give a permit back whose look-up has no outcome."""
        if permit == self._changes:
            self._probing = False

    def _change(self, open_until: float | None) -> None:
        self._open_until = open_until
        self._probing = False
        self._failed.clear()
        self._changes += 1


class BreakerGuard:
    """Asks a source as far as a circuit breaker permits. Only CouldNotAsk is a failure."""

    def __init__(self, name: str, breaker: CircuitBreaker, source: Source) -> None:
        self._name = name
        self._breaker = breaker
        self._source = source

    async def resolve(self, user: str) -> Outcome:
        """Look up one user, or return CouldNotAsk without asking."""
        breaker = self._breaker
        permit = breaker.acquire()
        if permit is None:
            return CouldNotAsk(
                f"not asked after repeated failures, for another {breaker.remaining:.1f} s"
            )
        try:
            outcome = await self._source.resolve(user)
        except BaseException:
            breaker.release(permit)
            raise
        before = breaker.state
        if isinstance(outcome, CouldNotAsk):
            breaker.record_failure(permit, user)
        else:
            breaker.record_success(permit)
        self._log_change(before, outcome)
        return outcome

    def _log_change(self, before: CircuitState, outcome: Outcome) -> None:
        after = self._breaker.state
        if after is before:
            return
        if after is CircuitState.CLOSED:
            _LOG.warning("resolver %r answers again", self._name)
        elif isinstance(outcome, CouldNotAsk):
            _LOG.warning(
                "resolver %r keeps failing and is not asked for %.1f s: %s",
                self._name,
                self._breaker.remaining,
                outcome.detail,
            )
