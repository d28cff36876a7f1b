"""Each page: accessible, complete without anything from elsewhere, and fit for any window."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.console.page_urls import EXAMPLES
from tests.support.browser import visiting
from tests.support.servers.console_server import RunningConsole

PROPOSED = Path("examples/queues.yaml").read_text().replace('submitacl: "*"', "submitacl: omar")
CLAIMS = "claims: [nobody may submit root.sandbox, no new access compared with served]"
CUT_OFF = """() => [...document.querySelectorAll(".scroll")]
    .filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"""
BROKEN = """() => [...document.querySelectorAll(".scroll :is(a, th, .chip, .place)")]
    .filter(each => !/\\s/.test(each.innerText.trim()))
    .filter(each => {
        const range = document.createRange();
        range.selectNodeContents(each);
        return new Set([...range.getClientRects()].map(line => Math.round(line.bottom))).size > 1;
    }).map(each => each.innerText)"""
"""Names without blanks that take more than one line."""
OUT_OF_LINE = """() => {
    const rows = {};
    for (const field of document.querySelectorAll(".fields > p")) {
        const control = field.querySelector("input, select, button");
        (rows[field.offsetTop] ??= []).push(control.getBoundingClientRect().top);
    }
    return Object.values(rows).filter(tops => Math.max(...tops) - Math.min(...tops) > 2);
}"""
"""Rows of a form whose controls do not begin at the same height."""
pages = pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES)


@pages
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    browser: Browser, console: RunningConsole, path: str, scheme: Literal["light", "dark"]
) -> None:
    with visiting(browser, scheme=scheme) as visit:
        visit.page.goto(f"{console.url}{path}")
        assert visit.serious_findings() == []
        assert (visit.dialogs, visit.elsewhere, visit.errors) == ([], [], [])


@pages
@pytest.mark.parametrize("width", [320, 768, 2560])
def test_the_page_does_not_scroll_sideways(
    browser: Browser, console: RunningConsole, path: str, width: int
) -> None:
    with visiting(browser, width=width) as visit:
        visit.page.goto(f"{console.url}{path}")
        assert visit.overflow() == 0


@pages
@pytest.mark.parametrize("width", [390, 1100])
def test_nothing_is_cut_off_broken_or_out_of_line(
    browser: Browser, console: RunningConsole, path: str, width: int
) -> None:
    with visiting(browser, width=width) as visit:
        visit.page.goto(f"{console.url}{path}")
        assert visit.page.evaluate(CUT_OFF) == []
        assert visit.page.evaluate(BROKEN) == []
        assert visit.page.evaluate(OUT_OF_LINE) == []


@pages
def test_the_page_is_the_same_without_scripts(
    browser: Browser, console: RunningConsole, path: str
) -> None:
    texts = []
    for javascript in (True, False):
        with visiting(browser, javascript=javascript) as visit:
            visit.page.goto(f"{console.url}{path}")
            expect(visit.page.get_by_role("heading", level=1)).to_have_count(1)
            texts.append(
                [
                    visit.page.get_by_role("heading").all_inner_texts(),
                    visit.page.get_by_role("columnheader").all_inner_texts(),
                    visit.page.get_by_role("button").all_inner_texts(),
                ]
            )
            assert (visit.elsewhere, visit.errors) == ([], [])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_results_are_accessible_and_narrow(
    browser: Browser, console: RunningConsole, scheme: Literal["light", "dark"]
) -> None:
    with visiting(browser, scheme=scheme) as visit:
        page = visit.page
        for policy in (PROPOSED, "partitions: 3"):
            page.goto(f"{console.url}change")
            page.get_by_label("Policy: the text").fill(policy)
            page.get_by_label("Claims").fill(CLAIMS)
            page.get_by_role("button", name="Compare").click()
            expect(page.get_by_role("heading", name="Result")).to_be_visible()
            assert visit.serious_findings() == []
            page.set_viewport_size({"width": 320, "height": 640})
            assert visit.overflow() == 0
        assert (visit.dialogs, visit.elsewhere) == ([], [])


def test_the_keyboard_reaches_the_content_and_every_page(
    browser: Browser, console: RunningConsole
) -> None:
    with visiting(browser) as visit:
        page = visit.page
        page.goto(console.url)
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        expect(page.get_by_role("link", name="Skip to content")).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        names = page.get_by_role("navigation", name="Pages").get_by_role("link").all_inner_texts()
        assert names == ["Queues", "Access", "User", "Change", "Health", "Denials"]
        for name in names:
            link = page.get_by_role("navigation", name="Pages").get_by_role("link", name=name)
            link.focus()
            page.keyboard.press("Enter")
            expect(link).to_have_attribute("aria-current", "page")
