"""`make check` fails if a page of the site has a dead link."""

import json
import subprocess
from pathlib import Path

import pytest

from tests import run
from tests.e2e.documentation.reader import CHECKOUT

PAGE = "# Start\n\n## Sections\n\n[A link]({})\n"


def build(folder: Path, target: str) -> subprocess.CompletedProcess[str]:
    """Run the command of `make check` on a site of one page, with the project's settings."""
    docs = folder / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(PAGE.format(target))
    settings = {
        "INHERIT": str(CHECKOUT / "mkdocs.yml"),
        "docs_dir": str(docs),
        "hooks": [str(CHECKOUT / "docs" / "site_hooks.py")],
        "nav": ["index.md"],
    }
    (folder / "mkdocs.yml").write_text(json.dumps(settings))
    (docs.parent / "README.md").touch()
    [command] = run.site().commands
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize(
    ("target", "status"),
    [("index.md", 0), ("#sections", 0), ("missing.md", 1), ("#missing", 1), ("/index.md", 1)],
)
def test_a_dead_link_fails(tmp_path: Path, target: str, status: int) -> None:
    done = build(tmp_path, target)
    assert done.returncode == status, done.stderr
    assert (f"'{target}'" in done.stderr) == bool(status)
