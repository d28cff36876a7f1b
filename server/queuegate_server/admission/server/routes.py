"""The webhook's HTTP endpoints: each request is bounded, answered and counted in the same way.

If a review fails, the webhook returns an HTTP error; with `failurePolicy: Fail`, the API server
then rejects the request.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Iterable
from uuid import uuid4

from aiohttp import web

from queuegate_server.admin.bodies import (
    JSON,
    RequestRefusal,
    error_response,
    received_body,
    write_response,
)
from queuegate_server.admission.server.admission_metrics import AdmissionMetrics
from queuegate_server.admission.server.endpoints import (
    REVIEWS,
    Answer,
    Endpoint,
    seconds_to_answer,
)
from queuegate_server.admission.server.review import MalformedReview
from queuegate_server.admission.server.webhook_limits import BACKSTOP_SECONDS, LARGE_BODIES

_LOG = logging.getLogger("queuegate_server.admission")


def routes(
    endpoints: Iterable[Endpoint], metrics: AdmissionMetrics, *, verifies_clients: bool
) -> list[web.RouteDef]:
    """Return the web application's routes.

    Args:
        endpoints: The endpoints.
        metrics: The webhook's metrics.
        verifies_clients: Whether clients without an accepted certificate are rejected.
    """
    return [_route(each, metrics, verified=verifies_clients) for each in endpoints]


def _route(endpoint: Endpoint, metrics: AdmissionMetrics, *, verified: bool) -> web.RouteDef:
    label = endpoint.path.removeprefix("/")
    slots = asyncio.Semaphore(LARGE_BODIES)

    async def handle(request: web.Request) -> web.Response:
        started = time.perf_counter()
        allotted = seconds_to_answer(request.query.get("timeout"))
        deadline = asyncio.get_running_loop().time() + allotted
        with metrics.in_flight.track_inprogress():
            try:
                async with received_body(REVIEWS, slots, request) as body:
                    answering = _answer(endpoint, body, deadline, verified=verified)
                    response, outcome = await _answered(answering)
                    await write_response(request, response)
            except RequestRefusal as error:
                response = error_response(error.status, str(error))
                outcome = error.outcome
        metrics.reviews.labels(label, outcome).inc()
        metrics.seconds.labels(label).observe(time.perf_counter() - started)
        return response

    return web.post(endpoint.path, handle)


async def _answer(endpoint: Endpoint, body: bytes, deadline: float, *, verified: bool) -> Answer:
    handling = endpoint.handle(body, verified=verified, deadline=deadline)
    if not endpoint.is_cancelled:
        return await handling
    try:
        async with asyncio.timeout_at(deadline + BACKSTOP_SECONDS) as backstop:
            return await handling
    except TimeoutError:
        if not backstop.expired():
            raise
        message = "no decision within the API server's time limit"
        raise RequestRefusal(503, "failed", message) from None


async def _answered(answering: Awaitable[Answer]) -> tuple[web.Response, str]:
    """Return the response and the outcome for metrics, or those for an error.

    Raises RequestRefusal.
    """
    try:
        answer = await answering
    except RequestRefusal:
        raise
    except MalformedReview as error:
        return error_response(400, str(error)), "malformed"
    except Exception:
        error_id = uuid4().hex
        _LOG.exception("review failed", extra={"failure": error_id})
        return error_response(500, f"internal error {error_id}"), "failed"
    return web.Response(body=answer.content, content_type=JSON), answer.outcome
