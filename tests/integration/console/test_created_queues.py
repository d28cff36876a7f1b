"""The Queues page about queues that YARN will create."""

import re
from collections.abc import Iterator
from html import unescape

import pytest

from tests.support.console_http import Browser
from tests.support.servers.console_server import creating_console


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with creating_console(tmp_path_factory.mktemp("console")) as running:
        yield Browser(running.url)


def words(browser: Browser, query: str, page_name: str = "queues") -> str:
    page = browser.get(f"{page_name}?partition=yarn&{query}").text.partition("<main")[2]
    text = re.sub(r"<[^>]*>", " ", re.sub(r"</?(?:a|b|code|span)\b[^>]*>", "", page))
    return " ".join(unescape(text).split())


def test_a_queue_below_which_others_are_created(browser: Browser) -> None:
    page = words(browser, "queue=root.managed")
    assert "ACLs of queues that YARN will create below; * stands for any name" in page
    assert re.search(r"root\.managed\.\* submit user alice group analysts \S+xml:6:\d+", page)
    assert re.search(r"root\.managed\.\* admin user ops \S+xml:7:\d+", page)
    assert "that YARN will create" not in words(browser, "queue=root.default")


def test_a_queue_that_will_be_created(browser: Browser) -> None:
    page = words(browser, "queue=root.managed.new&who=1")
    assert "YARN creates this queue, with ACLs from a template" in page
    assert "There is no queue" not in page
    assert re.search(r"root\.managed\.new submit user alice", page)
    assert "alice the user in the submit ACL of root.managed.new" in page
    assert "root submit user sue" in page


def test_a_queue_that_will_not_be_created(browser: Browser) -> None:
    page = words(browser, "queue=root.managed.new.below")
    assert "There is no queue root.managed.new.below" in page


def test_a_decision_about_a_queue_that_will_be_created(browser: Browser) -> None:
    page = words(browser, "user=eve&queue=root.managed.new", "access")
    assert "root.managed.new does not exist yet: YARN will create it" in page
    assert "yarn.scheduler.capacity.root.managed.leaf-queue-template.acl_submit_app" in page
    assert "does not exist yet" not in words(browser, "user=eve&queue=root.default", "access")
