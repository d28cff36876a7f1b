"""The methods of `queuegate.aio.Client`.

Those of `queuegate.Client` are generated from them: run `make blocking` after a change.
"""

# A time limit goes to the server too, so `asyncio.timeout` does not take its place:
# ruff: noqa: ASYNC109

from collections.abc import AsyncIterator, Iterable

from queuegate import _columns, _requests, _responses
from queuegate._applications import ApplicationCheck, ApplicationExplanation
from queuegate._calls import AsyncCalls, Deadline
from queuegate._results import (
    Cursor,
    FleetInfo,
    HealthStatus,
    InvalidationResult,
    PolicyInfo,
    ReloadResult,
    Resolution,
    ValidationResult,
)
from queuegate._types import AccessName, Check, CheckFailure, Decision, Explanation
from queuegate._users import UsableQueue, UserPage
from queuegate.exceptions import QueuegateError
from queuegate.policy.decision import Access

_WAIT_SECONDS = 15.0
"""The default time limit of a call that waits for gates."""


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
        at_least: Cursor | None = None,
        timeout: float | None = None,
    ) -> Decision:
        """Check whether a user may use a queue.

        Args:
            user: The name of the user.
            queue: The full path of the queue, for example `root.a.b`.
            partition: The partition of the queue.
            access: The kind of access.
            groups: The groups of the user, used as given. If empty, the server resolves them if
                the decision depends on them.
            real_user: The service that acts for the user, if any: YARN's ACLs may grant access
                to all users that it acts for.
            at_least: A change, from the result of `invalidate` or `reload`, that the answer must
                take into account. A server that does not know it raises ServerUnavailable.
            timeout: The time limit in seconds; None: the client's default.

        Returns:
            The decision; truthy only if access is granted.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> decision = await client.check("sue", "root.analytics.reports")
            >>> decision.allowed, str(decision.reason)
            (True, 'user')
            >>> if not await client.check("john", "root.analytics", groups=["interns"]):
            ...     print("denied")
            denied
        """
        request = _requests.check(Check(user, queue, partition, access, groups, real_user))
        if at_least is not None:
            _requests.demand(request, at_least)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.access.CheckQueueAccess, request, deadline)
        return _responses.decision(response)

    async def check_many(
        self, checks: Iterable[Check], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Check many questions at once.

        A request carries up to 4 MiB: 10 000 questions, or 20 000 that share a partition and an
        access and repeat users and queues. If several requests are needed, each is answered with
        one revision of the policy; if one of them fails, its error is raised and there are no
        results. A server whose limits.max_message is below 4 MiB may reject a request with
        MessageTooLarge.

        Invalid arguments are never a CheckFailure: a Check with, for example, an empty user name
        raises ValueError when it is created. If `checks` is lazy, a note on the exception names
        the index.

        Args:
            checks: The questions.
            timeout: The time limit of all requests together, in seconds; None: the client's
                default.

        Returns:
            The results in the order of the questions. The result of a question that could not
            be answered is a CheckFailure, which is falsy.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> checks = [
            ...     queuegate.Check(user, "root.analytics.reports") for user in ("sue", "john")
            ... ]
            >>> [bool(result) for result in await client.check_many(checks)]
            [True, False]
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
        """Check as `check` does, and also return the evaluated ACLs and the origin of the groups.

        Args:
            user: The name of the user.
            queue: The full path of the queue, for example `root.a.b`.
            partition: The partition of the queue.
            access: The kind of access.
            groups: The groups of the user, used as given. If empty, the server resolves them if
                the decision depends on them.
            real_user: The service that acts for the user, if any: YARN's ACLs may grant access
                to all users that it acts for.
            timeout: The time limit in seconds; None: the client's default.

        Returns:
            The decision and its evaluation; truthy only if access is granted.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> explanation = await client.explain("john", "root.analytics", groups=["analysts"])
            >>> for step in explanation.steps:
            ...     print(step.queue, step.acl, step.acl_text, step.outcome)
            root.analytics submit ann,bob analysts group
            >>> str(explanation.groups.origin)
            'request'
        """
        request = _requests.explain(Check(user, queue, partition, access, groups, real_user))
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.access.ExplainQueueAccess, request, deadline)
        return _responses.explanation(response)

    async def check_application(
        self, question: ApplicationCheck, *, timeout: float | None = None
    ) -> Decision:
        """Check whether a user may view, modify or move an application of YARN or Spark.

        Args:
            question: The user, the action and the application.
            timeout: The time limit in seconds; None: the client's default.

        Returns:
            The decision; truthy only if access is granted.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> application = queuegate.SparkApplication(
            ...     {"spark.acls.enable": "true", "spark.ui.view.acls": "ann"}, spark_user="bob"
            ... )
            >>> question = queuegate.ApplicationCheck("ann", "view", application)
            >>> (await client.check_application(question)).allowed
            True
        """
        request = _requests.check_application(question)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(
            self._calls.access.CheckApplicationAccess, request, deadline
        )
        return _responses.decision(response)

    async def check_applications(
        self, checks: Iterable[ApplicationCheck], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Check many questions about applications at once, as `check_many` does about queues.

        Args:
            checks: The questions.
            timeout: The time limit of all requests together, in seconds; None: the client's
                default.

        Returns:
            The results in the order of the questions. The result of a question that could not
            be answered is a CheckFailure, which is falsy.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> application = queuegate.SparkApplication(
            ...     {"spark.acls.enable": "true"}, spark_user="bob"
            ... )
            >>> checks = [
            ...     queuegate.ApplicationCheck(user, "modify", application)
            ...     for user in ("ann", "bob")
            ... ]
            >>> [bool(result) for result in await client.check_applications(checks)]
            [False, True]
        """
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
        """Check as `check_application` does, and also return the evaluated lists of names.

        Args:
            question: The user, the action and the application.
            timeout: The time limit in seconds; None: the client's default.

        Returns:
            The decision and its evaluation; truthy only if access is granted.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> application = queuegate.SparkApplication(
            ...     {"spark.acls.enable": "true"}, spark_user="bob"
            ... )
            >>> question = queuegate.ApplicationCheck("bob", "view", application)
            >>> explanation = await client.explain_application(question)
            >>> [str(step.list) for step in explanation.steps]
            ['owner']
        """
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
        """List the configured queues that a user may use.

        Args:
            user: The name of the user.
            partition: The partition whose queues are listed.
            access: The kind of access.
            prefix: The full path of a queue: only this queue and those below it are listed. If
                empty, all are.
            groups: The groups of the user, used as given. If empty, the server resolves them if
                a decision depends on them.
            real_user: The service that acts for the user, if any.
            timeout: The time limit of all pages together, in seconds; None: the client's default.

        Returns:
            The full paths, sorted.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> await client.queues("sue")
            ['root.analytics.reports', 'root.sandbox']
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

    async def explain_queues(
        self,
        user: str,
        *,
        partition: str = "default",
        access: AccessName = Access.SUBMIT,
        prefix: str = "",
        groups: Iterable[str] = (),
        real_user: str = "",
        timeout: float | None = None,
    ) -> list[UsableQueue]:
        """List the configured queues that a user may use, each with the ACL entry that decides.

        Args:
            user: The name of the user.
            partition: The partition whose queues are listed.
            access: The kind of access.
            prefix: The full path of a queue: only this queue and those below it are listed. If
                empty, all are.
            groups: The groups of the user, used as given. If empty, the server resolves them if
                a decision depends on them.
            real_user: The service that acts for the user, if any.
            timeout: The time limit of all pages together, in seconds; None: the client's default.

        Returns:
            The queues, sorted by path.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> for each in await client.explain_queues("sue"):
            ...     print(each.queue, each.via.kind, each.via.name, each.via.queue)
            root.analytics.reports user sue root.analytics.reports
            root.sandbox everyone * root.sandbox
        """
        request = _requests.listing(user, partition, access, prefix, groups, real_user=real_user)
        request.with_via = True
        deadline = self._calls.deadline(timeout)
        queues: list[UsableQueue] = []
        while True:
            response = await self._calls.ask(self._calls.access.ListQueues, request, deadline)
            queues += _responses.usable_queues(response)
            following = _responses.next_page(request, response)
            if following is None:
                return queues
            request = following

    async def list_users(
        self,
        queue: str,
        *,
        partition: str = "default",
        access: AccessName = Access.SUBMIT,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[UserPage]:
        """List the users who may use a queue, page by page.

        The server expands the groups in the queue's ACLs, and then checks each user on a page.
        Look at `complete`: if it is false, users may be missing. If the policy changes between
        two pages, the call raises InvalidArgument: start again.

        Args:
            queue: The full path of the queue, for example `root.a.b`.
            partition: The partition of the queue.
            access: The kind of access.
            page_size: The number of users on a page, at most 1 000; 0: the server's default.
            timeout: The time limit of each page, in seconds; None: the client's default.

        Returns:
            The pages, each of which is requested when it is needed.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> async for page in client.list_users("root.engineering.payroll"):
            ...     print([user.user for user in page.users], page.complete)
            ['maria', 'platform'] True
        """
        request = _requests.users(queue, partition, access, page_size)
        while True:
            deadline = self._calls.deadline(timeout)
            response = await self._calls.ask(self._calls.access.ListUsers, request, deadline)
            yield _responses.users(response)
            following = _responses.next_page(request, response)
            if following is None:
                return
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

        Args:
            user: The name of the user.
            partition: The partition whose resolver to ask.
            bypass_cache: Ask the resolver even if the cache has the groups, and cache its answer.
            timeout: The time limit in seconds; None: the client's default.

        Returns:
            The groups; truthy only if they are known. A user who does not exist, or a resolver
            that is unavailable, is a result and not an exception.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> resolution = await client.resolve("sue")
            >>> resolution.groups, resolution.resolver
            (('sue',), 'none')
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
        wait: bool = False,
        timeout: float | None = None,
    ) -> InvalidationResult:
        """Invalidate cached groups, so that the next decision resolves them again.

        Args:
            users: The names of users; None: all users of the partition.
            partition: The partition whose cache is changed.
            wait: Whether to wait until no gate decides from the invalidated groups, which takes up
                to 6 s.
            timeout: The time limit in seconds; None: the client's default, with `wait` 15.

        Returns:
            How many cache entries were dropped, and which gates did not confirm.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> (await client.invalidate(["nobody-asked-about-this-user"])).dropped
            0
        """
        requests = _requests.invalidations(users, partition, wait=wait)
        deadline = self._calls.deadline(_WAIT_SECONDS if wait and timeout is None else timeout)
        method = self._calls.user_groups.InvalidateUserGroups
        return _responses.invalidation(
            [await self._calls.ask(method, request, deadline) for request in requests]
        )

    async def policy(
        self, partition: str = "default", prefix: str = "", *, timeout: float | None = None
    ) -> PolicyInfo:
        """Return the policy of a partition that the server is serving.

        Args:
            partition: The name of the partition.
            prefix: The full path of a queue: the policy contains only this queue and those below
                it. If empty, it contains all.
            timeout: The time limit of the call, in seconds; None: the client's default.

        Returns:
            The queues with their ACLs, the revision, and the diagnostics of the last reload.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> policy = await client.policy(prefix="root.analytics")
            >>> for queue in policy.queues:
            ...     print(queue.path, repr(queue.submit_acl))
            root.analytics 'ann,bob analysts'
            root.analytics.reports 'sue'
            root.analytics.notebooks ' data-science'
        """
        request = _requests.policy(partition, prefix)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.GetPolicy, request, deadline)
        return _responses.policy(response)

    async def reload(self, *, wait: bool = False, timeout: float = 30.0) -> ReloadResult:
        """Reload the configuration of the server. An invalid one changes nothing.

        Args:
            wait: Whether to wait until no gate uses the old policy, which takes up to 6 s.
            timeout: The time limit in seconds. A large configuration takes seconds, so the default
                is longer than for other calls.

        Returns:
            Whether the reload succeeded, and its diagnostics; truthy only if it succeeded.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> result = await client.reload()
            >>> result.succeeded, result.diagnostics
            (True, ())
        """
        request = _requests.reload(wait=wait)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.ReloadPolicy, request, deadline)
        return _responses.reload_result(response)

    async def fleet(self, *, timeout: float | None = None) -> FleetInfo:
        """Show the replicas of the fleet that the server belongs to.

        Args:
            timeout: The time limit in seconds; None: the client's default.

        Returns:
            The replicas, and whether they agree; no replicas if the server belongs to no fleet.

        Raises:
            QueuegateError: There is no answer. The subclass says why.

        Example:
            >>> [replica.name for replica in (await client.fleet()).replicas]
            []
        """
        deadline = self._calls.deadline(timeout)
        request = _requests.fleet()
        response = await self._calls.ask(self._calls.policy.GetFleet, request, deadline)
        return _responses.fleet(response)

    async def validate(
        self,
        content: str,
        format: str = "",  # noqa: A002 - the name that the contract gives it
        *,
        timeout: float = 30.0,
    ) -> ValidationResult:
        """Validate a configuration without serving it.

        Args:
            content: The text of the configuration.
            format: `yunikorn`, `fair-scheduler` or `capacity-scheduler`, or for files that
                accompany a policy `yarn-site` or `spark-defaults`. If empty, the server detects it.
            timeout: The time limit in seconds. A large configuration takes seconds, so the default
                is longer than for other calls.

        Returns:
            The diagnostics; truthy only if the configuration can be served.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> result = await client.validate("partitions: [{name: default, queues: none}]")
            >>> result.valid
            False
            >>> for diagnostic in result.diagnostics:
            ...     print(f"{diagnostic.line}:{diagnostic.column}: {diagnostic.message}")
            1:38: queues must be a list, not "none"
        """
        request = _requests.validation(content, format)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.ValidatePolicy, request, deadline)
        return _responses.validation(response)

    async def health(self, service: str = "", *, timeout: float | None = None) -> HealthStatus:
        """Return the health of the server, or of one of its services.

        The call is not retried: a probe reports the current state.

        Args:
            service: The full name of a service; empty: the server as a whole.
            timeout: The time limit in seconds; None: the client's default.

        Returns:
            The status; truthy only if it is SERVING.

        Raises:
            QueuegateError: There is no answer: do not grant access. The subclass says why.
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.

        Example:
            >>> str(await client.health())
            'serving'
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
