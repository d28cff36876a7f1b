"""Methods of `queuegate.aio.Client` for users, policy and server.

`make blocking` generates the methods of `queuegate.Client` from this module.
"""

# ruff: noqa: ASYNC109 - timeouts are sent to the server as deadlines, unlike asyncio.timeout

from collections.abc import Iterable
from typing import Final

from queuegate import _requests, _server_responses
from queuegate._calls import AsyncCalls
from queuegate._results import (
    FleetInfo,
    HealthStatus,
    InvalidationResult,
    PolicyInfo,
    ReloadResult,
    Resolution,
    ValidationResult,
)
from queuegate.exceptions import QueuegateError

_WAIT_SECONDS: Final = 15.0
"""The default time limit for a call that waits for gates, in seconds."""


class AsyncServerMethods:
    """Methods for users, policy and server."""

    _calls: AsyncCalls

    async def resolve(
        self,
        user: str,
        *,
        partition: str = "default",
        bypass_cache: bool = False,
        timeout: float | None = None,
    ) -> Resolution:
        """Resolve a user's groups, as a check does.

        Args:
            user: The user name.
            partition: The partition whose resolver to use.
            bypass_cache: Whether to query the resolver even if the groups are cached. The result is
                cached.
            timeout: The time limit in seconds. Defaults to the client's.

        Returns:
            The groups; truthy only if they are known. An unknown user or an unavailable resolver is
            reported in `outcome`, not raised.

        Raises:
            QueuegateError: The call failed. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> resolution = await client.resolve("sue")
            >>> resolution.groups, resolution.resolver
            (('sue',), 'none')
        """
        request = _requests.resolve(user, partition, bypass_cache=bypass_cache)
        deadline = self._calls.deadline(timeout)
        method = self._calls.user_groups.ResolveUserGroups
        response = await self._calls.ask(method, request, deadline)
        return _server_responses.resolution(response)

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
            users: The user names, or None for all users in the partition.
            partition: The partition whose groups to invalidate.
            wait: Whether to wait until no gate uses the invalidated groups: up to 6 s, or 8 s in a
                fleet.
            timeout: The time limit in seconds. Defaults to 15 if `wait` is true, otherwise to the
                client's.

        Returns:
            The number of cached answers that were dropped, and the gates and replicas that did not
            confirm the change.

        Raises:
            QueuegateError: The call failed. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> result = await client.invalidate(["nobody-asked-about-this-user"])
            >>> result.dropped
            0
        """
        requests = _requests.invalidations(users, partition, wait=wait)
        deadline = self._calls.deadline(_WAIT_SECONDS if wait and timeout is None else timeout)
        method = self._calls.user_groups.InvalidateUserGroups
        return _server_responses.invalidation(
            [await self._calls.ask(method, request, deadline) for request in requests]
        )

    async def get_policy(
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
            >>> policy = await client.get_policy(prefix="root.analytics")
            >>> for queue in policy.queues:
            ...     print(queue.path, repr(queue.submit_acl))
            root.analytics 'ann,bob analysts'
            root.analytics.reports 'sue'
            root.analytics.notebooks ' data-science'
        """
        request = _requests.policy(partition, prefix)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.GetPolicy, request, deadline)
        return _server_responses.policy(response)

    async def reload(self, *, wait: bool = False, timeout: float = 30.0) -> ReloadResult:
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
            >>> result = await client.reload()
            >>> result.succeeded, result.diagnostics
            (True, ())
        """
        request = _requests.reload(wait=wait)
        deadline = self._calls.deadline(timeout)
        response = await self._calls.ask(self._calls.policy.ReloadPolicy, request, deadline)
        return _server_responses.reload_result(response)

    async def get_fleet(self, *, timeout: float | None = None) -> FleetInfo:
        """Return the replicas in the server's fleet.

        Args:
            timeout: The time limit in seconds. Defaults to the client's.

        Returns:
            The replicas, and whether they agree. There are none if the server is not in a fleet.

        Raises:
            QueuegateError: The call failed. The subclass gives the reason.

        Example:
            >>> fleet = await client.get_fleet()
            >>> [replica.name for replica in fleet.replicas]
            []
        """
        deadline = self._calls.deadline(timeout)
        request = _requests.fleet()
        response = await self._calls.ask(self._calls.policy.GetFleet, request, deadline)
        return _server_responses.fleet(response)

    async def validate(
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
        return _server_responses.validation(response)

    async def check_health(
        self, service: str = "", *, timeout: float | None = None
    ) -> HealthStatus:
        """Return the health of the entire server or of a single service.

        The call is not retried, because a probe must report the current state.

        Args:
            service: The full service name. If empty, the whole server is checked.
            timeout: The time limit in seconds. Defaults to the client's.

        Returns:
            The status; truthy only if it is SERVING.

        Raises:
            QueuegateError: The call failed. The subclass gives the reason.
            TypeError: An argument has the wrong type.

        Example:
            >>> str(await client.check_health())
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
        return _server_responses.health(response)
