"""Methods of `queuegate.aio.Client` for the groups of users.

`make blocking` generates the methods of `queuegate.Client` from this module.
"""

# ruff: noqa: ASYNC109 - timeouts are sent to the server as deadlines, unlike asyncio.timeout

from collections.abc import Iterable
from typing import Final

from queuegate import _requests, _server_responses
from queuegate._calls import AsyncCalls
from queuegate._results import InvalidationResult, Resolution

_WAIT_SECONDS: Final = 15.0
"""The default time limit for a call that waits for gates, in seconds."""


class AsyncUserGroupMethods:
    """Methods for the groups of users."""

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
