"""What people do with the pages Queues, Access and User, with scripts and without."""

import hashlib
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import visiting
from tests.support.servers.console_server import RunningConsole, running_console

pytestmark = pytest.mark.parametrize("javascript", [True, False], ids=["scripts", "no scripts"])
TOKEN = "a-token-that-is-long-enough-0123456789"


def test_opening_a_queue_and_listing_its_people(page: Page, console: RunningConsole) -> None:
    page.goto(console.url)
    expect(page.get_by_role("link", name="reports")).to_have_count(0)
    page.get_by_role("link", name="analytics").click()
    page.get_by_role("link", name="reports").click()
    expect(page.get_by_role("heading", name="root.analytics.reports")).to_be_visible()
    own = page.get_by_role("table", name="Its own ACLs")
    expect(own).to_contain_text("sue")
    expect(own).to_contain_text("examples/queues.yaml:73:28")
    page.get_by_role("link", name="Who may submit?").click()
    people = page.get_by_role("table", name="Users, sorted by name")
    expect(people.get_by_role("rowheader")).to_have_text(["ann", "bob", "paula", "sue"])


def test_finding_a_queue_in_another_partition(page: Page, console: RunningConsole) -> None:
    page.goto(console.url)
    page.get_by_role("navigation", name="Partitions").get_by_role("link", name="gpu").click()
    page.get_by_label("Find a queue").fill("infer")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="root.inference").click()
    expect(page.get_by_role("heading", name="root.inference")).to_be_visible()
    # The address leads to the same page again.
    page.goto(page.url)
    expect(page.get_by_role("heading", name="root.inference")).to_be_visible()


def test_asking_whether_somebody_may(page: Page, console: RunningConsole) -> None:
    page.goto(f"{console.url}access")
    page.get_by_label("User", exact=True).fill("omar")
    page.get_by_label("Queue").fill("root.engineering.training")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("status")).to_contain_text("✓ allowed")
    expect(page.get_by_role("row").filter(has_text="lists the group")).to_contain_text(
        "data-science"
    )
    expect(page.locator("pre").first).to_contain_text("explain omar root.engineering.training")
    page.get_by_label("The user has no groups").check()
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("status")).to_contain_text("✗ denied")
    expect(page.locator("pre").first).to_contain_text("--no-groups")
    expect(page.get_by_label("The user has no groups")).to_be_checked()
    page.get_by_label("The user has no groups").uncheck()
    page.get_by_label("Queue").fill("root.analytics.reports")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("status")).to_contain_text("✗ denied")
    expect(page.locator("pre").first).not_to_contain_text("--no-groups")


def test_a_misspelt_queue_leads_to_the_one_that_was_meant(
    page: Page, console: RunningConsole
) -> None:
    page.goto(f"{console.url}access")
    page.get_by_label("User", exact=True).fill("omar")
    page.get_by_label("Queue").fill("root.engineering.trainign")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("main")).to_contain_text(
        "root.engineering.trainign does not exist; decided at root.engineering, its nearest"
        " existing ancestor. Did you mean root.engineering.training?"
    )
    page.get_by_role("link", name="root.engineering.training").click()
    expect(page.get_by_role("status")).to_contain_text("✓ allowed")
    expect(page.get_by_label("Queue")).to_have_value("root.engineering.training")


def test_the_names_of_queues_are_completed(
    page: Page, console: RunningConsole, javascript: bool
) -> None:
    page.goto(f"{console.url}access")
    options = page.locator("#queue-names option")
    expect(options).to_have_count(0)
    page.get_by_label("Queue").focus()
    page.get_by_label("Queue").press_sequentially("engin")
    names = ["", ".ci", ".payroll", ".training"] if javascript else []
    expect(options).to_have_count(len(names))
    assert [each.get_attribute("value") for each in options.all()] == [
        f"root.engineering{name}" for name in names
    ]
    page.get_by_label("Partition").select_option("gpu")
    page.get_by_label("Queue").fill("infer")
    expect(options).to_have_count(1 if javascript else 0)
    page.get_by_label("Queue").fill("no such queue")
    expect(options).to_have_count(0)


def test_forgetting_the_groups_of_a_user(page: Page, console: RunningConsole) -> None:
    page.goto(f"{console.url}user")
    page.get_by_label("User", exact=True).fill("maria")
    page.get_by_role("button", name="Show").click()
    queues = page.get_by_role("table", name="Each with the ACL entry")
    expect(queues).to_contain_text("root.engineering.payroll")
    console.directory.answer({"maria": {"groups": ["engineers", "platform"]}})
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("status")).to_contain_text("were discarded")
    expect(page.locator("ul.chips").first).to_contain_text("platform")
    expect(queues).to_contain_text("group platform in the admin ACL of root")
    console.directory.answer({"maria": {"groups": ["engineers", "leads"]}})
    page.get_by_role("button", name="Forget").click()
    expect(page.locator("ul.chips").first).to_contain_text("leads")


def test_signing_in_and_out(browser: Browser, javascript: bool, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"on-call:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    tokens.chmod(0o600)
    callers = {
        "loopback": {"roles": ["check"]},
        "token_file": str(tokens),
        "tokens": {"on-call": {"roles": ["read", "admin"]}},
    }
    with running_console(tmp_path, callers=callers) as console:
        with visiting(browser, javascript=javascript) as visit:
            page = visit.page
            page.goto(console.url)
            expect(page.get_by_role("alert")).to_contain_text("needs the read role")
            page.get_by_role("main").get_by_role("link", name="sign in").click()
            page.get_by_label("Bearer token").fill("not-a-token-that-anybody-knows-0000")
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_be_visible()
            page.get_by_label("Bearer token").fill(TOKEN)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator("header")).to_contain_text("You are token:on-call")
            expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
            assert TOKEN not in page.content()
            [cookie] = visit.page.context.cookies()
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
            # A session ends behind an open page: the form leads to where its link led.
            page.context.add_cookies(
                [
                    {
                        "name": cookie["name"],
                        "value": "ended",
                        "domain": "127.0.0.1",
                        "path": "/console/",
                    }
                ]
            )
            page.get_by_role("link", name="analytics").click()
            expect(page.get_by_role("alert")).to_contain_text("the session has ended")
            page.get_by_label("Bearer token").fill(TOKEN)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="root.analytics")).to_be_visible()
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_role("alert")).to_contain_text("needs the read role")
            assert (visit.dialogs, visit.elsewhere) == ([], [])
        assert TOKEN not in "".join(console.server.errors)
