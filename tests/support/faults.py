"""Faults of running systems, and answers that break a promise meanwhile.

    python -m tests.support.faults SYSTEM [--rounds ROUNDS] [--seed SEED] [FAULT ...]

A system has a table of faults. In each round one of them happens, while the system is asked and
changed; an answer that shows a state from before a barrier that has returned is a violation, and
so is whatever else the system promises not to do.
"""

import argparse
import asyncio
import importlib
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

SYSTEMS: Final[Mapping[str, str]] = {
    "gates": "tests.resilience.sync.faults",
    "fleet": "tests.resilience.fleet.faults",
    "resourcemanager": "tests.e2e.hadoop.faults",
}
"""The modules with tables, each with `TABLES` and `running`."""
_MOST_SHOWN: Final = 20


@dataclass
class Tally:
    """What happened."""

    rounds: Counter[str] = field(default_factory=Counter)
    """By fault."""
    fault: str = ""
    """The one of the current round."""
    answers: int = 0
    decided: int = 0
    """Answers that a gate gave by itself."""
    kept: int = 0
    """Moves of a gate after which it decided from groups that it had kept."""
    barriers: int = 0
    waited_out: int = 0
    """Barriers that waited for a lease to end."""
    failed: Counter[str] = field(default_factory=Counter)
    """Calls that ended with an error, which is allowed during a fault."""
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = {
            "answers": self.answers,
            "decided by gates": self.decided,
            "moves with groups": self.kept,
            "barriers": self.barriers,
            "that waited for a lease": self.waited_out,
            "failed calls": self.failed.total(),
            "violations": len(self.violations),
        }
        lines = [f"{dict(self.rounds)}", ", ".join(f"{n} {what}" for what, n in counts.items())]
        return "\n  ".join([*lines, *self.violations[:_MOST_SHOWN]])


class Barriers:
    """Which versions answers may show, by what changes: a user, or the policy."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._returned: dict[str, list[tuple[int, float]]] = defaultdict(list)

    def returned(self, what: str, version: int) -> None:
        """Note that a barrier has returned: calls that begin from now on show this version."""
        self._tally.barriers += 1
        self._returned[what].append((version, time.monotonic()))

    def judge(self, who: str, what: str, version: int, begun: float) -> None:
        """Note a violation if a call shows an earlier version than the barrier before it allows.

        Args:
            who: Who answered.
            what: What the answer depends on.
            version: The version that it shows.
            begun: When the call began, in seconds of the monotonic clock.
        """
        for least, at in self._returned[what]:
            if version < least and begun > at:
                late = f"{begun - at:.3f} s after {least}"
                self._tally.violations.append(f"{who}: {what} {version} {late}")
                return


class System(Protocol):
    """A running system whose table of faults a module has."""

    tally: Tally

    async def round(self, fault: Any) -> None:
        """Let a fault happen and end, with a change meanwhile."""


Running = Callable[..., AbstractAsyncContextManager[System]]


async def play(system: System, table: Mapping[str, Any], names: Iterable[str]) -> None:
    """Run a round of each of these faults."""
    for name in names:
        system.tally.fault = name
        system.tally.rounds[name] += 1
        await system.round(table[name])


def drawn(table: Iterable[str], rounds: int, chance: random.Random) -> list[str]:
    """Return a fault for each round, each as often as the others."""
    names = [*table]
    found: list[str] = []
    while len(found) < rounds:
        found += chance.sample(names, len(names))
    return found[:rounds]


async def run(running: Running, table: Mapping[str, Any], rounds: int, seed: int) -> Tally:
    """Run a system, and rounds of the faults in a table."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder), chance, table) as system:
            await play(system, table, drawn(table, rounds, chance))
        return system.tally


def main() -> int:
    """Run the command line, and return how many answers broke a promise."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("fault", nargs="*", help="default: all")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    given = parser.parse_args()
    module = importlib.import_module(SYSTEMS[given.system])
    if unknown := {*given.fault}.difference(*module.TABLES):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    violations = 0
    for each in module.TABLES:
        table = {name: made for name, made in each.items() if name in (given.fault or each)}
        if table:
            tally = asyncio.run(run(module.running, table, given.rounds, given.seed))
            print(f"{given.system}, seed {given.seed}: {tally}", flush=True)
            violations += len(tally.violations)
    return violations


if __name__ == "__main__":
    sys.exit(bool(main()))
