"""Further endpoints: what a handler receives, and how its errors are answered."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import ClientSession, web

from queuegate_server.admin.bodies import RequestRefusal
from queuegate_server.admission.server.admission_metrics import AdmissionMetrics
from queuegate_server.admission.server.endpoints import Answer, Endpoint, Handle
from queuegate_server.admission.server.review import MalformedReview
from queuegate_server.admission.server.routes import routes

NEVER = cast("Any", SimpleNamespace(reloads=1, failures=0, expires=0.0))


def answered(
    handle: Handle,
    query: str = "",
    body: bytes = b"{}",
    headers: Mapping[str, str] | None = None,
    *,
    verifies: bool = False,
) -> tuple[int, str, str]:
    """Return the status, the text and the outcome of a request to an endpoint."""

    async def ask() -> tuple[int, str, str]:
        metrics = AdmissionMetrics(NEVER, NEVER)
        app = web.Application()
        app.add_routes(routes([Endpoint("/own", handle)], metrics, verifies_clients=verifies))
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        sent = {"Content-Type": "application/json", **(headers or {})}
        try:
            async with (
                ClientSession() as session,
                session.post(f"http://{host}:{port}/own{query}", data=body, headers=sent) as got,
            ):
                text = await got.text()
        finally:
            await runner.cleanup()
        [family] = [each for each in metrics.reviews.collect() if each.samples]
        [outcome] = [
            each.labels["outcome"] for each in family.samples if each.name.endswith("_total")
        ]
        return got.status, text, outcome

    return asyncio.run(ask())


@pytest.mark.parametrize("verifies", [False, True])
@pytest.mark.parametrize(
    ("query", "seconds"), [("", 8.5), ("?timeout=10s", 8.5), ("?timeout=30s", 28.5)]
)
def test_what_a_handler_receives(query: str, seconds: float, *, verifies: bool) -> None:
    async def handle(body: bytes, *, verified: bool, deadline: float) -> Answer:
        left = deadline - asyncio.get_running_loop().time()
        assert seconds - 1 < left <= seconds
        return Answer(body + str(verified).encode(), "allowed")

    status, text, outcome = answered(handle, query, b'{"a": 1}', verifies=verifies)
    assert (status, text, outcome) == (200, f'{{"a": 1}}{verifies}', "allowed")


@pytest.mark.parametrize(
    ("error", "status", "text", "outcome"),
    [
        (MalformedReview("no review"), 400, "no review\n", "malformed"),
        (RequestRefusal(500, "failed", "no groups"), 500, "no groups\n", "failed"),
        (RequestRefusal(403, "denied", "who are you?"), 403, "who are you?\n", "denied"),
        (ValueError("secret"), 500, "internal error ", "failed"),
        (TimeoutError("secret"), 500, "internal error ", "failed"),
    ],
)
def test_errors_of_a_handler(error: Exception, status: int, text: str, outcome: str) -> None:
    async def handle(body: bytes, *, verified: bool, deadline: float) -> Answer:
        raise error

    found = answered(handle)
    assert (found[0], found[2]) == (status, outcome)
    assert found[1].startswith(text)
    assert "secret" not in found[1]


def test_a_handler_that_ignores_its_deadline_is_cancelled() -> None:
    cancelled: list[bool] = []

    async def handle(body: bytes, *, verified: bool, deadline: float) -> Answer:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        raise AssertionError("not cancelled")

    assert answered(handle, "?timeout=200ms") == (
        503,
        "no decision within the API server's time limit\n",
        "failed",
    )
    assert cancelled == [True]


def test_other_content_types_do_not_reach_a_handler() -> None:
    async def handle(body: bytes, *, verified: bool, deadline: float) -> Answer:
        raise AssertionError("the handler was called")

    found = answered(handle, headers={"Content-Type": "text/plain"})
    assert found == (415, "the content type must be application/json\n", "malformed")
