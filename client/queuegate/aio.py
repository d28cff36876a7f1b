"""The client for asyncio: `queuegate.aio.Client`."""

# A time limit goes to the server too, so `asyncio.timeout` does not take its place:
# ruff: noqa: ASYNC109

from collections.abc import Iterable
from typing import Final, Self

from queuegate import _application_messages, _channel, _columns, _health, _requests, _responses
from queuegate._applications import ApplicationCheck, ApplicationExplanation
from queuegate._calls import AsyncCalls
from queuegate._deadline import Deadline
from queuegate._settings import DEFAULT_RETRY, FilePath, Retry, Tls
from queuegate._state import HealthStatus, PolicyInfo, ReloadResult, Resolution, ValidationResult
from queuegate._types import Access, AccessName, Check, CheckFailure, Decision, Explanation
from queuegate.exceptions import QueuegateError

__all__ = ["Client"]


class Client:
    """Asks a queuegate server, with the methods of `queuegate.Client` to await.

    Belongs to the event loop in which it is made. Any number of tasks may share one
    client, and should: all its calls go over one connection. A cancelled task cancels
    its call. Close a client after use, or use it in an `async with` statement.

    Every call raises a subclass of `QueuegateError` if there is no answer, and
    TypeError or ValueError for arguments that cannot be right. `timeout` is the limit
    in seconds for the whole call, retries and further pages included.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = 1.0,
        tls: Tls | None = None,
        token_file: FilePath | None = None,
        retry: Retry = DEFAULT_RETRY,
    ) -> None:
        """Take the arguments of `queuegate.Client`. Reads its files at once.

        Raises RuntimeError outside a running event loop.
        """
        plan = _channel.plan(address, timeout, tls, retry, token_file)
        self.address: Final = plan.address.text
        self._calls = AsyncCalls(plan)
        self._has_columns = True

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}({self.address!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection, see `queuegate.Client.close`."""
        await self._calls.close()

    async def check(
        self,
        user: str,
        queue: str,
        *,
        partition: str = "default",
        access: AccessName = Access.SUBMIT,
        groups: Iterable[str] = (),
        real_user: str = "",
        timeout: float | None = None,
    ) -> Decision:
        """Ask whether a user may use a queue, see `queuegate.Client.check`."""
        request = _requests.check(Check(user, queue, partition, access, groups, real_user))
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.access.CheckQueueAccess, request, deadline)
        return _responses.decision(response)

    async def check_many(
        self, checks: Iterable[Check], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Ask many questions at once, see `queuegate.Client.check_many`."""
        questions = _requests.questions(checks)
        deadline = self._calls.deadline(timeout)
        found = await self._check_columns(questions, deadline)
        method = self._calls.access.BatchCheckQueueAccess
        for places, batch in _requests.batches(questions, found):
            response = await self._calls.ask(method, batch, deadline)
            found.update(zip(places, _responses.results(batch, response), strict=True))
        return [found[place] for place in range(len(questions))]

    async def _check_columns(
        self, questions: list[Check], deadline: Deadline
    ) -> dict[int, Decision | CheckFailure]:
        """Return results by place, where columns pay; none if an older server has no columns."""
        method = self._calls.access.CheckQueueAccessColumns
        found: dict[int, Decision | CheckFailure] = {}
        try:
            for places, request in _columns.requests(questions) if self._has_columns else ():
                response = await self._calls.ask(method, request, deadline)
                found.update(zip(places, _columns.results(request, response), strict=True))
        except QueuegateError as error:
            if error.code != "UNIMPLEMENTED":
                raise
            self._has_columns = False
            return {}
        return found

    async def explain(
        self,
        user: str,
        queue: str,
        *,
        partition: str = "default",
        access: AccessName = Access.SUBMIT,
        groups: Iterable[str] = (),
        real_user: str = "",
        timeout: float | None = None,
    ) -> Explanation:
        """Ask for a decision and how it came about, see `queuegate.Client.explain`."""
        request = _requests.explain(Check(user, queue, partition, access, groups, real_user))
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.access.ExplainQueueAccess, request, deadline)
        return _responses.explanation(response)

    async def check_application(
        self, question: ApplicationCheck, *, timeout: float | None = None
    ) -> Decision:
        """Ask whether a user may see, change or move an application, see `queuegate.Client`."""
        request = _application_messages.check(question)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(
            self._calls.access.CheckApplicationAccess, request, deadline
        )
        return _responses.decision(response)

    async def check_applications(
        self, checks: Iterable[ApplicationCheck], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Ask many questions about applications; as `check_many` does about queues."""
        questions = list(checks)
        deadline = self._calls.deadline(timeout)
        method = self._calls.access.BatchCheckApplicationAccess
        results: list[Decision | CheckFailure] = []
        for batch in _application_messages.batches(questions):
            response = await self._calls.ask(method, batch, deadline)
            results += _responses.results(batch, response)
        return results

    async def explain_application(
        self, question: ApplicationCheck, *, timeout: float | None = None
    ) -> ApplicationExplanation:
        """Ask as `check_application` does, and for each list that was looked at."""
        request = _application_messages.explain(question)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(
            self._calls.access.ExplainApplicationAccess, request, deadline
        )
        return _application_messages.explanation(response)

    async def queues(
        self,
        user: str,
        *,
        partition: str = "default",
        access: AccessName = Access.SUBMIT,
        prefix: str = "",
        groups: Iterable[str] = (),
        real_user: str = "",
        timeout: float | None = None,
    ) -> list[str]:
        """List the queues that a user may use, see `queuegate.Client.queues`."""
        request = _requests.listing(user, partition, access, prefix, groups, real_user=real_user)
        deadline = self._calls.deadline(timeout)
        queues: list[str] = []
        while True:
            response = await self._calls.ask(self._calls.access.ListQueues, request, deadline)
            queues += response.queues
            following = _responses.next_page(request, response)
            if following is None:
                return queues
            request = following

    async def resolve(
        self,
        user: str,
        *,
        partition: str = "default",
        bypass_cache: bool = False,
        timeout: float | None = None,
    ) -> Resolution:
        """Ask for the groups of a user, see `queuegate.Client.resolve`."""
        request = _requests.resolve(user, partition, bypass_cache=bypass_cache)
        deadline = self._calls.deadline(timeout)
        method = self._calls.user_groups.ResolveUserGroups
        return _responses.resolution(await self._calls.ask(method, request, deadline))

    async def invalidate(
        self,
        users: Iterable[str] | None = None,
        *,
        partition: str = "default",
        timeout: float | None = None,
    ) -> int:
        """Make the server forget groups, see `queuegate.Client.invalidate`."""
        requests = _requests.invalidations(users, partition)
        deadline = self._calls.deadline(timeout)
        method = self._calls.user_groups.InvalidateUserGroups
        return sum(
            [(await self._calls.ask(method, request, deadline)).dropped for request in requests]
        )

    async def policy(
        self, partition: str = "default", prefix: str = "", *, timeout: float | None = None
    ) -> PolicyInfo:
        """Ask for the policy that is being served, see `queuegate.Client.policy`."""
        request = _requests.policy(partition, prefix)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.GetPolicy, request, deadline)
        return _responses.policy(response)

    async def reload(self, *, timeout: float = 30.0) -> ReloadResult:
        """Make the server read its configuration again, see `queuegate.Client.reload`."""
        request = _requests.reload()
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.ReloadPolicy, request, deadline)
        return _responses.reload_result(response)

    async def validate(
        self,
        content: str,
        format: str = "",  # noqa: A002 - the name that the contract gives it
        *,
        timeout: float = 30.0,
    ) -> ValidationResult:
        """Ask for the findings in a configuration, see `queuegate.Client.validate`."""
        request = _requests.validation(content, format)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.ValidatePolicy, request, deadline)
        return _responses.validation(response)

    async def health(self, service: str = "", *, timeout: float | None = None) -> HealthStatus:
        """Ask whether the server is serving, see `queuegate.Client.health`."""
        request = _health.request(service)
        deadline = self._calls.deadline(timeout)
        try:
            response = await self._calls.ask(self._calls.health, request, deadline)
        except QueuegateError as error:
            if error.code == _health.SERVICE_UNKNOWN_CODE:
                return HealthStatus.SERVICE_UNKNOWN
            raise
        return _health.status(response)
