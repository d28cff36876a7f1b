"""Reads the Dockerfile; where the project is, and the environment of what installs it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[3]
# Filled by `make verify`; without it pip asks its index.
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
