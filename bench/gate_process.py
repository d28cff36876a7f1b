"""A shim with a gate: `gate_process.py ADDRESS QUEUES SECONDS`.

Prints its current and peak resident memory in MiB when the gate decides, and then the microseconds
of a new and of a repeated question, by kind.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import queuegate
from bench import policies
from bench.processes import resident_mib
from bench.questions import Kind, Questions
from bench.timing import Stopwatch

KINDS: Final = (Kind.USER, Kind.GROUP, Kind.WILDCARD, Kind.DENIED, Kind.MISSING)
_AT_ONCE: Final = 500
_LIMIT: Final = 120.0


def _peak_mib() -> float:
    [line] = [
        each for each in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in each
    ]
    return int(line.split()[1]) / 1024


def _times(gate: queuegate.Gate, questions: Questions, kind: Kind, seconds: float) -> list[float]:
    new, again = Stopwatch(), Stopwatch()
    while new.seconds < seconds:
        asked = [(each.user, each.queue, each.groups) for each in questions.of(kind, _AT_ONCE)]
        for _, queue, _ in asked:  # its ACLs are parsed at the first question about a queue
            gate.check("nobody", queue, groups=("none",))
        before = gate.decided
        for watch in (new, again):
            watch.run(_asking(gate, asked))
        if gate.decided != before + 2 * len(asked):
            sys.exit("the gate has not decided by itself")
    return [new.microseconds_each, again.microseconds_each]


def _asking(
    gate: queuegate.Gate, asked: list[tuple[str, str, tuple[str, ...]]]
) -> Callable[[], int]:
    def ask() -> int:
        for user, queue, groups in asked:
            gate.check(user, queue, groups=groups)
        return len(asked)

    return ask


if __name__ == "__main__":
    address, queues, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with queuegate.Gate(address, timeout=30) as opened:
        end = time.monotonic() + _LIMIT
        while opened.state is not queuegate.GateState.LIVE and time.monotonic() < end:
            time.sleep(0.005)
        print(json.dumps([resident_mib(), _peak_mib()]), flush=True)
        specs = policies.generate(queues)
        supply = Questions(specs, from_level=specs[-1].level)
        gc.freeze()
        times = {kind: _times(opened, supply, kind, seconds) for kind in KINDS}
        print(json.dumps(times), flush=True)
