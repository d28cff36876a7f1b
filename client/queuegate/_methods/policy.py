"""Methods of `queuegate.Client` for the policy.

Generated from `_methods/async_policy.py` by `make blocking`. Do not edit.
"""

from queuegate import _requests, _server_responses
from queuegate._calls import BlockingCalls
from queuegate._results import PolicyInfo, ReloadResult, ValidationResult


class PolicyMethods:
    """Methods for the policy."""

    _calls: BlockingCalls

    def get_policy(
        self, partition: str = "default", prefix: str = "", *, timeout: float | None = None
    ) -> PolicyInfo:
        """Return the policy that the server is using for a partition.

        Args:
            partition: The partition name.
            prefix: The full path of a queue. Only this queue and the queues below it are returned.
                If empty, all queues are returned.
            timeout: The time limit in seconds. Defaults to the client's.

        Returns:
            The queues with their ACLs, the revision, and the last reload's diagnostics.

        Raises:
            QueuegateError: The call failed. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> policy = client.get_policy(prefix="root.analytics")
            >>> for queue in policy.queues:
            ...     print(queue.path, repr(queue.submit_acl))
            root.analytics 'ann,bob analysts'
            root.analytics.reports 'sue'
            root.analytics.notebooks ' data-science'
        """
        request = _requests.policy(partition, prefix)
        deadline = self._calls.deadline(timeout)
        response = self._calls.ask(self._calls.policy.GetPolicy, request, deadline)
        return _server_responses.policy(response)

    def reload(self, *, wait: bool = False, timeout: float = 30.0) -> ReloadResult:
        """Make the server reload its policy. An invalid policy has no effect.

        Args:
            wait: Whether to wait until no gate uses the old policy: up to 6 s, or 8 s in a fleet.
            timeout: The time limit in seconds. The default is longer than for other calls, since
                processing a large policy takes seconds.

        Returns:
            The outcome and the diagnostics; truthy only if the reload succeeded.

        Raises:
            QueuegateError: The call failed. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> result = client.reload()
            >>> result.succeeded, result.diagnostics
            (True, ())
        """
        request = _requests.reload(wait=wait)
        deadline = self._calls.deadline(timeout)
        response = self._calls.ask(self._calls.policy.ReloadPolicy, request, deadline)
        return _server_responses.reload_result(response)

    def validate(
        self,
        content: str,
        format: str = "",  # noqa: A002 - the name that the contract gives it
        *,
        timeout: float = 30.0,
    ) -> ValidationResult:
        """Validate a policy, or a file that accompanies one, without loading it.

        Args:
            content: The text of the file.
            format: `yunikorn`, `fair-scheduler`, `capacity-scheduler` or `kubernetes` for a policy;
                `yarn-site` or `spark-defaults` for an accompanying file. If empty, the format is
                detected.
            timeout: The time limit in seconds. The default is longer than for other calls, since
                processing a large policy takes seconds.

        Returns:
            The diagnostics; truthy only if the configuration can be served.

        Raises:
            QueuegateError: The call failed. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> result = client.validate("partitions: [{name: default, queues: none}]")
            >>> result.valid
            False
            >>> for diagnostic in result.diagnostics:
            ...     print(f"{diagnostic.line}:{diagnostic.column}: {diagnostic.message}")
            1:38: queues must be a list, not "none"
        """
        request = _requests.validation(content, format)
        deadline = self._calls.deadline(timeout)
        response = self._calls.ask(self._calls.policy.ValidatePolicy, request, deadline)
        return _server_responses.validation(response)
