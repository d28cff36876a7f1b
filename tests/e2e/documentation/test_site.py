"""The site of docs/ needs no network. `make check` builds it strictly."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--no-strict", "--site-dir", str(folder)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r'<(?:script|img|source|iframe|link(?![^>]*rel="?(?:canonical|next|prev|edit))|use)\b'
        r"[^>]*\b(?:src|srcset|href)=.?(?:https?:)?//[^>]*>"
    )
    pages = list(site.rglob("*.html"))
    assert pages
    assert {found for page in pages for found in loads.findall(page.read_text())} == set()
    # The script of the theme would ask GitHub about the repository.
    assert not any('data-md-component="source"' in page.read_text() for page in pages)
    styles = "".join(style.read_text() for style in site.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()[^;)]*//[^;)]*", styles) == []


def test_programs_of_the_site_are_not_part_of_it(site: Path) -> None:
    assert list(site.rglob("*.py")) == []
