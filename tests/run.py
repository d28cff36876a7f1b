"""Runs the steps of `make test`, or doors of `make verify`: a line for each, with its time and, in
parentheses, the processor time of its processes.

    python -m tests.run check
    python -m tests.run test
    python -m tests.run verify [DOOR ...]
    python -m tests.run touched [MINUTES]

Two steps run at a time. Every few seconds, a line names them and counts their tests. What a step
prints is shown if it fails; the reasons for skipped tests are always shown. `touched` runs the
doors that concern what changed since the main branch, or all of them where that cannot be told: the
shortest first, as many as fit in the given minutes. It names those that do not.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from tests.support import doors
from tests.support.doors import PROJECT

AT_ONCE: Final = 2
_PROGRAMS: Final = Path(sys.executable).parent
PYTEST: Final = (
    *(str(_PROGRAMS / "pytest"), "--quiet", "--no-header", "--color=no"),
    # Each line of dots ends with the number of all tests, as `_progress` expects it.
    *("-o", "console_output_style=count"),
)
_BESIDE: Final = ("--dist", "loadfile", "--no-loadscope-reorder", "-n")
_PROCESSES: Final = "2"
_WAITING: Final = {"integration tests": "4"}
"""How many processes run a step whose tests wait for much of their time."""
_PROGRESS_SECONDS: Final = 5.0
"""How many seconds pass between two lines about the steps that run."""
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
    return [
        Step("types", [program("mypy")]),
        Step("lint", [program("ruff", "check", "."), program("ruff", "format", "--check", ".")]),
        Step("imports", [program("lint-imports", "--no-logo")]),
        Step("contract", [(*_BUF, "lint"), (*_BUF, "build"), breaking], PROJECT / "proto"),
        site(),
    ]


def site() -> Step:
    """Return the step that builds the documentation strictly.

    With `--quiet`, mkdocs would not count its warnings, so a dead link would not fail.
    """
    build = ("env", "NO_MKDOCS_2_WARNING=1", str(_PROGRAMS / "mkdocs"), "build", "--strict")
    return Step("site", [build])


def audit() -> Step:
    """Return the step that looks for known vulnerabilities."""
    return Step("audit", [(sys.executable, "tests/e2e/packaging/audit.py")])


def tests() -> list[Step]:
    """Return the steps of `make test` that follow the checks."""
    table, files = doors.read(), doors.test_files()
    once = ("-m", "not second_transport")
    return [
        Step(name, [(*PYTEST, *_BESIDE, _WAITING.get(name, _PROCESSES), *once, *paths)])
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
        beside.append(Step(name, [(*PYTEST, *_BESIDE, _PROCESSES, *marker, *together)]))
        if single:
            alone.append(Step(f"{name}, alone", [(*PYTEST, *marker, *single)]))
    return beside, alone


@dataclass(slots=True)
class _Running:
    """A step that runs."""

    step: Step
    begin: float = field(default_factory=time.monotonic)
    output: bytes = b""
    """What its commands have printed so far."""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begin

    @property
    def text(self) -> str:
        return self.output.decode(errors="replace")


class Run:
    """Runs steps, and prints a line for each when it ends and for all that run meanwhile."""

    def __init__(self, total: int, progress_seconds: float = _PROGRESS_SECONDS) -> None:
        self.failed: list[str] = []
        self._total = total
        self._progress_seconds = progress_seconds
        self._ended = 0
        self._running: list[_Running] = []
        self._printing = Lock()

    def all_of(self, steps: Iterable[Step], at_once: int = AT_ONCE) -> None:
        """Run steps, several at a time."""
        with ThreadPoolExecutor(at_once) as pool:
            every = [pool.submit(self._step, step) for step in steps]
            while wait(every, self._progress_seconds).not_done:
                with self._printing:
                    now = ", ".join(map(_progress, self._running))
                    print(f"        running: {now}", flush=True)
        for each in every:
            each.result()

    def _step(self, step: Step) -> None:
        running = _Running(step)
        with self._printing:
            self._running.append(running)
        status, processor = 0, 0.0
        for command in step.commands:
            with subprocess.Popen(
                command,
                cwd=step.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            ) as process:
                assert process.stdout
                while part := os.read(process.stdout.fileno(), 65_536):
                    running.output += part
                _, raw, usage = os.wait4(process.pid, 0)
                status = process.returncode = os.waitstatus_to_exitcode(raw)
            processor += usage.ru_utime + usage.ru_stime
            if status:
                break
        with self._printing:
            self._running.remove(running)
            self._ended += 1
            self._print_result(running, processor, failed=status != 0)

    def _print_result(self, ended: _Running, processor: float, *, failed: bool) -> None:
        output = ended.text
        count = re.search(r"^(\d+ (?:passed|failed|skipped).*) in [\d.]+s", output, re.MULTILINE)
        says = f"{count[1]}" if count else ""
        if failed:
            self.failed.append(ended.step.name)
            print(output, flush=True)
            says = f"FAILED {says}"
        else:
            print(*re.findall(r"^SKIPPED .*\n", output, re.MULTILINE), sep="", end="")
        seconds = f"{ended.seconds:.0f} s ({processor:.0f} s)"
        order = f"[{self._ended}/{self._total}]"
        print(f"{order:>7} {ended.step.name:<36} {seconds:>15}  {says}".rstrip(), flush=True)


def _progress(running: _Running) -> str:
    """Return the name of a step, its time, and how many of its tests have ended."""
    tests = ""
    lines = re.findall(r"^([.sxXFE]+)(?: +\[ *\d+/(\d+)\])?$", running.text, re.MULTILINE)
    if lines:
        total = f" of {lines[0][1]}" if lines[0][1] else ""
        tests = f", {sum(len(dots) for dots, _ in lines)}{total} tests"
    return f"{running.step.name} ({running.seconds:.0f} s{tests})"


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
