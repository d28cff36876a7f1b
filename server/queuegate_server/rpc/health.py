"""The standard health service, `grpc.health.v1`, for the server and each of its services.

Our own, because of the Watch streams of the one that comes with gRPC: a watcher who
does not read holds up every change of status, and with it a stop, and the streams never
end by themselves, so that each would hold a stop up for the whole grace period.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

SERVICE: Final[str] = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

_OVERALL: Final = ""
_MOST_WATCHES: Final = 50
"""At once: whoever can connect may watch, and shall not use up the calls of all others."""
_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING
_SERVICE_UNKNOWN: Final = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN

Context = grpc.aio.ServicerContext[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """One status for all services: they become ready, and stop, together.

    Starts with NOT_SERVING. Used from one event loop.
    """

    def __init__(self, services: Sequence[str]) -> None:
        """Take the names of the services; the server as a whole comes on top."""
        self._names = (_OVERALL, *services)
        self._serving = False
        self._ended = False
        self._watches = 0
        self._changed = asyncio.Event()

    def set_serving(self, *, serving: bool) -> None:
        """Change the status of all services and tell those who watch."""
        self._serving = serving
        self._notify()

    def end_watches(self) -> None:
        """End all Watch streams once they have told the last status, and new ones as well."""
        self._ended = True
        self._notify()

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        """Answer with the status of a service; NOT_FOUND if there is no such service."""
        if request.service not in self._names:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return self._response(request.service)

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:
        """Tell the status of a service, and each change of it."""
        if self._watches >= _MOST_WATCHES:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watch the health")
        self._watches += 1
        try:
            await self._watch(request, context)
        finally:
            self._watches -= 1

    async def _watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:
        told = None
        while True:
            changed = self._changed
            response = self._response(request.service)
            if response != told:
                await context.write(response)
                told = response
            elif self._ended:
                return
            else:
                await changed.wait()

    def _response(self, service: str) -> health_pb2.HealthCheckResponse:
        if service not in self._names:
            return health_pb2.HealthCheckResponse(status=_SERVICE_UNKNOWN)
        status = _SERVING if self._serving else _NOT_SERVING
        return health_pb2.HealthCheckResponse(status=status)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
