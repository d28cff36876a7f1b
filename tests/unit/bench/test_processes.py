"""The server that benchmarks start."""

import subprocess
import sys
from pathlib import Path

from bench.processes import PRODUCT


def test_the_product_starts_in_any_directory(tmp_path: Path) -> None:
    """`bench.versions` starts another version, in another environment, outside of the checkout."""
    command = [sys.executable, *PRODUCT, "--version"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("queuegate")
