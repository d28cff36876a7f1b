"""Floods of HTTP that never ends, at either port of the webhook, are nobody else's outage."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.promise import Observation, expect_isolation
from tests.resilience.isolation.stream_floods import STREAMS, flooded
from tests.resilience.isolation.webhook_floods import authority_of, observed_webhook
from tests.support.servers.webhook import Webhook, running_webhook

SECONDS: Final = 2.0
MAX_MEMORY: Final = 150 << 20
"""These floods hold nothing: the webhook takes 60 to 90 MiB without them."""


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """A webhook that keeps no memory of other floods."""
    with running_webhook(tmp_path_factory.mktemp("webhook")) as webhook:
        yield webhook


@pytest.fixture(scope="module")
def beside(streamed: Webhook) -> Iterator[Observation]:
    with observed_webhook(streamed) as observation:
        yield observation


@pytest.mark.parametrize("port", ["webhook", "operations port"])
@pytest.mark.parametrize("flood", STREAMS)
def test_flood(
    streamed: Webhook, beside: Observation, record: Record, flood: str, port: str
) -> None:
    address, authority = _ends(streamed, port)

    def act() -> None:
        with flooded(address, authority, flood):
            time.sleep(SECONDS)

    expect_isolation(beside, record, act, MAX_MEMORY)


def _ends(webhook: Webhook, port: str) -> tuple[str, Path | None]:
    if port == "webhook":
        return webhook.address, authority_of(webhook)
    return webhook.ops, None
