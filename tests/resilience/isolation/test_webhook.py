"""A flood of the admission webhook is nobody else's outage, and ends no process."""

import pytest

from tests.resilience.invariants import Record
from tests.resilience.webhook_floods import FLOODS, ask, flooded, peak_memory
from tests.support.servers.webhook import Webhook

REVIEWS = 200
MAX_FAILED = 0.01
MAX_MEMORY = 512 * 1024 * 1024
GIVEN_UP = 5.0
"""When an API server takes a review for failed, in seconds. The promise is 0.1, on a machine that
does nothing else."""


@pytest.mark.parametrize("flood", FLOODS)
def test_other_clients_are_answered(webhook: Webhook, flood: str, record: Record) -> None:
    # It keeps its connection, as API servers do.
    ask(webhook, 1)
    with flooded(webhook, flood):
        asked = ask(webhook, REVIEWS)
    record("p99", asked.p99)
    record("memory", peak_memory(webhook))
    assert asked.failed < MAX_FAILED, asked.failures
    assert asked.p99 < GIVEN_UP
    assert peak_memory(webhook) < MAX_MEMORY
