"""`make test` without root: it says first which programs are missing, and how to install them."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.doors import PROJECT

SCRIPT: Final = PROJECT / "tests" / "support" / "install-programs"
USER: Final = {"id": "echo 1000", "apt-get": "echo apt-get was called; exit 9"}
"""What programs do for a user on Debian, where no program of the tests is installed."""


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        (USER, f"    {SCRIPT} test\n"),
        (USER | {"sudo": "exit 1"}, f"    sudo {SCRIPT} test\n"),
        ({"id": "echo 1000"}, "without starting or enabling their services"),
    ],
    ids=["no sudo", "sudo needs a password", "not Debian"],
)
def test_missing_programs_are_named(tmp_path: Path, programs: dict[str, str], said: str) -> None:
    for name, body in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("dirname", "realpath", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    done = subprocess.run(
        [shutil.which("bash") or "", str(SCRIPT), "test"],
        env={"PATH": str(tmp_path), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "ldap-utils" in done.stderr
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("target", ["test", "verify"])
def test_programs_come_before_packages(target: str) -> None:
    """Packages take minutes."""
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", target],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    programs = done.stdout.index(f"install-programs {target}\n")
    assert programs < done.stdout.index("-m pip")
