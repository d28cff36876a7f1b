"""One build of the wheel, and one of the image's content, for all packaging tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.packaging.dockerfile import PROJECT, carry_out, environment, stage


@pytest.fixture(scope="session")
def image_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the Dockerfile's build stage was carried out."""
    root = tmp_path_factory.mktemp("image")
    carry_out(stage((PROJECT / "Dockerfile").read_text(), "build"), root)
    return root


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
