"""A flood of the admission webhook is nobody else's outage, and ends no process."""

import time
from collections.abc import Iterator

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.promise import Observation, expect_isolation
from tests.resilience.isolation.webhook_floods import FLOODS, flooded, observed_webhook
from tests.support.servers.webhook import Webhook

SECONDS = 2.0


@pytest.fixture(scope="module")
def beside(webhook: Webhook) -> Iterator[Observation]:
    with observed_webhook(webhook) as observation:
        yield observation


@pytest.mark.parametrize("flood", FLOODS)
def test_flood(webhook: Webhook, beside: Observation, record: Record, flood: str) -> None:
    def act() -> None:
        with flooded(webhook, flood):
            time.sleep(SECONDS)

    expect_isolation(beside, record, act)
