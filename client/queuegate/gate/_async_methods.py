"""The methods of `queuegate.aio.Gate` that differ from a client's.

`make blocking` generates the methods of `queuegate.Gate` from this module.
"""

# ruff: noqa: ASYNC109 - timeouts are sent to the server as deadlines, unlike asyncio.timeout

from collections.abc import Iterable

from queuegate import _requests, _validation
from queuegate._methods.async_client import AsyncClientMethods
from queuegate._results import Cursor
from queuegate._types import AccessName, Check, CheckFailure, Decision
from queuegate.gate.decider import Decider
from queuegate.gate.reflector import GateState, Reflector
from queuegate.policy.decision import Access
from queuegate.policy.names import ROOT


class AsyncGateMethods(AsyncClientMethods):
    """A gate's methods. Subclasses set `_reflector` and `_decider`."""

    _reflector: Reflector
    _decider: Decider

    async def _let_others_run(self) -> None:
        """Let the event loop, if any, run other tasks, because the callback may be slow."""

    @property
    def state(self) -> GateState:
        """The gate's state. The gate decides locally while its state is LIVE."""
        return self._reflector.state

    @property
    def decided(self) -> int:
        """The number of local decisions; approximate if threads share the gate."""
        return self._decider.decided

    @property
    def resets(self) -> int:
        """The number of times the server has made the gate drop its lease and groups."""
        return self._reflector.resets

    async def check(
        self,
        user: str,
        queue: str,
        *,
        partition: str = "default",
        access: AccessName = Access.SUBMIT,
        groups: Iterable[str] | None = None,
        real_user: str = "",
        at_least: Cursor | None = None,
        timeout: float | None = None,
    ) -> Decision:
        """Check whether a user may use a queue, as `Client.check` does.

        If `at_least` is set, the check is always sent to the server.
        """
        if timeout is not None:
            _validation.seconds("timeout", timeout)
        if at_least is None:
            decision = self._decider.decide((user, queue, partition, access, groups, real_user))
            if decision is not None:
                return decision
        return await super().check(
            user,
            queue,
            partition=partition,
            access=access,
            groups=groups,
            real_user=real_user,
            at_least=at_least,
            timeout=timeout,
        )

    async def check_many(
        self, checks: Iterable[Check], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Run many checks, as `Client.check_many` does. Only checks that the gate cannot decide are
        sent to the server.
        """
        questions = _requests.questions(checks, Check)
        if timeout is not None:
            _validation.seconds("timeout", timeout)
        decide, tells = self._decider.decide, self._decider.tells
        decisions: list[Decision | None] = []
        for each in questions:
            decision = decide(
                (each.user, each.queue, each.partition, each.access, each.groups, each.real_user)
            )
            decisions.append(decision)
            if tells:
                await self._let_others_run()
        rest = [each for each, own in zip(questions, decisions, strict=True) if own is None]
        others = iter(await super().check_many(rest, timeout=timeout) if rest else ())
        return [next(others) if own is None else own for own in decisions]

    async def list_queues(
        self,
        user: str,
        *,
        partition: str = "default",
        access: AccessName = Access.SUBMIT,
        prefix: str = "",
        groups: Iterable[str] | None = None,
        real_user: str = "",
        timeout: float | None = None,
    ) -> list[str]:
        """List the full paths of the configured queues that a user may use, as `Client.list_queues`
        does.
        """
        given = _validation.optional_texts("groups", groups)
        if timeout is not None:
            _validation.seconds("timeout", timeout)
        queues = self._decider.queues((user, prefix or ROOT, partition, access, given, real_user))
        if queues is not None:
            return queues
        return await super().list_queues(
            user,
            partition=partition,
            access=access,
            prefix=prefix,
            groups=given,
            real_user=real_user,
            timeout=timeout,
        )
