"""The pages about where groups come from, followed by a reader."""

import pytest

from tests.e2e.documentation.pages import ABOUT_GROUPS, follow, pages_of_reader
from tests.support.go_toolchain import BUILD_SECONDS

pytestmark = pytest.mark.timeout(BUILD_SECONDS)


@pytest.mark.parametrize("page", pages_of_reader(*ABOUT_GROUPS))
def test_page(page: str) -> None:
    follow(page)
