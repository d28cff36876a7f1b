"""The site of docs/ needs no network. `make check` builds it strictly."""

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from tests.e2e.documentation.reader import CHECKOUT


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


def test_no_page_shows_the_escapes_of_its_source(site: Path) -> None:
    """Markdown needs `\\|` in tables; a reader would copy it into a command."""
    escape = re.compile(r"\\(?:[|<>*_`#\[\]]|&[lg]t;)")
    shown = {
        page.relative_to(site): found
        for page in site.rglob("*.html")
        if (found := escape.findall(re.sub(r"(?s)<(pre|script)\b.*?</\1>", "", page.read_text())))
    }
    assert shown == {}


def test_the_start_page_has_the_commands_and_tables_of_the_readme(site: Path) -> None:
    start = (site / "index.html").read_text()
    text = unescape(re.sub(r"<[^>]+>", "", start))
    readme = (CHECKOUT / "README.md").read_text()
    for command in ("make serve", "make test", ".venv/bin/queuegate check"):
        assert command in text
    assert re.findall(r'<label for="__tabbed_1_\d">(\w+)', start) == ["Python", "Go", "grpcurl"]
    tables = [row for row in readme.splitlines() if row.startswith("| ")]
    assert len(tables) > 10
    for row in tables:
        for cell in row.strip("| ").split(" | "):
            shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell).replace("`", "").replace("*", "")
            assert shown in text, cell
    assert "<!-- README" not in start
