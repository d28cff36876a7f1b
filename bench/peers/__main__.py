"""Measures our server beside other policy servers and writes bench/PEERS.md.

Nothing else should run on the machine meanwhile. The first run builds missing programs into
.tools/peers, which takes Go, npm and about ten minutes.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench import ghz, machine
from bench.command import CannotMeasure
from bench.peers import generators, h2load, install, report
from bench.peers.measure import FULL, QUICK, measure
from bench.peers.peers import PEERS

_FOLDER = Path(__file__).parents[1]


def main() -> None:
    """Measure, and write the document."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a short run, to see that everything works; its figures are printed, not written",
    )
    parser.add_argument("--build", action="store_true", help="only build what is missing")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="write there, also if the run is short (default: bench)",
    )
    parser.add_argument(
        "server", nargs="*", help="only servers with such a word in their name, and our own"
    )
    arguments = parser.parse_args()
    load = machine.load()
    start = time.monotonic()
    try:
        if arguments.build:
            _build()
            return
        _find_generators()
        with tempfile.TemporaryDirectory(prefix="queuegate-bench-") as folder:
            scale = QUICK if arguments.quick else FULL
            results = measure(scale, Path(folder), arguments.server)
    except CannotMeasure as error:
        sys.exit(f"bench: {error}")
    facts = [
        *machine.described(),
        ("load average before", f"{load:.2f}"),
        ("duration", f"{(time.monotonic() - start) / 60:.1f} minutes"),
    ]
    text = report.markdown(results, facts, (_FOLDER / "PEERS.md").read_text())
    output: Path | None = arguments.output or (None if arguments.quick else _FOLDER)
    if output is None:
        print(text)
        return
    output.mkdir(parents=True, exist_ok=True)
    (output / "PEERS.md").write_text(text)
    print(f"written: {output / 'PEERS.md'}")


def _find_generators() -> None:
    h2load.find()
    ghz.find()
    install.own_go_program(generators.OWN)


def _build() -> None:
    print(f"ghz: {ghz.find()}")
    print(f"{generators.OWN}: {install.own_go_program(generators.OWN)}")
    for peer in PEERS:
        try:
            print(f"{peer.name}: {peer.install()}")
        except CannotMeasure as error:
            print(f"{peer.name}: {error}")


if __name__ == "__main__":
    main()
