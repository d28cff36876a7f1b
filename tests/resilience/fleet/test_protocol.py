"""The fleet's protocol: every order of events within bounds, through the real state machines.

`python -m tests.resilience.fleet.search` visits more states.
"""

import pytest

from tests.resilience.fleet import moving_gates
from tests.resilience.fleet.planted import PLANTED, PLANTED_FOR_GATES, Fault
from tests.resilience.fleet.world import Bounds, World
from tests.resilience.protocol.search import search

SMALL = {
    "leases": Bounds(ticks=3, heartbeats=1, lookups=0, reads=0),
    "shared groups": Bounds(ticks=0, heartbeats=1),
    "Redis is emptied": Bounds(ticks=1, heartbeats=2, lookups=0, reads=0, flushes=1),
    "Redis is trimmed": Bounds(ticks=3, heartbeats=1, lookups=0, reads=0, changes=2, trims=1),
    "Redis loses an event": Bounds(ticks=3, heartbeats=1, lookups=0, reads=0, rewinds=1),
}
MAX_STATES = 2_000
MOVES = {
    "pending changes": moving_gates.Bounds(),
    "lookups": moving_gates.Bounds(wants=1),
    "a lease that lasts": moving_gates.Bounds(
        ticks=3, begin=(("ping", 0), ("receive", 0), ("send", 0), ("take", 0))
    ),
    "a restart": moving_gates.Bounds(restarts=1),
    "a restart without the events before": moving_gates.Bounds(
        trims=1, wants=1, begin=(("invalidate", 0), ("append", 0))
    ),
    "a replica that is cut off": moving_gates.Bounds(isolations=1),
    "another policy": moving_gates.Bounds(invalidations=0, reloads=1),
}


@pytest.mark.parametrize("bounds", [*SMALL.values(), *PLANTED.values()])
def test_no_replica_answers_from_before_a_barrier(bounds: Bounds) -> None:
    found = search(bounds, world=World, max_states=MAX_STATES)
    assert found.trace is None
    assert found.states > 100


@pytest.mark.parametrize(("fault", "bounds"), PLANTED.items(), ids=[*map(str, PLANTED)])
def test_a_planted_fault_is_found(fault: Fault, bounds: Bounds) -> None:
    with fault.planted():
        assert search(bounds, world=World, max_states=400_000).trace is not None


@pytest.mark.parametrize("bounds", MOVES.values(), ids=MOVES)
def test_no_gate_that_moves_decides_from_before_a_barrier(bounds: moving_gates.Bounds) -> None:
    found = search(bounds, world=moving_gates.World, max_states=12_000)
    assert found.trace is None
    assert found.states > 5_000


@pytest.mark.parametrize(
    ("fault", "bounds"), PLANTED_FOR_GATES.items(), ids=[*map(str, PLANTED_FOR_GATES)]
)
def test_a_planted_fault_of_moves_is_found(fault: Fault, bounds: moving_gates.Bounds) -> None:
    with fault.planted():
        assert search(bounds, world=moving_gates.World, max_states=100_000).trace is not None
