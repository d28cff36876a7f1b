"""The banner of every page, and what stays on the pages, while something needs attention."""

import re
import signal
from pathlib import Path
from typing import Any, Final

from tests.support.console_http import Answer, Browser, words
from tests.support.eventually import eventually
from tests.support.servers.admin_port import get, get_json, ops_address
from tests.support.servers.console_server import PEOPLE, running_console

PAGES: Final = ("queues", "access", "user", "change", "denials")
EXAMPLE: Final = Path("examples/queues.yaml").read_text(encoding="utf-8")
REFUSED: Final = "the directory server cannot be reached: connection refused"


def banner(answer: Answer) -> str:
    found = re.search(r'<section class="notice banner".*?</section>', answer.text, re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", found[0]).split()) if found else ""


def replace(file: Path, text: str) -> None:
    new = file.with_name("new")
    new.write_text(text)
    new.replace(file)


def test_a_failed_reload(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(EXAMPLE)
    with running_console(tmp_path, policies=[{"path": str(policy)}]) as console:
        browser = Browser(console.url)
        assert [banner(browser.get(page)) for page in PAGES] == [""] * len(PAGES)
        replace(policy, "partitions: 3")
        eventually(lambda: bool(banner(browser.get("change"))), expected=True)
        for page in PAGES:
            text = banner(browser.get(page))
            assert "The last reload of the policy failed, and revision 1 is still served" in text
            assert f" served: {policy}:1:13: error:" in text
            assert text.endswith(" Health")
        # With htmx only the main part of a page is replaced.
        fragment = browser.get("queues", HX_Request="true", HX_Boosted="true")
        assert "The last reload" in banner(fragment)
        health = browser.get("health")
        assert banner(health) == ""
        assert f" served: {policy}:1:13: error:" in words(health)
        replace(policy, EXAMPLE)
        eventually(lambda: banner(browser.get("change")), "")


def test_places_stay_when_the_file_is_broken_before_the_first_page(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(EXAMPLE)
    with running_console(tmp_path, policies=[{"path": str(policy)}]) as console:
        replace(policy, "partitions: 3")
        console.server.wait_for_log("policy is not valid; the last good one stays in use")
        browser = Browser(console.url)
        place = re.compile(re.escape(str(policy)) + r":\d+:\d+")
        for page in ("queues?queue=root.analytics", "access?user=ann&queue=root.analytics"):
            answer = browser.get(page)
            table = answer.text[answer.text.index("Defined at") :]
            assert place.search(table), words(answer)
            assert "are not known" not in answer.text


def test_a_resolver_that_is_down(tmp_path: Path) -> None:
    resolver = {
        "type": "listing",
        "folder": str(tmp_path),
        "lookup_timeout": "60s",
    }
    guard = "identity.guarded_resolver"
    constants = {f"{guard}.BREAKER_FAILURES": 2, f"{guard}.BREAKER_PAUSE_SECONDS": 3600}
    with running_console(tmp_path, constants, resolvers={"directory": resolver}) as console:
        browser = Browser(console.url)
        question = "access?queue=root.engineering.ci&user="
        assert f"resolver 'directory' is unavailable: {REFUSED}" in words(
            browser.get(f"{question}lost")
        )
        people: dict[str, Any] = PEOPLE
        lost: dict[str, Any] = {f"lost{number}": {"failed": REFUSED} for number in range(2)}
        console.directory.answer({**people, **lost})
        for user in lost:
            assert REFUSED in words(browser.get(f"{question}{user}"))
        for page in PAGES:
            expected = "The resolver directory is paused because its circuit breaker is open"
            assert banner(browser.get(page)) == f"{expected}: {REFUSED} Health"
        answer = browser.get(f"{question}new")
        assert answer.status == 503
        assert REFUSED in words(answer)
        assert f"circuit breaker is open: {REFUSED}" in words(browser.get("health"))


def test_invalid_settings(tmp_path: Path) -> None:
    with running_console(tmp_path) as console:
        browser, address = Browser(console.url), ops_address(console.server)
        config = tmp_path / "queuegate.yaml"
        before = config.read_text()
        replace(config, before.replace('"audit"', '"audiit"'))
        console.server.process.send_signal(signal.SIGHUP)
        eventually(lambda: bool(banner(browser.get("change"))), expected=True)
        for page in PAGES:
            text = banner(browser.get(page))
            assert "The settings could not be reloaded" in text
            assert "audiit: unknown key (did you mean audit?)" in text
        _, details = get_json(address, "/readyz")
        assert (details["ready"], details["settings"]["valid"]) == (True, False)
        assert details["settings"]["findings"][0]["file"] == str(config)
        assert "\nqueuegate_settings_last_reload_successful 0.0\n" in get(address, "/metrics")[1]
        replace(config, before.replace('"enabled": true', '"enabled": false'))
        console.server.process.send_signal(signal.SIGHUP)
        eventually(
            lambda: "require a restart: console.enabled." in banner(browser.get("change")),
            expected=True,
        )
        assert get_json(address, "/readyz")[1]["settings"]["require_restart"] == ["console.enabled"]
        replace(config, before)
        console.server.process.send_signal(signal.SIGHUP)
        eventually(lambda: banner(browser.get("change")), "")
        assert "\nqueuegate_settings_last_reload_successful 1.0\n" in get(address, "/metrics")[1]


def test_yarn_without_acls(tmp_path: Path) -> None:
    policy, site = tmp_path / "fair-scheduler.xml", tmp_path / "yarn-site.xml"
    policy.write_text("<allocations><queue name='root'/></allocations>")
    site.write_text(
        "<configuration><property><name>yarn.acl.enable</name><value>false</value></property>"
        "</configuration>"
    )
    policies = [{"path": str(policy), "yarn_site": str(site), "partition": "yarn"}]
    with running_console(
        tmp_path, policies=[{"path": "examples/queues.yaml"}, *policies]
    ) as console:
        health = words(Browser(console.url).get("health"))
    assert "Everyone may submit to and administer every queue of partition yarn" in health
