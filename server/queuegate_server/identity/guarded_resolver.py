"""A resolver with its limits, and who shares it."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from queuegate_server.identity.circuit_breaker import CircuitBreaker, CircuitBreaking, CircuitState
from queuegate_server.identity.guards import Bulkhead, ExceptionContainment, Timeout
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import Immediate, Outcome, Resolver

_LOG = logging.getLogger("queuegate_server.identity")

_CLOSE_SECONDS: Final = 2.0
_REFRESHES: Final = 2
"""At most one of so many turns is for users of whom groups are known."""


class GuardedResolver:
    """A named resolver with its limits, used by the partitions that name it.

    Used from one event loop. `observe` is called with the outcome and the seconds of
    each look-up, refused ones included.
    """

    def __init__(
        self,
        name: str,
        resolver: Resolver,
        options: ResolverOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        observe: Callable[[Outcome, float], None] | None = None,
    ) -> None:
        self.name = name
        self._resolver = resolver
        self._resolve_now = resolver.resolve_now if isinstance(resolver, Immediate) else None
        self._clock = clock
        self._observe = observe
        self._breaker = CircuitBreaker(options.breaker_failures, options.breaker_pause, clock)
        self._limited = Bulkhead(
            options.max_concurrent,
            options.max_waiting,
            options.lookup_timeout,
            CircuitBreaking(
                name,
                self._breaker,
                Timeout(name, options.lookup_timeout, ExceptionContainment(name, resolver)),
            ),
            clock,
        )
        self._most_refreshes = max(1, options.max_concurrent // _REFRESHES)
        self._opening = asyncio.Lock()
        self._users = 0

    @property
    def resolver(self) -> Resolver:
        """What is behind the limits."""
        return self._resolver

    @property
    def breaker_state(self) -> CircuitState:
        """Whether look-ups reach the resolver."""
        return self._breaker.state

    @property
    def most_refreshes(self) -> int:
        """How many look-ups of users of whom groups are known may run at this moment: those of
        whom nothing is known come first, and a resolver that is left alone is asked nothing.
        """
        if self._breaker.refuses:
            return 0
        if self.waiting or self._breaker.state is CircuitState.HALF_OPEN:
            return 1
        return self._most_refreshes

    @property
    def running(self) -> int:
        """How many look-ups are under way."""
        return self._limited.running

    @property
    def waiting(self) -> int:
        """How many look-ups wait for their turn."""
        return self._limited.waiting

    async def open(self) -> None:
        """Open the resolver for the first of its users.

        Raises what the resolver raises: a fault of the set-up, not of the source.
        """
        async with self._opening:
            if self._users == 0:
                await self._resolver.open()
            self._users += 1

    async def resolve(self, user: str) -> Outcome:
        """Look up one user; never raises."""
        start = self._clock()
        outcome = await self._limited.resolve(user)
        if self._observe is not None:
            self._observe(outcome, self._clock() - start)
        return outcome

    def resolve_now(self, user: str) -> Outcome | None:
        """Look up one user if the resolver needs to ask nobody, else None."""
        if self._resolve_now is None:
            return None
        outcome = self._resolve_now(user)
        if self._observe is not None:
            self._observe(outcome, 0.0)
        return outcome

    async def close(self) -> None:
        """Close the resolver after the last of its users, within two seconds."""
        async with self._opening:
            self._users -= 1
            if self._users:
                return
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._resolver.close()
            except Exception as error:
                _LOG.error("resolver %r did not close", self.name, exc_info=error)
