"""The pages in docs/tutorials, followed by a reader."""

import pytest

from tests.e2e.documentation.pages import follow, pages_of_reader
from tests.support.go_toolchain import BUILD_SECONDS

pytestmark = pytest.mark.timeout(BUILD_SECONDS)


@pytest.mark.parametrize("page", pages_of_reader("docs/tutorials"))
def test_page(page: str) -> None:
    follow(page)
