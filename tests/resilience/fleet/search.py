"""Searches the states of a fleet, and of a gate that moves between its replicas, with wider bounds
than the tests.

python -m tests.resilience.fleet.search [STATES]
"""

import sys

from tests.resilience.fleet import moving_gates, world
from tests.resilience.protocol.search import search

WIDE = (
    (
        world.World,
        world.Bounds(ticks=4, changes=2, flushes=1, trims=1, rewinds=1, restores=1),
    ),
    (
        moving_gates.World,
        moving_gates.Bounds(
            invalidations=2,
            reloads=1,
            ticks=3,
            restarts=1,
            trims=1,
            isolations=1,
            pings=2,
            connects=2,
            wants=1,
        ),
    ),
)

if __name__ == "__main__":
    states = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    has_failed = False
    for start, bounds in WIDE:
        found = search(bounds, max_states=states, world=start)
        print(f"{start.__module__}: {found.states} states: ", end="", flush=True)
        if found.trace is None:
            print("nobody decides from a state that a barrier promised to be gone")
        else:
            has_failed = True
            print("a fault:", *found.trace, sep="\n")
    sys.exit(has_failed)
