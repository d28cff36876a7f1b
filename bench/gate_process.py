"""A shim with a gate: `gate_process.py ADDRESS QUEUES SECONDS`.

Prints its current and peak resident memory in MiB when the gate decides, and then the microseconds
of a new and of a repeated question, and of a bare function that looks the question up in a dict, by
kind.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import queuegate
from bench import policies
from bench.processes import resident_mib
from bench.questions import Kind, Questions
from bench.timing import Stopwatch
from queuegate.policy.decision import Access

KINDS: Final = (Kind.USER, Kind.GROUP, Kind.WILDCARD, Kind.DENIED, Kind.MISSING)
_AT_ONCE: Final = 500
_LIMIT: Final = 120.0
_Asked: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A question's user, queue and groups."""


def _peak_mib() -> float:
    [line] = [
        each for each in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in each
    ]
    return int(line.split()[1]) / 1024


def _times(gate: queuegate.Gate, questions: Questions, kind: Kind, seconds: float) -> list[float]:
    new, again, bare = Stopwatch(), Stopwatch(), Stopwatch()
    while new.seconds < seconds:
        asked = [(each.user, each.queue, each.groups) for each in questions.of(kind, _AT_ONCE)]
        for _, queue, _ in asked:  # its ACLs are parsed at the first question about a queue
            gate.check("nobody", queue, groups=("none",))
        before = gate.decided
        for watch in (new, again):
            watch.run(_asking(gate.check, asked))
        if gate.decided != before + 2 * len(asked):
            sys.exit("the gate has not decided by itself")
        look_up = _asking(_bare_function(asked), asked)
        look_up()
        bare.run(look_up)
    return [watch.microseconds_each for watch in (new, again, bare)]


def _asking(check: Callable[..., object], asked: list[_Asked]) -> Callable[[], int]:
    def ask() -> int:
        for user, queue, groups in asked:
            check(user, queue, groups=groups)
        return len(asked)

    return ask


def _bare_function(asked: list[_Asked]) -> Callable[..., object]:
    """Return the least that a cached `check` could do: a lookup in a dict."""
    answers: dict[tuple[object, ...], object] = {
        (user, queue, "default", Access.SUBMIT, groups, ""): object()
        for user, queue, groups in asked
    }

    def check(
        user: str,
        queue: str,
        *,
        partition: str = "default",
        access: str = Access.SUBMIT,
        groups: tuple[str, ...] | None = None,
        real_user: str = "",
    ) -> object:
        return answers.get((user, queue, partition, access, groups, real_user))

    return check


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
