"""Programs that ask over HTTP, each in an environment of its own, and what a page gives them."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.documents import fenced_blocks

INSTALL_SECONDS: Final = 600


def python_with(package: str, folder: Path) -> Path:
    """Install a package in a new environment, and return its Python. Skip if that fails."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    installed = folder / "bin" / "python"
    command = [str(installed), "-m", "pip", "install", "--quiet", package]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )
    if done.returncode:
        pytest.skip(f"{package} cannot be installed: {done.stderr[-300:]}")
    return installed


def write_block(page: str, file: Path) -> Path:
    """Write the block of a page that has the file's name as its title, and return the file."""
    text = Path(page).read_text(encoding="utf-8")
    [block] = [each for each in fenced_blocks(text) if each.file == file.name]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.text)
    return file
