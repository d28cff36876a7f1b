"""The Queues page about queues that YARN will create."""

import re
from html import unescape
from pathlib import Path

from tests.support.console_http import Browser
from tests.support.servers.console_server import running_console, yarn_console

FLEXIBLE = {
    "root.queues": "flexible",
    "root.acl_administer_queue": " ",
    "root.flexible.auto-queue-creation-v2.enabled": "true",
    "root.flexible.auto-queue-creation-v2.template.acl_submit_applications": "sue",
    "root.flexible.auto-queue-creation-v2.parent-template.acl_administer_queue": "omar",
    "root.flexible.auto-queue-creation-v2.leaf-template.acl_administer_queue": "maria",
}


def words(browser: Browser, query: str, page_name: str = "queues") -> str:
    page = browser.get(f"{page_name}?partition=yarn&{query}").text.partition("<main")[2]
    text = re.sub(r"<[^>]*>", " ", re.sub(r"</?(?:a|b|code|span)\b[^>]*>", "", page))
    return " ".join(unescape(text).split())


def test_templates_of_parents_and_unset_acls(tmp_path: Path) -> None:
    policy, site = tmp_path / "capacity-scheduler.xml", tmp_path / "yarn-site.xml"
    properties = (
        f"<property><name>yarn.scheduler.capacity.{name}</name><value>{value}</value></property>\n"
        for name, value in FLEXIBLE.items()
    )
    policy.write_text(f"<configuration>\n{''.join(properties)}</configuration>")
    site.write_text(
        "<configuration><property><name>yarn.acl.enable</name><value>true</value></property>"
        "</configuration>"
    )
    yarn = {"path": str(policy), "yarn_site": str(site), "partition": "yarn"}
    policies = [{"path": "examples/queues.yaml"}, yarn]
    with running_console(tmp_path, policies=policies) as console:
        browser = Browser(console.url)
        page = words(browser, "queue=root.flexible")
        created = words(browser, "queue=root.flexible.new.job")
        access = words(browser, "user=eve&queue=root.flexible", "access")
    below = page.partition("that YARN will create below")[2]
    queue = r"root\.flexible\.\*"
    place = r"\S+capacity-scheduler\.xml"
    assert re.search(rf"{queue} as a parent admin user omar {place}:6:\d+", below)
    assert re.search(rf"{queue} admin user maria {place}:7:\d+", below)
    assert len(re.findall(rf"{queue} submit user sue {place}:5", below)) == 1
    assert "as a parent submit" not in below
    assert re.search(rf"root\.flexible submit nobody default \(queue at {place}:2:\d+\)", page)
    assert re.search(rf"default \(unset in {re.escape(str(site))}\)", page)
    assert re.search(rf"root\.flexible\.new admin user omar {place}:6", created)
    assert re.search(rf"root\.flexible submit .* default \(queue at {place}:2:\d+\)", access)


def test_without_a_partition_the_pages_use_the_only_one(tmp_path: Path) -> None:
    with yarn_console(tmp_path, "hadoop") as console:
        browser = Browser(console.url)
        for page in (
            "user?user=eve",
            "access?user=eve&queue=root.default",
            "queues",
            "user",
            "access",
        ):
            answer = browser.get(page)
            assert answer.status == 200, page
            assert "partition 'default' does not exist" not in answer.text
        assert "partition=hadoop" in browser.get("access?user=eve&queue=root.default").text
        refused = browser.get("user?user=eve&partition=default")
        assert refused.status == 400
        assert "partition &#39;default&#39; does not exist" in refused.text
