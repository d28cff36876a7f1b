"""Links of all Markdown files of the project, as they work in a checkout."""

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.documentation.reader import CHECKOUT
from tests.e2e.packaging.test_project import project_files

PAGES: Final = sorted(path for path in project_files() if path.suffix == ".md")
_CODE: Final = re.compile(r"^( *)```.*?^\1```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")
_PICTURE: Final = re.compile(r'\b(?:src|srcset|href)="(?!https?:)([^"#]+)"')


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", _fenced_out(page), re.MULTILINE):
        text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return frozenset(found)


def _fenced_out(page: Path) -> str:
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links(page: Path) -> None:
    text = _CODE.sub("", page.read_text())
    wrong = []
    for target, anchor in [*_LINK.findall(text), *((each, "") for each in _PICTURE.findall(text))]:
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            wrong.append(f"{target}#{anchor}")
    assert wrong == []
