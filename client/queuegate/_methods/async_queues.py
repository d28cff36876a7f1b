"""Methods of `queuegate.aio.Client` for queue access.

`make blocking` generates the methods of `queuegate.Client` from this module.
"""

# ruff: noqa: ASYNC109 - timeouts are sent to the server as deadlines, unlike asyncio.timeout

from collections.abc import AsyncIterator, Iterable

from queuegate import _columns, _requests, _responses
from queuegate._calls import AsyncCalls, Deadline
from queuegate._results import Cursor
from queuegate._types import AccessName, Check, CheckFailure, Decision, Explanation
from queuegate._users import UsableQueue, UserPage
from queuegate.exceptions import QueuegateError
from queuegate.policy.decision import Access
from queuegate.v1 import access_pb2


class AsyncQueueMethods:
    """Methods for queue access."""

    _calls: AsyncCalls
    _has_columns = True

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
        """Check whether a user may use a queue.

        Args:
            user: The user name.
            queue: The full queue path, for example `root.a.b`.
            partition: The queue's partition.
            access: The kind of access.
            groups: The user's groups; an empty list means no groups. If None, the server resolves
                them if the decision depends on them.
            real_user: The service acting for the user, if any. YARN's ACLs may list it as `~name`.
            at_least: The cursor of a change that the decision must reflect, as returned by
                `invalidate` or `reload`. Raises NotCaughtUp if the server has not applied the
                change.
            timeout: The time limit in seconds. Defaults to the client's.

        Returns:
            The decision; truthy only if access is granted.

        Raises:
            QueuegateError: The call failed; do not grant access. The subclass gives the reason.
            TypeError: An argument has the wrong type.

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
        """Run many checks at once.

        A request contains up to 4 MiB and up to 10,000 checks, or up to 20,000 if they share a
        partition and a kind of access, and repeat users and queues. If several requests are needed,
        each is evaluated under a single policy revision, but revisions may differ between requests.
        If any request fails, its error is raised. Requests may fail with MessageTooLarge if the
        server's limits.max_message is below 4 MiB.

        Creating an invalid Check, for example with an empty user name, raises InvalidArgument. If
        `checks` is a generator that creates checks, a note on the exception gives the check's
        index.

        Args:
            checks: The checks.
            timeout: The time limit for all requests, in seconds. Defaults to the client's.

        Returns:
            The results, in the order of the checks. The result of a failed check is a falsy
            CheckFailure.

        Raises:
            QueuegateError: The call failed; do not grant access. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> checks = [
            ...     queuegate.Check(user, "root.analytics.reports") for user in ("sue", "john")
            ... ]
            >>> [bool(result) for result in await client.check_many(checks)]
            [True, False]
        """
        questions = _requests.questions(checks, Check)
        deadline = self._calls.deadline(timeout)
        results = await self._check_as_columns(questions, deadline)
        method = self._calls.access.BatchCheckQueueAccess
        for places, batch in _requests.batches(questions, results):
            response = await self._calls.ask(method, batch, deadline)
            results.update(zip(places, _responses.results(batch, response), strict=True))
        return [results[place] for place in range(len(questions))]

    async def _check_as_columns(
        self, questions: list[Check], deadline: Deadline
    ) -> dict[int, Decision | CheckFailure]:
        """Run the checks that can be encoded as columns, and return their results by index.

        Return an empty dict if the server does not support columns.
        """
        method = self._calls.access.CheckQueueAccessColumns
        results: dict[int, Decision | CheckFailure] = {}
        try:
            for places, request in _columns.requests(questions) if self._has_columns else ():
                response = await self._calls.ask(method, request, deadline)
                results.update(zip(places, _columns.results(request, response), strict=True))
        except QueuegateError as error:
            if error.code != "UNIMPLEMENTED":
                raise
            self._has_columns = False
            return {}
        return results

    async def explain(
        self,
        user: str,
        queue: str,
        *,
        partition: str = "default",
        access: AccessName = Access.SUBMIT,
        groups: Iterable[str] | None = None,
        real_user: str = "",
        timeout: float | None = None,
    ) -> Explanation:
        """Run the same check as `check`, and also return the evaluated ACLs, the groups and the
        groups' origin.

        Args:
            user: The user name.
            queue: The full queue path, for example `root.a.b`.
            partition: The queue's partition.
            access: The kind of access.
            groups: The user's groups; an empty list means no groups. If None, the server resolves
                them if the decision depends on them.
            real_user: The service acting for the user, if any. YARN's ACLs may list it as `~name`.
            timeout: The time limit in seconds. Defaults to the client's.

        Returns:
            The decision, the evaluated ACLs and the groups; truthy only if access is granted.

        Raises:
            QueuegateError: The call failed; do not grant access. The subclass gives the reason.
            TypeError: An argument has the wrong type.

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
        """List the configured queues that a user may use.

        Args:
            user: The user name.
            partition: The partition whose queues are listed.
            access: The kind of access.
            prefix: The full path of a queue. Only this queue and the queues below it are listed. If
                empty, all queues are listed.
            groups: The user's groups; an empty list means no groups. If None, the server resolves
                them if a decision depends on them.
            real_user: The service acting for the user, if any.
            timeout: The time limit for all pages, in seconds. Defaults to the client's.

        Returns:
            The full paths, sorted.

        Raises:
            QueuegateError: The call failed; do not grant access. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> await client.list_queues("sue")
            ['root.analytics.reports', 'root.sandbox']
        """
        request = _requests.listing(user, partition, access, prefix, groups, real_user=real_user)
        return [path async for page in self._queue_pages(request, timeout) for path in page.queues]

    async def explain_queues(
        self,
        user: str,
        *,
        partition: str = "default",
        access: AccessName = Access.SUBMIT,
        prefix: str = "",
        groups: Iterable[str] | None = None,
        real_user: str = "",
        timeout: float | None = None,
    ) -> list[UsableQueue]:
        """List the configured queues that a user may use, each with the ACL entry that grants
        access.

        Args:
            user: The user name.
            partition: The partition whose queues are listed.
            access: The kind of access.
            prefix: The full path of a queue. Only this queue and the queues below it are listed. If
                empty, all queues are listed.
            groups: The user's groups; an empty list means no groups. If None, the server resolves
                them if a decision depends on them.
            real_user: The service acting for the user, if any.
            timeout: The time limit for all pages, in seconds. Defaults to the client's.

        Returns:
            The queues, sorted by path.

        Raises:
            QueuegateError: The call failed; do not grant access. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> for each in await client.explain_queues("sue"):
            ...     print(each.queue, each.via.kind, each.via.name, each.via.queue)
            root.analytics.reports user sue root.analytics.reports
            root.sandbox everyone * root.sandbox
        """
        request = _requests.listing(user, partition, access, prefix, groups, real_user=real_user)
        request.with_via = True
        return [
            queue
            async for page in self._queue_pages(request, timeout)
            for queue in _responses.usable_queues(page)
        ]

    async def _queue_pages(
        self, request: access_pb2.ListQueuesRequest, timeout: float | None
    ) -> AsyncIterator[access_pb2.ListQueuesResponse]:
        """Yield all pages of the queue list. `timeout` is the time limit for all of them."""
        deadline = self._calls.deadline(timeout)
        following: access_pb2.ListQueuesRequest | None = request
        while following is not None:
            page = await self._calls.ask(self._calls.access.ListQueues, following, deadline)
            yield page
            following = _responses.next_page(following, page)

    async def list_users(
        self,
        queue: str,
        *,
        partition: str = "default",
        access: AccessName = Access.SUBMIT,
        page_size: int = 0,
        timeout: float = 30.0,
    ) -> AsyncIterator[UserPage]:
        """List the users who may use a queue, page by page.

        The server expands the groups in the queue's ACLs, and checks each user on a page. If a
        page's `complete` is false, users may be missing. If the policy changes between two pages,
        the iteration raises InvalidArgument and must be started over.

        Args:
            queue: The full queue path, for example `root.a.b`.
            partition: The queue's partition.
            access: The kind of access.
            page_size: The number of users per page, at most 1,000. If 0, the server's default
                applies.
            timeout: The time limit for each page, in seconds. The default is longer than for other
                calls, since expanding groups can take seconds.

        Returns:
            An iterator that requests each page on demand.

        Raises:
            QueuegateError: The call failed; do not grant access. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> async for page in client.list_users("root.engineering.payroll"):
            ...     print([user.user for user in page.users], page.complete)
            ['maria', 'platform'] True
        """
        request = _requests.users(queue, partition, access, page_size)
        following: access_pb2.ListUsersRequest | None = request
        while following is not None:
            deadline = self._calls.deadline(timeout)
            response = await self._calls.ask(self._calls.access.ListUsers, following, deadline)
            yield _responses.users(response)
            following = _responses.next_page(following, response)
