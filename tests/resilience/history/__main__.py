"""`make history`: rounds of calls and events over both transports, with one worker, with two, and
with a fleet of three replicas, until the time is over or an answer has no explanation.
"""

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.resilience.history import rounds
from tests.resilience.history.records import as_text

ROUND_SECONDS = 60.0
SET_UPS: Mapping[str, Mapping[str, Any]] = {
    "one-worker": {"workers": 1},
    "two-workers": {"workers": rounds.WORKERS},
    "fleet": {"fleet": True},
}


def main() -> None:
    """Run, and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.resilience.history", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--set-ups", nargs="+", choices=SET_UPS, help="default: all")
    parser.add_argument(
        "--failing",
        type=float,
        metavar="PART",
        help="of the changes of groups, after which a user cannot be looked up; default: random",
    )
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write the history of a server that violated a rule",
    )
    given = parser.parse_args()
    calls: Counter[str] = Counter()
    events: Counter[str] = Counter()
    decisions, check_seconds, begin = 0, 0.0, time.monotonic()
    set_ups = itertools.cycle(
        itertools.product(("grpcio", "native"), given.set_ups or SET_UPS, (True, False))
    )
    for seed in itertools.count(given.seed):
        left = given.minutes * 60 - (time.monotonic() - begin)
        if left <= 0:
            break
        transport, set_up, invalidates = next(set_ups)
        one = rounds.run(
            min(ROUND_SECONDS, left),
            transport=transport,
            **SET_UPS[set_up],
            invalidates=invalidates,
            # Groups must live long enough to be too old.
            restarts=3 if invalidates else 1,
            failing=given.failing,
            seed=seed,
        )
        calls += one.calls
        events += one.events
        decisions += one.decisions
        check_seconds += one.check_seconds
        print(
            f"{transport}, {set_up}, {'in' if invalidates else 'no in'}validations,"
            f" seed {seed}: {one.calls.total()} calls,"
            f" {one.decisions} answers, checked in {one.check_seconds:.1f} s,"
            f" violations: {len(one.violations)}",
            flush=True,
        )
        if one.violations:
            _report(one, given.output)
            sys.exit(1)
    print(f"calls: {_counts(calls)}\nevents: {_counts(events)}")
    print(f"answers: {decisions}, checked in {check_seconds:.0f} s; violations: 0")


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common())


def _report(one: rounds.Round, output: Path | None) -> None:
    for _, violation in one.violations[:20]:
        print(f"{violation.kind}: {violation.evidence}\n    {violation.call}")
    if output is not None:
        output.write_text(as_text(one.violations[0][0]))
        print(f"the whole history: {output}")


if __name__ == "__main__":
    main()
