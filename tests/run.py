"""Runs the steps of `make test`, or doors of `make verify`: a line for each, with its time and, in
parentheses, the processor time of its processes.

    python -m tests.run check
    python -m tests.run test
    python -m tests.run verify [DOOR ...]
    python -m tests.run touched [MINUTES]

Two steps run at a time. What a step prints is shown if it fails; the reasons for skipped tests are
always shown. `touched` runs the doors that concern what changed since the main branch, or all of
them where that cannot be told: the shortest first, as many as fit in the given minutes. It names
those that do not.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from tests.support import doors
from tests.support.doors import PROJECT

AT_ONCE: Final = 2
_PROGRAMS: Final = Path(sys.executable).parent
_PYTEST: Final = (str(_PROGRAMS / "pytest"), "--quiet", "--no-header", "--color=no")
_BESIDE: Final = ("--dist", "loadfile", "--no-loadscope-reorder", "-n")
_PROCESSES: Final = "2"
_WAITING: Final = {"integration tests": "4"}
"""How many processes run a step whose tests wait for much of their time."""
_BUF: Final = ("env", "BUF_CACHE_DIR=../.cache/buf", str(_PROGRAMS / "buf"))


@dataclass(frozen=True, slots=True)
class Step:
    """Commands that run one after the other."""

    name: str
    commands: Sequence[Sequence[str]]
    folder: Path = PROJECT


def checks() -> list[Step]:
    """Return the steps of `make check`."""

    def program(name: str, *arguments: str) -> tuple[str, ...]:
        return (str(_PROGRAMS / name), *arguments)

    breaking = (*_BUF, "breaking", "--against", "released.binpb")
    site = ("env", "NO_MKDOCS_2_WARNING=1", *program("mkdocs", "build", "--quiet"))
    return [
        Step("types", [program("mypy")]),
        Step("lint", [program("ruff", "check", "."), program("ruff", "format", "--check", ".")]),
        Step("imports", [program("lint-imports", "--no-logo")]),
        Step("contract", [(*_BUF, "lint"), (*_BUF, "build"), breaking], PROJECT / "proto"),
        Step("site", [site]),
    ]


def audit() -> Step:
    """Return the step that looks for known vulnerabilities."""
    return Step("audit", [(sys.executable, "tests/e2e/packaging/audit.py")])


def tests() -> list[Step]:
    """Return the steps of `make test` that follow the checks."""
    table, files = doors.read(), doors.test_files()
    once = ("-m", "not second_transport")
    return [
        Step(name, [(*_PYTEST, *_BESIDE, _WAITING.get(name, _PROCESSES), *once, *paths)])
        for name in table.steps
        if (paths := table.files_of_step(name, files))
    ]


def verification(names: Iterable[str]) -> tuple[list[Step], list[Step]]:
    """Return the steps of doors: those that run beside others, and those that follow alone."""
    table, files = doors.read(), doors.test_files()
    beside, alone = [], []
    for name in names:
        door = table.doors[name]
        if door.command:
            alone.append(Step(name, [door.command]))
            continue
        marker = ("-m", door.marker) if door.marker else ()
        together, single = table.files_of_door(name, files)
        beside.append(Step(name, [(*_PYTEST, *_BESIDE, _PROCESSES, *marker, *together)]))
        if single:
            alone.append(Step(f"{name}, alone", [(*_PYTEST, *marker, *single)]))
    return beside, alone


class Run:
    """Runs steps and prints a line for each."""

    def __init__(self, total: int) -> None:
        self.failed: list[str] = []
        self._total = total
        self._ended = 0
        self._printing = Lock()

    def all_of(self, steps: Iterable[Step], at_once: int = AT_ONCE) -> None:
        """Run steps, several at a time."""
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(self._step, steps))

    def _step(self, step: Step) -> None:
        begin = time.monotonic()
        output, status, processor = "", 0, 0.0
        for command in step.commands:
            with subprocess.Popen(
                command,
                cwd=step.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process:
                assert process.stdout
                output += process.stdout.read()
                _, raw, usage = os.wait4(process.pid, 0)
                status = process.returncode = os.waitstatus_to_exitcode(raw)
            processor += usage.ru_utime + usage.ru_stime
            if status:
                break
        with self._printing:
            self._ended += 1
            count = re.search(
                r"^(\d+ (?:passed|failed|skipped).*) in [\d.]+s", output, re.MULTILINE
            )
            says = f"{count[1]}" if count else ""
            if status:
                self.failed.append(step.name)
                print(output, flush=True)
                says = f"FAILED {says}"
            else:
                print(*re.findall(r"^SKIPPED .*\n", output, re.MULTILINE), sep="", end="")
            seconds = f"{time.monotonic() - begin:.0f} s ({processor:.0f} s)"
            order = f"[{self._ended}/{self._total}]"
            print(f"{order:>7} {step.name:<36} {seconds:>15}  {says}".rstrip(), flush=True)


def changed_files() -> list[str] | None:
    """Return the files that differ from the main branch; None if git cannot tell, or none do."""
    for branch in ("origin/HEAD", "origin/main", "main"):
        base = _git("merge-base", "HEAD", branch)
        if base is not None:
            changed = _git("diff", "--name-only", "--no-renames", base.strip())
            added = _git("ls-files", "--others", "--exclude-standard")
            if changed is None or added is None:
                return None
            return [*changed.splitlines(), *added.splitlines()] or None
    return None


def _git(*arguments: str) -> str | None:
    done = subprocess.run(
        ["git", "-c", "core.quotePath=false", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode else done.stdout


def main(what: str, *names: str) -> int:
    """Run what is asked for, and return the exit status."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.monotonic()
    table = doors.read()
    known = table.doors
    minutes = names[0] if what == "touched" and names else None
    if minutes is not None:
        names = ()
    if unknown := [name for name in names if name not in known]:
        print(
            f"no door of `make verify` is named {unknown[0]}: {', '.join(known)}", file=sys.stderr
        )
        return 2
    if what in {"check", "test"}:
        first = [*checks(), *([audit()] if what == "test" else [])]
        then = tests() if what == "test" else []
        run = Run(len(first) + len(then))
        run.all_of(first)
        if not run.failed:
            run.all_of(then)
    else:
        if what == "touched":
            changed = changed_files()
            every = [name for name, door in known.items() if not door.command]
            names = tuple(every if changed is None else table.concerned(changed))
            print(f"doors that the change concerns: {', '.join(names) or 'none'}", flush=True)
            if minutes is not None:
                shortest, others = table.within(names, int(minutes))
                names = tuple(shortest)
                if others:
                    left = ", ".join(others)
                    print(f"left out, for `make verify`: {left} ({minutes} minutes)", flush=True)
        beside, alone = verification(names or (known if what == "verify" else ()))
        run = Run(len(beside) + len(alone))
        run.all_of(beside)
        run.all_of(alone, at_once=1)
    seconds = time.monotonic() - begin
    if run.failed:
        print(f"failed: {', '.join(run.failed)} ({seconds:.0f} s)")
        return 1
    print(f"all passed in {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
