"""The standard health service, `grpc.health.v1`, for the server and each of its services.

The library's asyncio servicer is unsuitable. Its Watch holds the status lock while writing, so a
single client that stops reading keeps the server from becoming ready. Closing one watch also stops
notifications to all other watches of the same service.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

SERVICE: Final[str] = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

MAX_WATCHES: Final = 50
"""The maximum number of open watches. Watches require no role, so they must not exhaust the call
limit."""

Context = grpc.aio.ServicerContext[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]


class HealthServicer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Reports the same status, initially NOT_SERVING, for all services."""

    def __init__(self, services: Sequence[str]) -> None:
        """Create a servicer for the server and for `services`, given by their full names."""
        self._names = ("", *services)
        self._is_serving = False
        self._is_draining = False
        self._watches = 0
        self._changed = asyncio.Event()

    def set_serving(self, *, serving: bool) -> None:
        """Change the status of all services and notify watchers."""
        self._is_serving = serving
        self._notify()

    def end_watches(self) -> None:
        """Close current and future watches as soon as they have sent the latest status."""
        self._is_draining = True
        self._notify()

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        """Return a service's status; abort with NOT_FOUND for an unknown service."""
        if request.service not in self._names:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return self._response(request.service)

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """Send a service's status, and send it again whenever it changes."""
        if self._watches >= MAX_WATCHES:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_WATCHES} watches are open, the maximum"
            )
        self._watches += 1
        try:
            sent = None
            while True:
                changed = self._changed
                response = self._response(request.service)
                if response != sent:
                    yield response
                    sent = response
                elif self._is_draining:
                    return
                else:
                    await changed.wait()
        finally:
            self._watches -= 1

    def _response(self, service: str) -> health_pb2.HealthCheckResponse:
        status = "SERVING" if self._is_serving else "NOT_SERVING"
        if service not in self._names:
            status = "SERVICE_UNKNOWN"
        return health_pb2.HealthCheckResponse(status=status)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
