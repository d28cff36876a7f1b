"""Lookups that unverified callers cause leave the resolver to other users."""

import asyncio

import pytest

from queuegate_server.admission.queues.review_decider import CannotDecide
from queuegate_server.admission.server.webhook_limits import (
    MAX_STRANGERS_RUNNING,
    MAX_STRANGERS_WAITING,
)
from tests.support.fakes.loop import run_ready_callbacks
from tests.support.queue_reviews import Reviewing

pytestmark = pytest.mark.usefixtures("no_task_left")

QUEUE = "root.prod"


async def test_strangers_have_a_budget_of_their_own() -> None:
    reviewing = Reviewing()
    assert (await reviewing.review("bob", QUEUE, verified=False)).allowed
    reviewing.directory.hold.clear()
    strangers = [
        asyncio.create_task(reviewing.review(f"stranger-{number}", QUEUE, verified=False))
        for number in range(MAX_STRANGERS_RUNNING + MAX_STRANGERS_WAITING)
    ]
    await run_ready_callbacks()
    assert reviewing.directory.running == MAX_STRANGERS_RUNNING
    with pytest.raises(CannotDecide, match="too many users are being looked up for the first time"):
        await reviewing.review("one-more", QUEUE, verified=False)
    assert reviewing.audit.records[-1]["reason"] == "overloaded"

    # Users whom the cache knows, names in ACLs, and callers with a certificate are not affected.
    assert (await reviewing.review("bob", QUEUE, verified=False)).allowed
    assert (await reviewing.review("carol", "root.prod.night", verified=False)).allowed
    verified = asyncio.create_task(reviewing.review("dave", QUEUE))
    await run_ready_callbacks()
    assert reviewing.directory.running == MAX_STRANGERS_RUNNING + 1

    reviewing.directory.hold.set()
    responses = await asyncio.gather(*strangers, verified)
    assert not any(response.allowed for response in responses)
    assert not (await reviewing.review("one-more", QUEUE, verified=False)).allowed


async def test_a_stranger_who_is_known_meanwhile_needs_no_slot() -> None:
    reviewing = Reviewing()
    assert not (await reviewing.review("eve", QUEUE, verified=False)).allowed
    reviewing.directory.hold.clear()
    strangers = [
        asyncio.create_task(reviewing.review(f"stranger-{number}", QUEUE, verified=False))
        for number in range(MAX_STRANGERS_RUNNING)
    ]
    await run_ready_callbacks()
    assert not (await reviewing.review("eve", QUEUE, verified=False)).allowed
    reviewing.directory.hold.set()
    await asyncio.gather(*strangers)


async def test_reviews_that_gave_up_free_their_places() -> None:
    reviewing = Reviewing()
    reviewing.directory.hold.clear()
    reviews = [
        asyncio.create_task(
            reviewing.review(f"stranger-{number}", QUEUE, verified=False, seconds=0.01)
        )
        for number in range(MAX_STRANGERS_RUNNING + MAX_STRANGERS_WAITING)
    ]
    results = await asyncio.gather(*reviews, return_exceptions=True)
    assert all("in time" in str(result) for result in results)
    reviewing.directory.hold.set()
    await run_ready_callbacks()
    assert (await reviewing.review("bob", QUEUE, verified=False)).allowed
