"""Nobody takes the service from others by floods of HTTP/2, or by not reading."""

import time
from collections.abc import Callable
from typing import Final

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.floods import FLOODS
from tests.resilience.isolation.frame_floods import FRAME_FLOODS
from tests.resilience.isolation.message_floods import MESSAGE_FLOODS
from tests.resilience.isolation.promise import Observation, expect_isolation

ONLY: Final = {
    "bombs": "grpcio",
    "messages_over_the_limit": "grpcio",
    "metadata": "native",
    "pings": "native",
    "pongs_unread": "native",
    "settings": "native",
}
"""Floods that break the bounds over the other transport, as docs/explanation/performance.md says.
Native takes memory for messages over the limit; `test_message_limit.py` fails once it no longer
does."""
ALL: Final = FLOODS | FRAME_FLOODS | MESSAGE_FLOODS
BOTH: Final = {name: flood for name, flood in ALL.items() if name not in ONLY}
SECONDS: Final = 2.0
"""The minimum duration of a flood."""
PAUSE: Final = 0.05
"""Seconds before the next connection to a server that ended one. Hundreds of new connections a
second are another of the harder floods."""


@pytest.mark.parametrize("flood", BOTH.values(), ids=BOTH)
def test_flood(beside: Observation, record: Record, flood: Callable[[str], None]) -> None:
    expect_isolation(beside, record, lambda: repeat(flood, beside.server.address))


@pytest.mark.parametrize(
    ("beside", "flood"),
    [pytest.param(ONLY[name], ALL[name], id=name) for name in ONLY],
    indirect=["beside"],
)
def test_flood_over_one_transport(
    beside: Observation, record: Record, flood: Callable[[str], None]
) -> None:
    expect_isolation(beside, record, lambda: repeat(flood, beside.server.address))


def repeat(flood: Callable[[str], None], address: str) -> None:
    """Flood again if the server ended the connections early."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        flood(address)
        time.sleep(PAUSE)
