"""Nobody takes the service from others by floods of HTTP/2, or by not reading."""

from collections.abc import Callable

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.floods import FLOODS
from tests.resilience.isolation.promise import Observation, expect_isolation


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_flood(beside: Observation, record: Record, flood: Callable[[str], None]) -> None:
    expect_isolation(beside, record, lambda: flood(beside.server.address))
