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
from queuegate._types import Access, AccessName, Check, CheckFailure, Decision, Explanation
from queuegate.exceptions import QueuegateError


class AsyncClientMethods:
    """What a server can be asked; a client adds how it connects."""

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
        """Ask whether a user may use a queue, given by its full path.

        Groups, if any are given, are used as they are. Without any the server resolves
        them, if the answer depends on them. `real_user` is the service that acts for the
        user, if one does: YARN's ACLs may let in whoever it acts for.
        """
        request = _requests.check(Check(user, queue, partition, access, groups, real_user))
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.access.CheckQueueAccess, request, deadline)
        return _responses.decision(response)

    async def check_many(
        self, checks: Iterable[Check], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Ask many questions at once; the results are in the order of the questions.

        A question that could not be answered has a CheckFailure in its place, which is
        false in a condition; the others have their answers. A request carries up to 4 MiB:
        10 000 questions, or 20 000 of one partition and access that repeat users and queues.
        If it takes several, each is answered by one revision of the policy; if one of them
        fails, its error is raised and there are no results. A server with a smaller
        limits.max_message than 4 MiB may refuse one with MessageTooLarge.

        Wrong arguments are a fault of the program and never a CheckFailure: a Check with,
        for example, an empty user name raises ValueError when it is made, before anything
        is asked. If `checks` makes them as it goes, a note on the error names the index.
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
        """Ask as `check` does, and for each evaluated ACL and the origin of the groups."""
        request = _requests.explain(Check(user, queue, partition, access, groups, real_user))
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.access.ExplainQueueAccess, request, deadline)
        return _responses.explanation(response)

    async def check_application(
        self, question: ApplicationCheck, *, timeout: float | None = None
    ) -> Decision:
        """Ask whether a user may see, change or move an application."""
        request = _requests.check_application(question)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(
            self._calls.access.CheckApplicationAccess, request, deadline
        )
        return _responses.decision(response)

    async def check_applications(
        self, checks: Iterable[ApplicationCheck], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Ask many questions about applications; as `check_many` does about queues."""
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
        """Ask as `check_application` does, and for each list that was looked at."""
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
        """List the configured queues (full paths, sorted) that a user may use.

        With a prefix only that queue and those below it.
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
        """Ask for the groups of a user as a decision would see them. That there is no
        such user, or that the resolver cannot be asked, is an answer here.
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
        """Make the server forget the groups of users; of all users without that argument, and
        of nobody if it is empty.

        Returns how many cached answers were dropped.
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
        """Ask for the policy that is being served, with a prefix only for that queue and
        those below it.
        """
        request = _requests.policy(partition, prefix)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.GetPolicy, request, deadline)
        return _responses.policy(response)

    async def reload(self, *, timeout: float = 30.0) -> ReloadResult:
        """Make the server read its configuration again. A faulty one changes nothing.

        A large configuration takes seconds, hence the longer time limit.
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
        """Ask for the findings in a configuration text; it is not served.

        The format is `yunikorn`, `fair-scheduler` or `capacity-scheduler`, or for files
        that stand beside a policy `yarn-site` or `spark-defaults`; if it is not given, the
        server takes what the text looks like.
        """
        request = _requests.validation(content, format)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.ValidatePolicy, request, deadline)
        return _responses.validation(response)

    async def health(self, service: str = "", *, timeout: float | None = None) -> HealthStatus:
        """Ask whether the server, or one of its services by full name, is serving.
        Not tried again: a probe tells what is so now.
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
