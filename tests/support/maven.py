"""Maven, for tests that build Java programs. Builds in this checkout wait for each other."""

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

BUILD_SECONDS: Final = 1800
CLIENT: Final = Path(__file__).parents[2] / "client" / "java"
"""The module of the client for Java."""

_TOOLS: Final = Path(__file__).parents[2] / ".tools"
_UNREACHABLE: Final = re.compile(
    "Could not (transfer|find) artifact|Could not resolve dependencies"
)
"""What Maven prints of a registry that does not answer."""


def maven(folder: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run Maven in a folder at low priority, without settings of queuegate in its environment.

    The calling test is skipped if Java or Maven is absent, or Maven cannot fetch packages.
    """
    for program in ("mvn", "javac", "java"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not on the path")
    foreign = {name: value for name, value in os.environ.items() if name[:10] != "QUEUEGATE_"}
    _TOOLS.mkdir(exist_ok=True)
    with (_TOOLS / "maven.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["nice", "-n", "19", "mvn", "-B", "-q", *arguments],
            cwd=folder,
            env={**foreign, **extra},
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_SECONDS,
        )
    if done.returncode and _UNREACHABLE.search(done.stdout):
        pytest.skip(f"mvn cannot fetch packages: {done.stdout[:300]}")
    return done


def build(folder: Path, *goals: str) -> None:
    """Build a module without its tests, which must succeed."""
    done = maven(folder, "-DskipTests", *goals)
    assert done.returncode == 0, done.stdout + done.stderr
