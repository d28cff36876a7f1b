"""The protocol of SyncService: every order of events within bounds, through the real state machines
of both sides.

`python -m tests.resilience.protocol.search` visits more states.
"""

import pytest

from tests.resilience.protocol.planted import PLANTED
from tests.resilience.protocol.search import search
from tests.resilience.protocol.world import Bounds, Parts

SMALL = {
    "a restart": Bounds(gates=1, ticks=2, pings=1, invalidations=0, wants=0),
    "groups": Bounds(gates=1, ticks=2, pings=1, policy_changes=0, restarts=0),
    "two gates": Bounds(ticks=2, pings=1, restarts=0, connects=0, invalidations=0, wants=0),
    "a planned stop": Bounds(
        gates=1, ticks=2, pings=1, connects=1, restarts=0, drains=1, invalidations=0, wants=0
    ),
    "another server": Bounds(
        gates=1, ticks=2, pings=1, restarts=0, fail_overs=1, invalidations=0, wants=0
    ),
}


@pytest.mark.parametrize("bounds", SMALL.values(), ids=SMALL)
def test_no_gate_decides_from_before_a_barrier(bounds: Bounds) -> None:
    found = search(bounds)
    assert found.trace is None
    assert found.states > 1_000


@pytest.mark.parametrize(
    ("parts", "bounds"), PLANTED.items(), ids=[each.__name__ for each in PLANTED]
)
def test_a_planted_fault_is_found(parts: type[Parts], bounds: Bounds) -> None:
    assert search(bounds, parts).trace is not None
