"""Servers with the console, which the tests of a module share, and pages that must be quiet."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser import browser, visiting
from tests.support.servers.console_server import (
    RunningConsole,
    hostile_console,
    running_console,
)

__all__ = ["browser"]


@pytest.fixture
def page(browser: Browser, javascript: bool) -> Iterator[Page]:
    """A page with or without scripts, which may neither open dialogs nor cause an error."""
    with visiting(browser, javascript=javascript) as visit:
        yield visit.page
        assert (visit.dialogs, visit.elsewhere, visit.errors) == ([], [], [])


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with running_console(tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with hostile_console(tmp_path_factory.mktemp("hostile")) as running:
        yield running
