"""Reads, runs and renders golden cases, whose form `tests/cases/README.md` describes."""

import contextlib
import difflib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from unittest import mock

ROOT: Final = Path(__file__).parents[2]
_FILE: Final = re.compile(r"^-- (\S.*) --$", re.MULTILINE)
_PATTERN: Final = re.compile(r"[\w/-]*\*\.\w+")
_ASSIGNMENT: Final = re.compile(r"[A-Z_]+=")
_MARKED: Final = re.compile(r"$|\$ |#|[12]>|\[|-- |\\ ")
"""The beginnings of lines of standard output that would be read as something else."""
_NOW: Final = re.compile(r"20(?:2[6-9]|[3-9]\d)-\d\d-\d\d \d\d:\d\d:\d\d(?:Z| UTC)?")
"""A time of this run; those of the fixtures are earlier."""
_END: Final = "END"
_NO_NEWLINE: Final = "\\ no newline at the end"

Program = Callable[[Sequence[str]], int]
"""Runs a command line in this process, on `sys.stdin`, `sys.stdout` and `sys.stderr`."""


@dataclass
class Step:
    """A command of a case."""

    lead: list[str]
    """The blank lines and comments before the command."""
    command: str = ""
    source: str = ""
    """What the command reads from its standard input, if it ends with `<<END`."""
    output: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the lines of the step in its file."""
        source = [*self.source.removesuffix("\n").split("\n"), _END] if self.source else []
        return [*self.lead, *([f"$ {self.command}"] if self.command else []), *source, *self.output]


@dataclass
class Case:
    """Commands with their output, and the files that they read."""

    steps: list[Step]
    files: dict[str, str]

    @property
    def transcript(self) -> list[str]:
        """The lines before the files."""
        return [line for step in self.steps for line in step.lines()]

    def __str__(self) -> str:
        files = "".join(f"-- {name} --\n{text}" for name, text in self.files.items())
        return "".join(f"{line}\n" for line in self.transcript) + files


def read_case(path: Path) -> Case:
    """Read a case from its file."""
    transcript, *rest = _FILE.split(path.read_bytes().decode())
    steps = [Step([])]
    lines = iter(transcript.removesuffix("\n").split("\n"))
    for line in lines:
        last = steps[-1]
        if line.startswith("$ ") and last.command:
            steps.append(Step([], line[2:]))
        elif line.startswith("$ "):
            last.command = line[2:]
        elif not last.command:
            last.lead.append(line)
        elif not line or line.startswith("#"):
            steps.append(Step([line]))
        else:
            last.output.append(line)
        if line.startswith("$ ") and line.endswith(f"<<{_END}"):
            source = itertools.takewhile(lambda each: each != _END, lines)
            steps[-1].source = "".join(f"{each}\n" for each in source)
    files = {
        name: text.removeprefix("\n") for name, text in zip(rest[::2], rest[1::2], strict=True)
    }
    return Case(steps, files)


def check_case(
    path: Path,
    folder: Path,
    programs: Mapping[str, Program],
    shown: Mapping[str, str] | None = None,
) -> None:
    """Run a case in an empty folder and compare its output, or rewrite it if UPDATE is set.

    Args:
        path: The file with the case.
        folder: An empty folder, which must be the working directory.
        programs: What runs in this process; all other commands are run by `/bin/sh`.
        shown: Texts of the output that differ from run to run, with what is written for them.
    """
    case = read_case(path)
    for name, text in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    before = case.transcript
    for step in case.steps:
        if step.command:
            step.output = _run(step, programs, {**(shown or {}), str(folder): "$PWD"})
    after = case.transcript
    if os.environ.get("UPDATE"):
        path.write_bytes(str(case).encode())
    elif before != after:
        difference = difflib.unified_diff(before, after, str(path), "now", lineterm="")
        raise AssertionError("\n".join(["UPDATE=1 rewrites what is expected:", *difference]))


def _run(step: Step, programs: Mapping[str, Program], shown: Mapping[str, str]) -> list[str]:
    """Return the lines that a case shows for the outcome of a command."""
    command = step.command.removesuffix(f"<<{_END}").replace("$ROOT", str(ROOT))
    source = step.source.encode()
    words = shlex.split(command.replace("$PWD", str(Path.cwd())))
    variables = {}
    while words and _ASSIGNMENT.match(words[0]):
        name, _, variables[name] = words.pop(0).partition("=")
    if words and (program := programs.get(words[0])):
        if "<" in words:
            source = Path(words.pop(words.index("<") + 1)).read_bytes()
        target = Path(words.pop(words.index(">") + 1)) if ">" in words else None
        arguments = [each for word in words[1:] if word not in {"<", ">"} for each in _files(word)]
        with mock.patch.dict(os.environ, variables):
            status, output, errors = _call(program, arguments, source)
        if target:
            target.write_bytes(output)
            output = b""
    else:
        done = subprocess.run(
            ["/bin/sh", "-c", command], input=source, capture_output=True, check=False
        )
        status, output, errors = done.returncode, done.stdout, done.stderr
    lines = [
        *(
            f"1> {line}".rstrip(" ") if _MARKED.match(line) else line
            for line in _lines(output, shown)
        ),
        *(f"2> {line}".rstrip(" ") for line in _lines(errors, shown)),
    ]
    return [*lines, *([f"[{status}]"] if status else [])]


def _files(word: str) -> list[str]:
    """Expand a pattern such as `*.yaml` as a shell does."""
    found = sorted(map(str, Path().glob(word))) if _PATTERN.fullmatch(word) else []
    return found or [word]


def _call(program: Program, arguments: Sequence[str], source: bytes) -> tuple[int, bytes, bytes]:
    """Return the status, the output and the errors of a program that runs in this process."""
    output, errors = io.BytesIO(), io.BytesIO()
    with (
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(source), "utf-8")),
        contextlib.redirect_stdout(io.TextIOWrapper(output, "utf-8", write_through=True)) as out,
        contextlib.redirect_stderr(io.TextIOWrapper(errors, "utf-8", write_through=True)) as err,
    ):
        try:
            status = program(arguments)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        written = output.getvalue(), errors.getvalue()
        out.detach()
        err.detach()
    return status, *written


def _lines(text: bytes, shown: Mapping[str, str]) -> list[str]:
    decoded = text.decode()
    for varying, name in shown.items():
        decoded = decoded.replace(varying, name)
    decoded = _NOW.sub("$NOW", decoded.replace(str(ROOT), "$ROOT"))
    lines = decoded.split("\n")
    return lines[:-1] if not lines[-1] else [*lines, _NO_NEWLINE]
