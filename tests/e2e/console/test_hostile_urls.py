"""Hostile names in URLs that lead nowhere: they are shown, and nothing else happens."""

import pytest
from playwright.sync_api import Browser

from tests.e2e.console.harmless import assert_harmless
from tests.e2e.console.page_urls import misspelt
from tests.support import xss_corpus
from tests.support.browser import visiting
from tests.support.servers.console_server import RunningConsole


@pytest.mark.parametrize("number", range(0, len(xss_corpus.NAMES), 8))
def test_names_in_urls(browser: Browser, hostile: RunningConsole, number: int) -> None:
    with visiting(browser) as visit:
        for name in xss_corpus.NAMES[number : number + 8]:
            for what, path in misspelt(name).items():
                response = visit.page.goto(f"{hostile.url}{path}")
                assert response, what
                assert response.status < 500, (what, name)
                assert_harmless(visit)
