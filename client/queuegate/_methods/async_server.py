"""Methods of `queuegate.aio.Client` for the server and its fleet.

`make blocking` generates the methods of `queuegate.Client` from this module.
"""

# ruff: noqa: ASYNC109 - timeouts are sent to the server as deadlines, unlike asyncio.timeout

from queuegate import _requests, _server_responses
from queuegate._calls import AsyncCalls
from queuegate._results import FleetInfo, HealthStatus
from queuegate.exceptions import QueuegateError


class AsyncServerMethods:
    """Methods for the server and its fleet."""

    _calls: AsyncCalls

    async def get_fleet(self, *, timeout: float | None = None) -> FleetInfo:
        """Return the replicas in the server's fleet.

        Args:
            timeout: The time limit in seconds. Defaults to the client's.

        Returns:
            The replicas, and whether they agree; no replicas if the server is not in a fleet.

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
