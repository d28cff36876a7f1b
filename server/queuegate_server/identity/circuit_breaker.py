"""Leaves a failing resolver alone for a while instead of waiting for it in every look-up."""

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import NewType

from queuegate_server.identity.resolver import CouldNotAsk, Outcome, Source

_LOG = logging.getLogger("queuegate_server.identity")

Permit = NewType("Permit", int)
"""Leave to ask once. What comes of it counts only while the breaker has not changed since."""


class CircuitState(StrEnum):
    """Whether look-ups reach the resolver."""

    CLOSED = "closed"
    """They do."""
    OPEN = "open"
    """They do not."""
    HALF_OPEN = "half-open"
    """One at a time does, to see whether the resolver is back."""


class CircuitBreaker:
    """Opens after the look-ups of `failures` different users failed with no success between.

    Different users, because a source may fail for one broken entry again and again
    while it serves everybody else. `pause` is in seconds, the clock is monotonic.
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
        """True if a look-up would not be let through at this moment."""
        state = self.state
        return state is CircuitState.OPEN or (state is CircuitState.HALF_OPEN and self._probing)

    @property
    def remaining(self) -> float:
        """For how many seconds more no look-up will be let through."""
        return max(0.0, (self._open_until or 0.0) - self._clock())

    def admit(self) -> Permit | None:
        """Let a look-up through, or not. A permit ends in one of the calls below."""
        if self.refuses:
            return None
        self._probing = self.state is CircuitState.HALF_OPEN
        return Permit(self._changes)

    def succeeded(self, permit: Permit) -> None:
        """Note that the resolver answered."""
        if permit != self._changes:
            return
        self._failed.clear()
        if self._open_until is not None:
            self._change(None)

    def failed(self, permit: Permit, user: str) -> None:
        """Note that the resolver could not be asked."""
        if permit != self._changes:
            return
        self._failed.add(user)
        if self._open_until is not None or len(self._failed) >= self._threshold:
            self._change(self._clock() + self._pause)

    def abandoned(self, permit: Permit) -> None:
        """Note that nobody will know what came of it."""
        if permit == self._changes:
            self._probing = False

    def _change(self, open_until: float | None) -> None:
        self._open_until = open_until
        self._probing = False
        self._failed.clear()
        self._changes += 1


class CircuitBreaking:
    """Asks a source as far as a breaker lets it. Only CouldNotAsk is a failure."""

    def __init__(self, name: str, breaker: CircuitBreaker, source: Source) -> None:
        """Take the resolver's name, for people, besides the parts."""
        self._name = name
        self._breaker = breaker
        self._source = source

    async def resolve(self, user: str) -> Outcome:
        """Look up one user, or answer CouldNotAsk at once."""
        breaker = self._breaker
        permit = breaker.admit()
        if permit is None:
            return CouldNotAsk(
                f"not asked after repeated failures, for another {breaker.remaining:.1f} s"
            )
        try:
            outcome = await self._source.resolve(user)
        except BaseException:
            breaker.abandoned(permit)
            raise
        before = breaker.state
        if isinstance(outcome, CouldNotAsk):
            breaker.failed(permit, user)
        else:
            breaker.succeeded(permit)
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
                "resolver %r fails and is left alone for %.1f s: %s",
                self._name,
                self._breaker.remaining,
                outcome.detail,
            )
