"""The generated pages are those that the code gives."""

from pathlib import Path

import pytest

from docs.generate import chart
from docs.generate.pages import PAGES
from tests.e2e.documentation.reader import CHECKOUT


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    committed = CHECKOUT / "docs" / "reference" / name
    assert committed.read_text() == PAGES[name](), "run `make docs-generated`"


def test_the_schema_of_the_helm_chart_is_up_to_date() -> None:
    assert chart.SCHEMA.read_text() == chart.generate(), "run `make docs-generated`"


def test_pages_say_that_they_are_generated() -> None:
    pages = Path(CHECKOUT, "docs", "reference").glob("*.md")
    assert {page.name for page in pages if "make docs-generated" in page.read_text()} == set(PAGES)
