"""The pages that belong to no other folder, followed by a reader."""

import pytest

from tests.e2e.documentation.pages import follow, pages_of_reader
from tests.support.go_toolchain import BUILD_SECONDS

pytestmark = pytest.mark.timeout(BUILD_SECONDS)

PLACES = ("README.md", "docs/index.md", "docs/glossary.md", "docs/explanation", "docs/runbook")


@pytest.mark.parametrize("page", pages_of_reader(*PLACES))
def test_page(page: str) -> None:
    follow(page)
