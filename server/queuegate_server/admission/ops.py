"""Health, readiness and metrics, on a port of their own, without TLS."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def ops_app(registry: CollectorRegistry, ready: Callable[[], bool]) -> Starlette:
    """Return the web application; `ready` says whether reviews are answered."""

    async def livez(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        return PlainTextResponse("ok\n") if ready() else PlainTextResponse("draining\n", 503)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), headers={"Content-Type": _METRICS_TYPE})

    return Starlette(
        routes=[Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", metrics)]
    )
