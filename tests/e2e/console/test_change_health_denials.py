"""What people do with the pages Change, Health and Denials, with scripts and without."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.servers.console_server import RunningConsole

pytestmark = pytest.mark.parametrize("javascript", [True, False], ids=["scripts", "no scripts"])

EXAMPLE = Path("examples/queues.yaml").read_text()
PROPOSED = EXAMPLE.replace("submitacl: sue", "submitacl: sue,omar data-science")
CLAIMS = """\
claims:
  - only user:sue, user:ann, user:bob, group:analysts, group:data-science, group:platform
    may submit root.analytics.reports
  - everyone in group:analysts may submit root.analytics.reports
"""


def _checks(page: Page) -> Locator:
    """Return the rows of checks: the log also lists pages that explain."""
    return page.get_by_role("row").filter(has_text="CheckQueueAccess")


def test_a_pasted_policy_shows_who_gains_and_refutes_a_claim(
    page: Page, console: RunningConsole
) -> None:
    page.goto(console.url)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Change").click()
    page.get_by_label("Policy: the text").fill(PROPOSED)
    page.get_by_label("Claims").fill(CLAIMS)
    page.get_by_role("button", name="Compare").click()
    row = page.get_by_role("row").filter(has_text="root.analytics.reports")
    expect(row).to_contain_text("+ group data-science")
    expect(row).to_contain_text("+ user omar")
    expect(row).to_contain_text("queues.yaml:")
    expect(page.locator("main")).to_contain_text("2 claims, 1 refuted")
    expect(page.locator("pre").first).to_contain_text(
        "queuegate check --policy queues.yaml omar root.analytics.reports"
    )
    # The proposal is still there, to be corrected.
    expect(page.get_by_label("Policy: the text")).to_have_value(PROPOSED)
    expect(page.get_by_label("Claims")).to_have_value(CLAIMS)


def test_an_uploaded_policy_shows_which_people_gain(
    page: Page, console: RunningConsole, tmp_path: Path
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(PROPOSED)
    page.goto(f"{console.url}change")
    page.get_by_label("Or a file").set_input_files(file)
    page.get_by_label("Show people instead of names").check()
    page.get_by_role("button", name="Compare").click()
    row = page.get_by_role("row").filter(has_text="root.analytics.reports")
    expect(row).to_contain_text("+ user dana")
    expect(row).to_contain_text("+ user omar")
    expect(row).not_to_contain_text("group")


def test_health_shows_the_last_error_of_a_resolver(page: Page, console: RunningConsole) -> None:
    page.goto(console.url)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Health").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="directory"))
    expect(row).to_contain_text("closed")
    expect(row).to_contain_text("connection refused")
    reload = page.get_by_role("table", name="Recent policy loads")
    expect(reload).to_contain_text("succeeded")
    expect(page.locator("main")).to_contain_text("Nothing needs attention.")


def test_a_denial_leads_to_its_explanation(page: Page, console: RunningConsole) -> None:
    page.goto(console.url)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Denials").click()
    rows = _checks(page)
    expect(rows).to_have_count(6)
    expect(rows.first).to_contain_text("nobody")
    page.get_by_label("User").fill("dana")
    page.get_by_role("button", name="Filter").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("root.engineering.ci")
    rows.get_by_role("link", name="Check again: dana").click()
    expect(page.get_by_label("User", exact=True)).to_have_value("dana")
    expect(page.locator("main")).to_contain_text("denied")


def test_denials_are_filtered_by_queue_and_outcome(page: Page, console: RunningConsole) -> None:
    page.goto(f"{console.url}denials?queue=root.engineering")
    expect(_checks(page)).to_have_count(4)
    page.get_by_label("Outcome").select_option("could not be decided")
    page.get_by_role("button", name="Filter").click()
    expect(_checks(page)).to_have_count(1)
    expect(_checks(page)).to_contain_text("resolver_unavailable")
    page.get_by_role("link", name="Show all").click()
    expect(_checks(page)).to_have_count(6)
    page.goto(f"{console.url}denials?user=somebody")
    expect(page.locator("main")).to_contain_text("No denied request matches the filter.")
