"""What stands before a call: who makes it, and may they?"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from queuegate_server.rpc.access_log import AccessLog
from queuegate_server.rpc.authentication import Authenticator, Context, Principal
from queuegate_server.rpc.current_caller import CALLER
from queuegate_server.rpc.errors import Draining
from queuegate_server.rpc.interceptors import AtOnce, Stream, Unary, nothing_at_once
from queuegate_server.rpc.rate_limit import RateLimiter
from queuegate_server.rpc.roles import ROLES
from queuegate_server.settings.callers import Role

Served = TypeVar("Served", AtOnce, Unary)


class Authorizer:
    """Lets calls through to one of two handlers of a method: the first uses the groups that
    a request asserts, the second ignores them.

    Where every call would be decided alike it decides once, until callers change. Used from one
    event loop.
    """

    def __init__(
        self, callers: Authenticator, rates: RateLimiter | None = None, *, always: bool = False
    ) -> None:
        """Take who is known, and the rates if there are any. `always` identifies each call,
        so that CALLER names its caller.
        """
        self._callers = callers
        self._rates = rates
        self._always = always
        self._choosing: list[Callable[[], None]] = []

    def at_once(self, method: str, believing: AtOnce, doubting: AtOnce) -> AtOnce:
        """Guard what answers without waiting: the one that serves every caller answers, or
        none if calls have to be told apart, or if the only caller is over its rate. Raises
        KeyError for a method without a role.
        """
        role = ROLES[method]
        chosen: AtOnce = nothing_at_once

        def choose() -> None:
            nonlocal chosen
            chosen = self._alike(role, believing, doubting) or nothing_at_once
            if self._rates is not None:
                caller = self._callers.the_only_one
                chosen = _counted(chosen, caller.name, self._rates) if caller else nothing_at_once

        def guarded(data: bytes) -> bytes | None:
            return chosen(data)

        self._choose(choose)
        return guarded

    def unary(self, method: str, believing: Unary, doubting: Unary) -> Unary:
        """Guard a single call. Raises KeyError for a method without a role."""
        role = ROLES[method]
        alike: Unary | None = None

        def choose() -> None:
            nonlocal alike
            alike = None if self._rates else self._alike(role, believing, doubting)

        async def guarded(data: bytes, context: Context) -> bytes:
            if alike is not None:
                return await alike(data, context)
            caller = self._admitted(role, context)
            if self._rates is not None:
                self._rates.count(caller.name)
            if role is Role.ADMIN:
                AccessLog(method, context).tell("admin call")
            handler = believing if caller.rights.assert_groups else doubting
            return await handler(data, context)

        self._choose(choose)
        return guarded

    def stream(self, method: str, believing: Stream, doubting: Stream) -> Stream:
        """Guard a stream. One over its rate is not ended, but read from more slowly; one whose
        caller has lost the role, or other rights, or shown a certificate that has expired by
        then, ends with its next message.
        """
        role = ROLES[method]

        async def guarded(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            version = self._callers.version
            caller = self._admitted(role, context)
            expiry = self._callers.expiry(context)
            handler = believing if caller.rights.assert_groups else doubting
            if self._rates is not None:
                requests = _paced(requests, caller.name, self._rates)

            def admits() -> None:
                nonlocal version
                if version != self._callers.version or self._callers.is_past(expiry):
                    version = self._callers.version
                    if self._admitted(role, context) != caller:
                        raise Draining("the rights of the caller have changed; ask anew")

            requests = _while_admitted(requests, admits)
            async for response in handler(requests, context):
                yield response

        return guarded

    def callers_changed(self) -> None:
        """Decide anew where every call is decided alike."""
        for choose in self._choosing:
            choose()

    async def admit_or_abort(self, method: str, role: Role, context: Context) -> None:
        """Guard a handler whose errors nobody else turns into a status."""
        try:
            self._admitted(role, context)
        except Exception as error:  # the boundary: every fault becomes a status
            await AccessLog(method, context).fail(error)

    def _choose(self, choose: Callable[[], None]) -> None:
        choose()
        self._choosing.append(choose)

    def _alike(self, role: Role, believing: Served, doubting: Served) -> Served | None:
        """Return which of the two serves every call; None if it depends on the caller."""
        # Who administers is logged.
        each = self._always or role is Role.ADMIN
        anybody = None if each else self._callers.the_same_for_all(role)
        if anybody is None or role not in anybody.rights.roles:
            return None
        return believing if anybody.rights.assert_groups else doubting

    def _admitted(self, role: Role, context: Context) -> Principal:
        """Return who calls, named in CALLER, and has the role.

        Raises CallerUnknown and CallerNotPermitted.
        """
        caller = self._callers.identify(context)
        CALLER.set(caller.name)
        caller.require(role)
        return caller


def _counted(at_once: AtOnce, caller: str, rates: RateLimiter) -> AtOnce:
    """Count what is answered; what is not, and what is one call too many, is left to the
    handler that may wait, which counts for itself.
    """

    def counted(data: bytes) -> bytes | None:
        if rates.wait(caller) > 0:
            return None
        response = at_once(data)
        if response is not None:
            rates.charge(caller)
        return response

    return counted


async def _while_admitted(
    requests: AsyncIterator[bytes], admits: Callable[[], None]
) -> AsyncIterator[bytes]:
    """Hand on what a stream brings until `admits` raises: what comes then is not answered."""
    async for request in requests:
        admits()
        yield request


async def _paced(
    requests: AsyncIterator[bytes], caller: str, rates: RateLimiter
) -> AsyncIterator[bytes]:
    # The wait comes first: what was read is never dropped when the server drains.
    while True:
        await asyncio.sleep(rates.wait(caller))
        try:
            request = await anext(requests)
        except StopAsyncIteration:
            return
        rates.charge(caller)
        yield request
