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

ALL: Final = FLOODS | FRAME_FLOODS | MESSAGE_FLOODS
HARDER: Final = {"grpcio": {"pongs_unread"}, "native": {"bombs", "messages_over_the_limit"}}
"""Floods that break the bounds over a transport, listed in docs/explanation/performance.md. Native
takes memory for messages over the limit; `test_message_limit.py` fails once it no longer does."""
CASES: Final = [
    pytest.param(transport, flood, id=f"{transport}-{name}")
    for transport, harder in HARDER.items()
    for name, flood in ALL.items()
    if name not in harder
]
SECONDS: Final = 2.0
"""For how long at least a flood lasts."""
PAUSE: Final = 0.05
"""Seconds before the next connection to a server that ended one. Hundreds of new connections a
second are another of the harder floods."""


@pytest.mark.parametrize(("beside", "flood"), CASES, indirect=["beside"])
def test_flood(beside: Observation, record: Record, flood: Callable[[str], None]) -> None:
    def repeated() -> None:
        """Flood again if the server ended the connections early."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            flood(beside.server.address)
            time.sleep(PAUSE)

    expect_isolation(beside, record, repeated)
