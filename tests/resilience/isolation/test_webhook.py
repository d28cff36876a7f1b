"""A flood of the admission webhook is nobody else's outage, and ends no process."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.promise import Observation, expect_isolation, observed
from tests.resilience.isolation.webhook_floods import FLOODS, flooded
from tests.support.servers.webhook import Webhook

SECONDS = 2.0


@pytest.fixture(scope="module")
def authority(webhook: Webhook) -> Path:
    path = webhook.files / "authority.pem"
    webhook.ca.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(scope="module")
def found(webhook: Webhook, authority: Path) -> Iterator[Observation]:
    """The webhook, and a neighbour who asks it."""
    with observed(webhook.server, webhook.address, authority) as found:
        yield found


@pytest.mark.parametrize("flood", FLOODS)
def test_flood(
    webhook: Webhook, authority: Path, found: Observation, record: Record, flood: str
) -> None:
    def act() -> None:
        with flooded(webhook, authority, flood):
            time.sleep(SECONDS)

    expect_isolation(found, record, act)
