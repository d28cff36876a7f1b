"""The blocking client."""

from collections.abc import Iterable
from typing import Final, Self

from queuegate import _application_messages, _channel, _columns, _health, _requests, _responses
from queuegate._applications import ApplicationCheck, ApplicationExplanation
from queuegate._calls import BlockingCalls
from queuegate._deadline import Deadline
from queuegate._settings import DEFAULT_RETRY, FilePath, Retry, Tls
from queuegate._state import HealthStatus, PolicyInfo, ReloadResult, Resolution, ValidationResult
from queuegate._types import Access, AccessName, Check, CheckFailure, Decision, Explanation
from queuegate.exceptions import QueuegateError


class Client:
    """Asks a queuegate server. Blocks; for asyncio there is `queuegate.aio.Client`.

    Any number of threads may share one client, and should: all its calls go over one
    connection, which is made at the first call and again when it is lost. Make clients
    after a fork, not before. Close a client after use, or use it in a `with` statement.

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
        """Take where the server is and how to call it. Does not connect yet.

        Args:
            address: `HOST:PORT`, `[IPV6]:PORT` or `unix:/PATH`; None: the environment
                variable `QUEUEGATE_ADDRESS`, or else `127.0.0.1:50051`.
            timeout: The limit in seconds for calls that name none.
            tls: How to use TLS; None: as the variables `QUEUEGATE_CA_FILE`,
                `QUEUEGATE_CERTIFICATE_FILE`, `QUEUEGATE_KEY_FILE` and `QUEUEGATE_SERVER_NAME`
                say, without them plaintext.
            token_file: Holds the bearer token to show; read again when it changes. None: the
                variable `QUEUEGATE_TOKEN_FILE`. A token is only sent with TLS or on this
                machine.
            retry: How often and when to try again.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An address, a limit or a file is malformed, or the token would be
                sent without encryption.
            OSError: A file of `tls` or the token cannot be read.
        """
        plan = _channel.plan(address, timeout, tls, retry, token_file)
        self.address: Final = plan.address.text
        self._calls = BlockingCalls(plan)
        self._has_columns = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Calls in flight end with ServerUnavailable, later ones
        raise RuntimeError.
        """
        self._calls.close()

    def check(
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
        response = self._calls.ask(self._calls.access.CheckQueueAccess, request, deadline)
        return _responses.decision(response)

    def check_many(
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
        questions = _requests.questions(checks)
        deadline = self._calls.deadline(timeout)
        found = self._check_columns(questions, deadline)
        method = self._calls.access.BatchCheckQueueAccess
        for places, batch in _requests.batches(questions, found):
            response = self._calls.ask(method, batch, deadline)
            found.update(zip(places, _responses.results(batch, response), strict=True))
        return [found[place] for place in range(len(questions))]

    def _check_columns(
        self, questions: list[Check], deadline: Deadline
    ) -> dict[int, Decision | CheckFailure]:
        """Return results by place, where columns pay; none if an older server has no columns."""
        method = self._calls.access.CheckQueueAccessColumns
        found: dict[int, Decision | CheckFailure] = {}
        try:
            for places, request in _columns.requests(questions) if self._has_columns else ():
                response = self._calls.ask(method, request, deadline)
                found.update(zip(places, _columns.results(request, response), strict=True))
        except QueuegateError as error:
            if error.code != "UNIMPLEMENTED":
                raise
            self._has_columns = False
            return {}
        return found

    def explain(
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
        response = self._calls.ask(self._calls.access.ExplainQueueAccess, request, deadline)
        return _responses.explanation(response)

    def check_application(
        self, question: ApplicationCheck, *, timeout: float | None = None
    ) -> Decision:
        """Ask whether a user may see, change or move an application."""
        request = _application_messages.check(question)
        deadline = self._calls.deadline(timeout)
        response = self._calls.ask(self._calls.access.CheckApplicationAccess, request, deadline)
        return _responses.decision(response)

    def check_applications(
        self, checks: Iterable[ApplicationCheck], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Ask many questions about applications; as `check_many` does about queues."""
        questions = list(checks)
        deadline = self._calls.deadline(timeout)
        method = self._calls.access.BatchCheckApplicationAccess
        results: list[Decision | CheckFailure] = []
        for batch in _application_messages.batches(questions):
            response = self._calls.ask(method, batch, deadline)
            results += _responses.results(batch, response)
        return results

    def explain_application(
        self, question: ApplicationCheck, *, timeout: float | None = None
    ) -> ApplicationExplanation:
        """Ask as `check_application` does, and for each list that was looked at."""
        request = _application_messages.explain(question)
        deadline = self._calls.deadline(timeout)
        response = self._calls.ask(self._calls.access.ExplainApplicationAccess, request, deadline)
        return _application_messages.explanation(response)

    def queues(
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
            response = self._calls.ask(self._calls.access.ListQueues, request, deadline)
            queues += response.queues
            following = _responses.next_page(request, response)
            if following is None:
                return queues
            request = following

    def resolve(
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
        response = self._calls.ask(self._calls.user_groups.ResolveUserGroups, request, deadline)
        return _responses.resolution(response)

    def invalidate(
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
        return sum(self._calls.ask(method, request, deadline).dropped for request in requests)

    def policy(
        self, partition: str = "default", prefix: str = "", *, timeout: float | None = None
    ) -> PolicyInfo:
        """Ask for the policy that is being served, with a prefix only for that queue and
        those below it.
        """
        request = _requests.policy(partition, prefix)
        deadline = self._calls.deadline(timeout)
        response = self._calls.ask(self._calls.policy.GetPolicy, request, deadline)
        return _responses.policy(response)

    def reload(self, *, timeout: float = 30.0) -> ReloadResult:
        """Make the server read its configuration again. A faulty one changes nothing.

        A large configuration takes seconds, hence the longer time limit.
        """
        request = _requests.reload()
        deadline = self._calls.deadline(timeout)
        response = self._calls.ask(self._calls.policy.ReloadPolicy, request, deadline)
        return _responses.reload_result(response)

    def validate(
        self,
        content: str,
        format: str = "",  # noqa: A002 - the name that the contract gives it
        *,
        timeout: float = 30.0,
    ) -> ValidationResult:
        """Ask for the findings in a configuration text; it is not served.

        The format is `yunikorn`, `fair-scheduler` or `capacity-scheduler`; if it is not
        given, the server takes what the text looks like.
        """
        request = _requests.validation(content, format)
        deadline = self._calls.deadline(timeout)
        response = self._calls.ask(self._calls.policy.ValidatePolicy, request, deadline)
        return _responses.validation(response)

    def health(self, service: str = "", *, timeout: float | None = None) -> HealthStatus:
        """Ask whether the server, or one of its services by full name, is serving.
        Not tried again: a probe tells what is so now.
        """
        request = _health.request(service)
        deadline = self._calls.deadline(timeout)
        try:
            response = self._calls.ask(self._calls.health, request, deadline)
        except QueuegateError as error:
            if error.code == _health.SERVICE_UNKNOWN_CODE:
                return HealthStatus.SERVICE_UNKNOWN
            raise
        return _health.status(response)
