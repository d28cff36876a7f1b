"""Searches the states of a fleet with wider bounds than the tests.

python -m tests.resilience.fleet.search [STATES]
"""

import sys

from tests.resilience.fleet.world import Bounds, Parts, World
from tests.resilience.protocol.search import search

if __name__ == "__main__":
    wide = Bounds(ticks=4, changes=2, flushes=1, trims=1, rewinds=1)
    found = search(wide, Parts, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, World)
    print(f"{found.states} states: ", end="")
    if found.trace is None:
        print("no replica answers from a state that a barrier promised to be gone")
    else:
        print("a fault:", *found.trace, sep="\n")
    sys.exit(found.trace is not None)
