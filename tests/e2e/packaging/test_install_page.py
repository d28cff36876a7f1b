"""docs/how-to/install.md: its first steps in an empty environment; test_image.py has the image."""

import os
import subprocess
from pathlib import Path

import pytest

import queuegate
from tests.e2e.documentation.pages import blocks_of
from tests.e2e.documentation.reader import Reader
from tests.e2e.packaging.dockerfile import PROJECT, environment

pytestmark = pytest.mark.timeout(300)

PAGE = "docs/how-to/install.md"


def test_the_wheel_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """`make dist` is left out: the wheel of this source is built already."""
    install, see = (block for block in blocks_of(PAGE) if not block.not_run)
    lines = install.text.splitlines()
    assert lines[0] == "make dist"
    assert (f"dist/{wheel.name}") in install.text
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / wheel.name).symlink_to(wheel)
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        ["bash", "-euc", "\n".join(lines[1:])],
        cwd=tmp_path,
        env={**environment(), "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith(queuegate.__version__)
    reader = Reader(tmp_path)
    reader.variables["PATH"] = f"{home}/queuegate-venv/bin{os.pathsep}{reader.variables['PATH']}"
    reader.follow([see])


def test_the_image_has_the_name_that_make_gives_it() -> None:
    [text] = [each.text for each in blocks_of(PAGE) if "docker run" in each.text]
    [image] = [
        line.split("?=")[1].strip()
        for line in (PROJECT / "Makefile").read_text().splitlines()
        if line.startswith("IMAGE")
    ]
    assert text.splitlines()[-1].endswith(f" {image}")
