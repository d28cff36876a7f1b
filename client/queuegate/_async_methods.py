"""The methods of `queuegate.aio.Client`.

Those of `queuegate.Client` are generated from them: run `make blocking` after a change.
"""

# A time limit goes to the server too, so `asyncio.timeout` does not take its place:
# ruff: noqa: ASYNC109

from collections.abc import Iterable

from queuegate import _columns, _requests, _responses
from queuegate._applications import ApplicationCheck, ApplicationExplanation
from queuegate._calls import AsyncCalls, Deadline
from queuegate._results import HealthStatus, PolicyInfo, ReloadResult, Resolution, ValidationResult
from queuegate._types import AccessName, Check, CheckFailure, Decision, Explanation
from queuegate.exceptions import QueuegateError
from queuegate.policy.decision import Access


class AsyncClientMethods:
    """The calls of a client."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls
        self._has_columns = True

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
        """Check whether a user may use a queue.

        Args:
            user: The name of the user.
            queue: The full path of the queue.
            partition: The partition of the queue.
            access: The kind of access.
            groups: The groups of the user, used as given. If empty, the server resolves them if
                the decision depends on them.
            real_user: The service that acts for the user, if any: YARN's ACLs may grant access
                to all users that it acts for.
            timeout: The time limit in seconds; None: the client's default.
        """
        request = _requests.check(Check(user, queue, partition, access, groups, real_user))
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.access.CheckQueueAccess, request, deadline)
        return _responses.decision(response)

    async def check_many(
        self, checks: Iterable[Check], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Check many questions at once and return the results in the order of the questions.

        The result of a question that could not be answered is a CheckFailure, which is falsy.
        A request carries up to 4 MiB: 10 000 questions, or 20 000 of one partition and access
        that repeat users and queues. If several requests are needed, each is answered by one
        revision of the policy; if one of them fails, its error is raised and there are no
        results. A server whose limits.max_message is below 4 MiB may reject one with
        MessageTooLarge.

        Invalid arguments are never a CheckFailure: a Check with, for example, an empty user name
        raises ValueError when it is created. If `checks` is lazy, a note on the exception names
        the index.
        """
        questions = _requests.questions(checks, Check)
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
        """Return the results of the questions that columns answer, by index.

        There are none if the server is too old for columns.
        """
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
        """Do what `check` does, and return the evaluated ACLs and the origin of the groups."""
        request = _requests.explain(Check(user, queue, partition, access, groups, real_user))
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.access.ExplainQueueAccess, request, deadline)
        return _responses.explanation(response)

    async def check_application(
        self, question: ApplicationCheck, *, timeout: float | None = None
    ) -> Decision:
        """Check whether a user may view, modify or move an application."""
        request = _requests.check_application(question)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(
            self._calls.access.CheckApplicationAccess, request, deadline
        )
        return _responses.decision(response)

    async def check_applications(
        self, checks: Iterable[ApplicationCheck], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Check many questions about applications at once, as `check_many` does about queues."""
        questions = _requests.questions(checks, ApplicationCheck)
        deadline = self._calls.deadline(timeout)
        method = self._calls.access.BatchCheckApplicationAccess
        results: list[Decision | CheckFailure] = []
        for batch in _requests.application_batches(questions):
            response = await self._calls.ask(method, batch, deadline)
            results += _responses.results(batch, response)
        return results

    async def explain_application(
        self, question: ApplicationCheck, *, timeout: float | None = None
    ) -> ApplicationExplanation:
        """Check as `check_application` does, and also return the evaluated lists."""
        request = _requests.explain_application(question)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(
            self._calls.access.ExplainApplicationAccess, request, deadline
        )
        return _responses.application_explanation(response)

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
        """List the full paths of the configured queues that a user may use, sorted.

        With a prefix, only that queue and the queues below it are listed.
        """
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
        """Resolve the groups of a user as a decision does.

        A user who does not exist, or a resolver that cannot be asked, is a result and not an
        exception.
        """
        request = _requests.resolve(user, partition, bypass_cache=bypass_cache)
        deadline = self._calls.deadline(timeout)
        method = self._calls.user_groups.ResolveUserGroups
        response = await self._calls.ask(method, request, deadline)
        return _responses.resolution(response)

    async def invalidate(
        self,
        users: Iterable[str] | None = None,
        *,
        partition: str = "default",
        timeout: float | None = None,
    ) -> int:
        """Invalidate the cached groups of some users, or of all users if `users` is None.

        Returns the number of cache entries that were dropped.
        """
        requests = _requests.invalidations(users, partition)
        deadline = self._calls.deadline(timeout)
        method = self._calls.user_groups.InvalidateUserGroups
        dropped = 0
        for request in requests:
            response = await self._calls.ask(method, request, deadline)
            dropped += response.dropped
        return dropped

    async def policy(
        self, partition: str = "default", prefix: str = "", *, timeout: float | None = None
    ) -> PolicyInfo:
        """Return the policy of a partition.

        With a prefix, it contains only that queue and the queues below it.
        """
        request = _requests.policy(partition, prefix)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.GetPolicy, request, deadline)
        return _responses.policy(response)

    async def reload(self, *, timeout: float = 30.0) -> ReloadResult:
        """Reload the configuration of the server. An invalid one changes nothing.

        A large configuration takes seconds, so the default time limit is longer.
        """
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
        """Validate a configuration without serving it.

        The format is `yunikorn`, `fair-scheduler` or `capacity-scheduler`, or for the files
        beside a policy `yarn-site` or `spark-defaults`. If it is empty, the server detects it.
        """
        request = _requests.validation(content, format)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.ValidatePolicy, request, deadline)
        return _responses.validation(response)

    async def health(self, service: str = "", *, timeout: float | None = None) -> HealthStatus:
        """Return the health of the server, or of one of its services by full name.

        The call is not retried: a probe reports the current state.
        """
        request = _requests.health(service)
        deadline = self._calls.deadline(timeout)
        try:
            response = await self._calls.ask(self._calls.health, request, deadline)
        except QueuegateError as error:
            if error.code == "NOT_FOUND":
                return HealthStatus.SERVICE_UNKNOWN
            raise
        return _responses.health(response)
