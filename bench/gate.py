"""A gate: the time until it decides, its memory, and the cost of a decision."""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench import policies, processes
from bench.command import CannotMeasure, Scale, main
from bench.gate_process import KINDS
from bench.results import Part, Table, Target, ratios, spread

_CALLERS: Final = "callers.loopback={roles: [check, sync], assert_groups: true}"
_SMALL: Final = 200
_MAX_SECONDS: Final = 5.0
_MAX_MIB: Final = 400
_MAX_NEW: Final = 10.0
_MAX_AGAIN: Final = 2.5
_BARE: Final = "times the bare function"
_LIMIT: Final = 300.0


class _Run(NamedTuple):
    """One start of a process with a gate."""

    seconds: float
    """From the start of the process until the gate may first decide."""
    resident: float
    peak: float
    times: dict[str, list[float]]
    """Microseconds for a new and for a repeated question and for the bare function, by kind."""


def measure(scale: Scale, folder: Path) -> Part:
    """Start gates with a small and with a very large policy."""
    folder.mkdir(exist_ok=True)
    starting = Table(
        "A gate starts",
        "A process with `queuegate.Gate`, from its start (Python and its imports included) to the "
        "moment at which it decides on its own; then its resident memory, and the largest before. "
        "The server runs already, and has sent its policy to another gate before.",
        ("queues", "starts", "seconds until live", "resident memory, MiB", "largest, MiB"),
    )
    deciding = Table(
        "A decision of a gate",
        "`Gate.check`, about queues on the lowest level, all of them asked about; groups are given "
        "in the questions. Microseconds of processor time, the loop around it included. Beside the "
        "core's decision, a new question is validated, looked up, and remembered. Another user "
        "has asked about each queue before. The bare function takes the same arguments and looks "
        "the question up in a dict; ratios are relative to it. The policy is left out of garbage "
        "collections (`gc.freeze`).",
        (
            "queues",
            "decided by",
            "bare function, µs",
            "new, µs",
            "ratio",
            "asked before, µs",
            "ratio",
        ),
    )
    part = Part([starting, deciding])
    sizes = (_SMALL, 10_000 if scale.is_quick else policies.LARGE)
    for size in sizes:
        runs = _runs(scale, folder, size)
        seconds = [run.seconds for run in runs]
        resident = [run.resident for run in runs]
        starting.add(
            f"{size:,}",
            str(len(runs)),
            spread(seconds, ".2f"),
            spread(resident, ".0f"),
            spread([run.peak for run in runs], ".0f"),
        )
        new, again = [], []
        for kind in KINDS:
            fresh, known, bare = zip(*(run.times[kind] for run in runs), strict=True)
            deciding.add(
                f"{size:,}",
                kind,
                spread(bare, ".3f"),
                spread(fresh, ".2f"),
                spread(ratios(fresh, bare), ".1f"),
                spread(known, ".2f"),
                spread(ratios(known, bare), ".2f"),
            )
            new.append(statistics.median(ratios(fresh, bare)))
            again.append(statistics.median(ratios(known, bare)))
        name = f"gate of {size:,} queues"
        part.targets += [
            _target(f"{name}: start to live", statistics.median(seconds), _MAX_SECONDS, "s"),
            _target(f"{name}: resident memory", statistics.median(resident), _MAX_MIB, "MiB"),
            _target(
                f"{name}: new question, median of kinds", statistics.median(new), _MAX_NEW, _BARE
            ),
            _target(f"{name}: asked before, slowest kind", max(again), _MAX_AGAIN, _BARE),
        ]
    return part


def _runs(scale: Scale, folder: Path, size: int) -> list[_Run]:
    specs = policies.generate(size)
    file = folder / f"queues-{size}.yaml"
    file.write_text(policies.to_yaml(specs))
    command = [*processes.queuegate(file), "--set", _CALLERS]
    with processes.running(command, folder / str(size)) as server:
        # The first one is not counted: the server converts its policy for it.
        return [_run(scale, server.address, size) for _ in range(scale.rounds + 1)][1:]


def _run(scale: Scale, address: str, size: int) -> _Run:
    seconds = str(scale.seconds / 10)
    command = [sys.executable, "-m", "bench.gate_process", address, str(size), seconds]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            raise CannotMeasure("the process has no output")
        line = process.stdout.readline()
        live = time.perf_counter() - start
        times = process.stdout.readline()
        if process.wait(_LIMIT) or not times:
            raise CannotMeasure("the gate did not decide, see above")
    resident, peak = json.loads(line)
    return _Run(live, resident, peak, json.loads(times))


def _target(name: str, reached: float, most: float, unit: str) -> Target:
    return Target(name, f"< {most:g} {unit}", f"{reached:.2f} {unit}", reached < most)


if __name__ == "__main__":
    main(measure, __doc__)
