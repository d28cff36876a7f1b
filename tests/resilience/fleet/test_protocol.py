"""The fleet's protocol: every order of events within bounds, through the real state machines.

`python -m tests.resilience.fleet.search` visits more states.
"""

import pytest

from tests.resilience.fleet.planted import PLANTED
from tests.resilience.fleet.world import Bounds, Parts, World
from tests.resilience.protocol.search import search

SMALL = {
    "leases": Bounds(ticks=3, heartbeats=1, lookups=0, reads=0),
    "shared groups": Bounds(ticks=0, heartbeats=1),
    "Redis is emptied": Bounds(ticks=1, heartbeats=2, lookups=0, reads=0, flushes=1),
    "Redis is trimmed": Bounds(ticks=3, heartbeats=1, lookups=0, reads=0, changes=2, trims=1),
    "Redis loses an event": Bounds(ticks=3, heartbeats=1, lookups=0, reads=0, rewinds=1),
}
MAX_STATES = 2_000


@pytest.mark.parametrize("bounds", [*SMALL.values(), *PLANTED.values()])
def test_no_replica_answers_from_before_a_barrier(bounds: Bounds) -> None:
    found = search(bounds, world=World, parts=Parts, max_states=MAX_STATES)
    assert found.trace is None
    assert found.states > 100


@pytest.mark.parametrize(
    ("parts", "bounds"), PLANTED.items(), ids=[each.__name__ for each in PLANTED]
)
def test_a_planted_fault_is_found(parts: type[Parts], bounds: Bounds) -> None:
    assert search(bounds, parts, world=World, max_states=400_000).trace is not None
