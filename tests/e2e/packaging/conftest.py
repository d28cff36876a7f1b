"""One build of the wheel for all packaging tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.packaging.dockerfile import PROJECT, environment


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"),
            *("--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, PROJECT),
        ],
        env=environment(),
        check=True,
    )
    [path] = folder.glob("*.whl")
    return path
