"""Hostile names of queues, users and groups: they are shown, and nothing else happens."""

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.console.harmless import assert_harmless
from tests.e2e.console.page_urls import hostile as hostile_pages
from tests.support import xss_corpus
from tests.support.browser import visiting
from tests.support.servers.console_server import HOSTILE_PARTITION, RunningConsole

PAIRS = [*zip(xss_corpus.NAMES, xss_corpus.QUEUES, strict=True)]


@pytest.mark.parametrize("number", range(0, len(PAIRS), 8))
def test_names_in_pages(browser: Browser, hostile: RunningConsole, number: int) -> None:
    with visiting(browser) as visit:
        for name, queue in PAIRS[number : number + 8]:
            for what, path in hostile_pages(name, queue).items():
                response = visit.page.goto(f"{hostile.url}{path}")
                assert response, what
                assert response.status < 500, (what, name)
                assert_harmless(visit)


def test_names_are_shown_as_they_are(browser: Browser, hostile: RunningConsole) -> None:
    with visiting(browser) as visit:
        page = visit.page
        page.goto(f"{hostile.url}queues?partition={HOSTILE_PARTITION}")
        for queue in xss_corpus.QUEUES:
            if queue.isprintable() and len(queue) < 100:
                expect(page.get_by_role("link", name=queue).first).to_be_visible()
        expect(page.get_by_role("link", name="a\\u202egpj\\u202cb").first).to_be_visible()
        assert_harmless(visit)


def test_hostile_queues_are_completed_with_scripts(
    browser: Browser, hostile: RunningConsole
) -> None:
    with visiting(browser) as visit:
        page = visit.page
        page.goto(f"{hostile.url}access?partition={HOSTILE_PARTITION}")
        for queue in xss_corpus.QUEUES[:8]:
            page.get_by_label("Queue").fill(queue)
            option = page.locator("#queue-names option").first
            expect(option).to_have_attribute("value", f"root.{queue}")
            assert_harmless(visit)


def test_following_a_hostile_queue_with_scripts(browser: Browser, hostile: RunningConsole) -> None:
    with visiting(browser) as visit:
        page = visit.page
        page.goto(f"{hostile.url}queues?partition={HOSTILE_PARTITION}")
        for queue in xss_corpus.QUEUES[:8]:
            page.get_by_role("link", name=queue).first.click()
            expect(page.get_by_role("heading", level=2).filter(has_text=queue)).to_be_visible()
            assert_harmless(visit)


def test_hostile_text_in_the_forms_of_change(browser: Browser, hostile: RunningConsole) -> None:
    text = xss_corpus.fair_scheduler()
    claims = "claims:\n" + "".join(
        f"- {name!r}\n" for name in xss_corpus.NAMES if name.isprintable()
    )
    with visiting(browser) as visit:
        page = visit.page
        for source, policy in (("0", claims), ("1", text), ("1", "<allocations>" + text)):
            page.goto(f"{hostile.url}change")
            page.get_by_label("Replaces").select_option(source)
            page.get_by_label("Policy: the text").fill(policy)
            page.get_by_label("Claims").fill(claims)
            page.get_by_label("Show people").check()
            page.get_by_role("button", name="Compare").click()
            expect(page.get_by_role("heading", name="Result")).to_be_visible()
            expect(page.get_by_label("Policy: the text")).to_have_value(policy)
            assert_harmless(visit)


def test_a_hostile_difference(browser: Browser, hostile: RunningConsole) -> None:
    everything = xss_corpus.fair_scheduler()
    nothing = everything.replace("aclSubmitApps", "other")
    with visiting(browser) as visit:
        page = visit.page
        page.goto(f"{hostile.url}change")
        page.get_by_label("Replaces").select_option("1")
        page.get_by_label("Policy: the text").fill(nothing)
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("table", name="Who gains")).to_be_visible()
        assert_harmless(visit)
