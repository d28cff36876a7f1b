"""Measures everything and writes bench/RESULTS.md.

Nothing else should run on the machine meanwhile. Each part is a module that can also be run alone:
`python -m bench.decisions --help`.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench import command, ghz, machine, report
from bench.command import CannotMeasure
from bench.report import ReportPart
from bench.results import spread

_FOLDER: Final = Path(__file__).parent
_RESULTS: Final = _FOLDER / "RESULTS.md"
_QUIET: Final = 0.5
_PARTS: Final = (
    "decisions",
    "columns",
    "reach",
    "users",
    "reload",
    "start",
    "idle",
    "unary",
    "native",
    "workers",
    "batch",
    "directory",
    "source_lookup",
    "outage",
    "overload",
    "gate",
    "gate_effect",
    "rbac_effect",
    "http",
    "webhook",
    "admission_queues",
    "yarn_authorizer",
)


def main() -> None:
    """Run all parts, each in a separate process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a short run, to see that everything works; its figures are printed, not written",
    )
    parser.add_argument(
        "part",
        nargs="*",
        metavar="PART",
        help=f"only these parts: {', '.join(_PARTS)}",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.part) - set(_PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    is_quick = arguments.quick
    measured: list[ReportPart] = []
    loops: list[float] = []
    failed: list[str] = []
    text = ""
    kept = _RESULTS.read_text().partition(report.MARK)[0]
    try:
        ghz.find()
        load_before = machine.load()
        if load_before > _QUIET:
            print(f"warning: the machine is busy (load {load_before:.1f})", file=sys.stderr)
        start = time.monotonic()
        for part in arguments.part or _PARTS:
            loops.append(machine.milliseconds_of_a_loop())
            try:
                measured.append(_run(part, is_quick=is_quick))
            except CannotMeasure as error:  # the others can be measured, and their figures are kept
                failed.append(str(error))
                continue
            minutes = (time.monotonic() - start) / 60
            during = [
                ("load average before", f"{load_before:.2f}"),
                ("a fixed loop before each part, ms", spread(loops, ".0f")),
                ("duration", f"{minutes:.1f} minutes"),
            ]
            text = report.markdown(measured, [*machine.described(), *during])
            if not is_quick:
                # After each part, so that an interrupted run keeps its results.
                _RESULTS.write_text(kept + text)
    except CannotMeasure as error:
        sys.exit(f"bench: {error}")
    if text:
        print(text if is_quick else f"written: bench/{_RESULTS.name}")
    missed = [target for one in measured for target in one.part.targets if not target.is_met]
    for target in missed:
        print(f"missed: {target.what}: {target.reached}, goal {target.goal}", file=sys.stderr)
    if failed:
        sys.exit("\n".join(f"bench: {each}" for each in failed))


def _run(name: str, *, is_quick: bool) -> ReportPart:
    print(f"measuring: {name} ...", flush=True, file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="queuegate-bench-") as folder:
        output = Path(folder) / "part.json"
        arguments = ["-m", f"bench.{name}", *(["--quick"] if is_quick else [])]
        done = subprocess.run(
            [sys.executable, *arguments, "--json", output], cwd=_FOLDER.parent, check=False
        )
        if done.returncode:
            raise CannotMeasure(f"{name} could not be measured")
        return ReportPart(f"python {' '.join(arguments)}", command.read(output))


if __name__ == "__main__":
    main()
