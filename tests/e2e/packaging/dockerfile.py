"""Reads the Dockerfile and carries out its build stage in a folder, without Docker."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[3]
# Filled by `make test`; without it pip asks its index.
WHEELS = PROJECT / ".cache" / "wheels"


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction and its argument; comments and continuations are resolved."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            instruction, _, argument = line.strip().partition(" ")
            yield instruction, argument.strip()


def stage(text: str, name: str) -> list[tuple[str, str]]:
    """Return the instructions of a stage; the last one has no name (`""`)."""
    steps: list[tuple[str, str]] = []
    current = None
    for instruction, argument in instructions(text):
        if instruction == "FROM":
            current = argument.partition(" AS ")[2]
        elif current == name:
            steps.append((instruction, argument))
    return steps


def environment() -> dict[str, str]:
    """Return the variables for pip and scripts: those of this machine, and local wheels."""
    kept = ("HOME", "PATH", "LANG", "TMPDIR", "SSL_CERT_FILE")
    variables = {
        name: value
        for name, value in os.environ.items()
        if name in kept or name.startswith("PIP_") or name.lower().endswith("_proxy")
    }
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    if WHEELS.is_dir():
        variables |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS)}
    return variables


def carry_out(steps: list[tuple[str, str]], root: Path) -> None:
    """Do what the instructions say, with `root` in the place of `/`.

    Raises CalledProcessError if a command fails, ValueError for an instruction that
    this does not know.
    """
    variables = environment()
    folder = root
    for instruction, argument in steps:
        if instruction == "ENV":
            variables |= dict(pair.split("=", 1) for pair in shlex.split(argument))
        elif instruction == "WORKDIR":
            folder = root / argument.lstrip("/")
            folder.mkdir(parents=True)
        elif instruction == "COPY":
            *sources, target = argument.split()
            _copy(sources, folder / target, is_folder=target.endswith("/"))
        elif instruction == "RUN":
            command = re.sub(r"(?<=[ =])/(?=opt\b)", f"{root}/", argument)
            subprocess.run(["sh", "-ec", command], cwd=folder, env=variables, check=True)
        else:
            raise ValueError(f"cannot carry out {instruction} {argument}")


def _copy(sources: list[str], target: Path, *, is_folder: bool) -> None:
    for source in sources:
        if (PROJECT / source).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT / source, target, ignore=ignored)
        else:
            place = target / Path(source).name if is_folder else target
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / source, place)
