"""Methods of `queuegate.Client` for application access.

Generated from `_methods/async_applications.py` by `make blocking`. Do not edit.
"""

from collections.abc import Iterable

from queuegate import _requests, _responses
from queuegate._applications import (
    ActionName,
    Application,
    ApplicationCheck,
    ApplicationExplanation,
    SparkApplication,
)
from queuegate._calls import BlockingCalls
from queuegate._types import CheckFailure, Decision


class ApplicationMethods:
    """Methods for application access."""

    _calls: BlockingCalls

    def check_application(
        self,
        user: str,
        action: ActionName,
        application: Application | SparkApplication,
        *,
        partition: str = "default",
        groups: Iterable[str] | None = None,
        target_queue: str = "",
        real_user: str = "",
        timeout: float | None = None,
    ) -> Decision:
        """Check whether a user may view, modify or move a YARN or Spark application.

        Args:
            user: The user name.
            action: The kind of access.
            application: The YARN or Spark application.
            partition: The partition whose rules apply.
            groups: The user's groups; an empty list means no groups. If None, the server resolves
                them if the decision depends on them.
            target_queue: For a move, the target queue's full path.
            real_user: The service acting for the user, if any. YARN's ACLs may list it as `~name`.
            timeout: The time limit in seconds. Defaults to the client's.

        Returns:
            The decision; truthy only if access is granted.

        Raises:
            QueuegateError: The call failed; do not grant access. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> application = queuegate.SparkApplication(
            ...     {"spark.acls.enable": "true", "spark.ui.view.acls": "ann"}, spark_user="bob"
            ... )
            >>> decision = client.check_application("ann", "view", application)
            >>> decision.allowed
            True
        """
        question = ApplicationCheck(
            user, action, application, partition, groups, target_queue, real_user
        )
        request = _requests.check_application(question)
        deadline = self._calls.deadline(timeout)
        response = self._calls.ask(self._calls.access.CheckApplicationAccess, request, deadline)
        return _responses.decision(response)

    def check_applications(
        self, checks: Iterable[ApplicationCheck], *, timeout: float | None = None
    ) -> list[Decision | CheckFailure]:
        """Run many application checks at once, as `check_many` does for queues.

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
            >>> application = queuegate.SparkApplication(
            ...     {"spark.acls.enable": "true"}, spark_user="bob"
            ... )
            >>> checks = [
            ...     queuegate.ApplicationCheck(user, "modify", application)
            ...     for user in ("ann", "bob")
            ... ]
            >>> [bool(result) for result in client.check_applications(checks)]
            [False, True]
        """
        questions = _requests.questions(checks, ApplicationCheck)
        deadline = self._calls.deadline(timeout)
        method = self._calls.access.BatchCheckApplicationAccess
        results: list[Decision | CheckFailure] = []
        for batch in _requests.application_batches(questions):
            response = self._calls.ask(method, batch, deadline)
            results += _responses.results(batch, response)
        return results

    def explain_application(
        self,
        user: str,
        action: ActionName,
        application: Application | SparkApplication,
        *,
        partition: str = "default",
        groups: Iterable[str] | None = None,
        target_queue: str = "",
        real_user: str = "",
        timeout: float | None = None,
    ) -> ApplicationExplanation:
        """Run the same check as `check_application`, and also return the evaluated lists of names.

        Args:
            user: The user name.
            action: The kind of access.
            application: The YARN or Spark application.
            partition: The partition whose rules apply.
            groups: The user's groups; an empty list means no groups. If None, the server resolves
                them if the decision depends on them.
            target_queue: For a move, the target queue's full path.
            real_user: The service acting for the user, if any. YARN's ACLs may list it as `~name`.
            timeout: The time limit in seconds. Defaults to the client's.

        Returns:
            The decision, the evaluated lists and the groups; truthy only if access is granted.

        Raises:
            QueuegateError: The call failed; do not grant access. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> application = queuegate.SparkApplication(
            ...     {"spark.acls.enable": "true"}, spark_user="bob"
            ... )
            >>> explanation = client.explain_application("bob", "view", application)
            >>> [str(step.list) for step in explanation.steps]
            ['owner']
        """
        question = ApplicationCheck(
            user, action, application, partition, groups, target_queue, real_user
        )
        request = _requests.explain_application(question)
        deadline = self._calls.deadline(timeout)
        response = self._calls.ask(self._calls.access.ExplainApplicationAccess, request, deadline)
        return _responses.application_explanation(response)
