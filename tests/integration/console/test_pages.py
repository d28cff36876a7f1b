"""The pages Queues, Access and User of a running server."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.support.console_http import Answer, Browser
from tests.support.eventually import eventually
from tests.support.rows import rows
from tests.support.servers.admin_port import ops_address
from tests.support.servers.console_server import (
    HOSTILE_PARTITION,
    RunningConsole,
    hostile_console,
    running_console,
)
from tests.support.servers.queuegate_server import ADMIN, running_server
from tests.support.xss_corpus import INVISIBLE, NAMES, QUEUES

COMPLETION = ' hx-get="/console/access/queues"'
"""The console's only attribute that loads something by itself."""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with running_console(tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def browser(console: RunningConsole) -> Browser:
    return Browser(console.url)


def words(answer: Answer) -> str:
    """Return the text of a page, with one blank between words."""
    main = answer.text.partition("<main")[2].partition(">")[2]
    text = re.sub(r"<[^>]*>", " ", re.sub(r"</?(?:a|b|code|span)\b[^>]*>", "", main))
    return " ".join(unescape(text).split())


def test_pages_cause_no_warnings_in_libraries() -> None:
    arguments = ["--policy", "examples/queues.yaml", "--set", "console.enabled=true"]
    arguments += ["--set", "ops.listen=127.0.0.1:0", *ADMIN]
    # Warnings depend on the order of imports, which differs in forked servers.
    with running_server(*arguments, new_interpreter=True) as server:
        browser = Browser(f"http://{ops_address(server)}/console/")
        for path in ("queues", "access?user=ann&queue=root", "nonsense"):
            assert browser.get(path).status in {200, 404}
    assert not [line for line in server.errors if "warning from a library" in line]


@rows
def test_users_of_a_partition_without_a_resolver(
    tmp_path: Path, policy: str, meaning: str, browser: Browser
) -> None:
    (tmp_path / "policy").write_text(policy)
    arguments = ["--policy", str(tmp_path / "policy"), "--set", "console.enabled=true"]
    arguments += ["--set", "ops.listen=127.0.0.1:0", *ADMIN]
    note = "No resolver looks up the groups of this partition"
    with running_server(*arguments) as server:
        page = words(Browser(f"http://{ops_address(server)}/console/").get("queues?who=1"))
    assert "ann the user in the submit ACL of root" in page
    assert f"{note}, {meaning}: set partitions.default.resolver in the server's settings" in page
    assert note not in words(browser.get("queues?queue=root.engineering&who=1"))


def option_values(answer: Answer) -> list[str]:
    return [
        unescape(each) for each in re.findall(r'<option value="([^"]*)"></option>', answer.text)
    ]


def test_names_of_queues_for_completion(browser: Browser) -> None:
    names = ["root.analytics", "root.analytics.notebooks", "root.analytics.reports"]
    assert option_values(browser.get("access/queues?queue=Analy&partition=default")) == names
    assert option_values(browser.get("access/queues?queue=x%22%3E%3Cscript%3E")) == []
    assert len(option_values(browser.get("access/queues"))) > len(names)
    answer = browser.get("access/queues?queue=a&partition=nosuch")
    assert (answer.status, option_values(answer)) == (404, [])


def test_names_for_completion_are_bounded(tmp_path: Path) -> None:
    queues = ", ".join(f"{{name: q{number}}}" for number in range(1_000))
    policy = tmp_path / "queues.yaml"
    policy.write_text(
        f"partitions: [{{name: default, queues: [{{name: root, queues: [{queues}]}}]}}]\n"
    )
    arguments = ["--policy", str(policy), "--set", "console.enabled=true"]
    with running_server(*arguments, "--set", "ops.listen=127.0.0.1:0", *ADMIN) as server:
        browser = Browser(f"http://{ops_address(server)}/console/")
        assert len(option_values(browser.get("access/queues?queue=q"))) == 100
        assert option_values(browser.get("access/queues?queue=q77")) == [
            "root.q77",
            *(f"root.q77{digit}" for digit in range(10)),
        ]


@pytest.mark.parametrize(
    ("queue", "meant"),
    [
        ("root.analytics.report", "root.analytics.reports"),
        ("root.anlytics.reports", "root.analytics.reports"),
        ("root.notebooks", "root.analytics.notebooks"),
        ("analytics.reports", "root.analytics.reports"),
        ("root/analytics/reports", "root.analytics.reports"),
        ("root.analytics.reports", ""),
        ("root.zzzzzz", ""),
    ],
)
def test_the_queue_that_was_probably_meant(browser: Browser, queue: str, meant: str) -> None:
    asked = {"user": "o'mar", "access": "admin", "groups": "a,b"}
    answer = browser.get(f"access?{urlencode({**asked, 'queue': queue})}")
    found = re.search(r'Did you mean <a href="([^"]*)">([^<]*)</a>\?', answer.text)
    assert (unescape(found[2]) if found else "") == meant
    if found:
        # The link asks the same question about the other queue.
        link = dict(parse_qsl(urlsplit(unescape(found[1])).query))
        assert link == {**asked, "queue": meant}


def test_access_is_allowed_and_the_command_says_the_same(browser: Browser) -> None:
    answer = browser.get("access?user=eve&queue=root.engineering.ci&access=submit")
    assert "allowed eve may submit to root.engineering.ci" in words(answer)
    [command, grpcurl] = map(unescape, re.findall(r'<pre class="copy".*?>(.*?)</pre>', answer.text))
    program, *arguments = shlex.split(command)
    assert program == "queuegate"
    ended = subprocess.run(
        [sys.executable, "-m", "queuegate", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0
    assert "allowed: eve may submit to root.engineering.ci" in ended.stdout
    assert shlex.split(grpcurl)[-1] == "queuegate.v1.AccessService/ExplainQueueAccess"


def test_the_command_about_a_user_who_looks_like_an_option(browser: Browser) -> None:
    answer = browser.get("access?user=-x&queue=root.sandbox&access=admin")
    command = unescape(re.findall(r'<pre class="copy".*?>(.*?)</pre>', answer.text)[0])
    ended = subprocess.run(
        [sys.executable, "-m", "queuegate", *shlex.split(command)[1:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "-x may not administer root.sandbox" in ended.stdout, ended.stderr


def test_a_user_without_groups(browser: Browser) -> None:
    """Eve is in engineers, which lets her in unless the question says that she has no groups."""
    question = "access?user=eve&queue=root.engineering.training"
    assert "✓ allowed" in words(browser.get(question))
    answer = browser.get(f"{question}&groups=+,+&no_groups=1")
    page = words(answer)
    assert "✗ denied" in page
    assert "Origin from the request" in page
    assert "Groups none" in page
    assert 'name="no_groups" value="1" checked>' in answer.text
    command, grpcurl = re.findall(r"<pre[^>]*>([^<]*)</pre>", answer.text)
    request = json.loads(shlex.split(unescape(grpcurl))[3])
    assert request["user"] == {"user": "eve", "no_groups": True}
    ended = subprocess.run(
        [sys.executable, "-m", "queuegate", *shlex.split(unescape(command))[1:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "eve may not submit to root.engineering.training" in ended.stdout


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("user=&queue=root", "user"),
        ("user=a%20b&queue=root", "user"),
        ("user=a&queue=a..b", "queue"),
        ("user=a&queue=root&partition=missing", "partition 'missing' does not exist"),
        ("user=%00&queue=root", "user"),
        ("user=%ff%fe&queue=root", ""),
        ("user=a&queue=root&groups=" + "x," * 5_000, "groups"),
    ],
)
def test_wrong_questions(browser: Browser, query: str, message: str) -> None:
    answer = browser.get(f"access?{query}")
    assert answer.status in {200, 400}
    assert message in words(answer)
    assert "internal error" not in answer.text


def test_forgetting_the_groups_of_a_user(console: RunningConsole, browser: Browser) -> None:
    page = browser.get("user?user=omar")
    assert "Groups of omar data-science" in words(page)
    console.directory.answer({"omar": {"groups": ["leads"]}})
    form = {"form_token": page.form_token, "user": "omar", "partition": "default"}
    answer = browser.post("user/forget", form)
    assert answer.status == 303
    page = browser.get(answer.headers["Location"])
    assert "The cached groups were discarded" in words(page)
    assert "Groups of omar leads" in words(page)
    bad = browser.post("user/forget", {**form, "user": ""})
    assert bad.status == 400


def test_a_fragment_is_the_same_page_without_its_frame(browser: Browser) -> None:
    whole = browser.get("queues?queue=root.engineering")
    part = browser.get("queues?queue=root.engineering", HX_Request="true", HX_Boosted="true")
    assert whole.headers["Vary"] == part.headers["Vary"] == "HX-Request"
    assert "<html" not in part.text
    assert part.text.partition("<main")[2].strip() == (
        whole.text.partition("<main")[2].partition("</body>")[0].strip()
    )


def test_a_reload_shows(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    text = "partitions: [{{name: default, queues: [{{name: root, submitacl: '{}'}}]}}]\n"
    policy.write_text(text.format("ann"))
    with running_console(tmp_path, policies=[{"path": str(policy)}]) as console:
        browser = Browser(console.url)
        assert "root submit user ann" in words(browser.get("queues"))
        policy.write_text(text.format("bob,bad!"))
        eventually(lambda: "Revision 2" in browser.get("queues").text, expected=True)
        page = words(browser.get("queues"))
        assert "root submit user bob" in page
        assert "Entries that never match: 1" in page
        assert '"bad!" is not a valid user name in an ACL' in page
        assert f"{policy}:1:" in page


@pytest.mark.parametrize(
    ("enabled", "semantics", "shown", "hidden"),
    [
        ("true", "documented", "administrators of the cluster admin user root-admin", "enforce"),
        ("true", "hadoop", "root.a submit user ann", "root-admin"),
        ("false", "documented", "The cluster does not enforce ACLs", "closed nobody"),
    ],
)
def test_a_yarn_cluster(
    tmp_path: Path, enabled: str, semantics: str, shown: str, hidden: str
) -> None:
    policy, site = tmp_path / "fair-scheduler.xml", tmp_path / "yarn-site.xml"
    policy.write_text(
        "<allocations><queue name='a'><aclSubmitApps>ann</aclSubmitApps></queue></allocations>"
    )
    values = {"yarn.acl.enable": enabled, "yarn.admin.acl": "root-admin"}
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in values.items()
    )
    site.write_text(f"<configuration>{properties}</configuration>")
    with running_console(
        tmp_path,
        policies=[{"path": str(policy), "yarn_site": str(site)}],
        partitions={"default": {"resolver": "directory", "semantics": semantics}},
    ) as console:
        page = words(Browser(console.url).get("queues?queue=root.a"))
    assert shown in page
    assert hidden not in page


def test_both_files_of_a_capacity_scheduler(tmp_path: Path) -> None:
    policy, site = tmp_path / "capacity-scheduler.xml", tmp_path / "yarn-site.xml"
    key = "yarn.scheduler.capacity.root"

    def write(file: Path, *properties: tuple[str, str, str]) -> None:
        said = "\n".join(
            f"<property><name>{name}</name><value>{value}</value><final>{final}</final></property>"
            for name, value, final in properties
        )
        file.write_text(f"<configuration>\n{said}\n</configuration>")

    write(
        policy,
        (f"{key}.queues", "etl", "false"),
        (f"{key}.acl_submit_applications", " ", "false"),
        (f"{key}.acl_administer_queue", " ", "false"),
        (f"{key}.etl.acl_submit_applications", "alice", "false"),
    )
    write(
        site,
        ("yarn.acl.enable", "true", "false"),
        ("yarn.admin.acl", " ", "false"),
        (f"{key}.etl.acl_submit_applications", "bob", "true"),
        ("yarn.authorization-provider", "org.example.Ranger", "false"),
    )
    with running_console(
        tmp_path,
        policies=[{"path": str(policy), "yarn_site": str(site)}],
        partitions={"default": {"resolver": "directory"}},
    ) as console:
        page = words(Browser(console.url).get("queues?queue=root.etl"))
    assert f"submit user bob {site}:4:" in page
    assert "alice" not in page
    assert 'yarn.authorization-provider is "org.example.Ranger"' in page
    assert f"is final in {site}:4:1, so this value is ignored" in page


def test_hostile_names(tmp_path: Path) -> None:
    with hostile_console(tmp_path) as console:
        browser = Browser(console.url)
        for name, queue in zip(NAMES, QUEUES, strict=True):
            browser_query = {"partition": HOSTILE_PARTITION, "queue": f"root.{queue}", "user": name}
            for path in ("queues", "access", "user", "missing"):
                answer = browser.get(f"{path}?{urlencode(browser_query)}")
                assert answer.status in {200, 400, 404}
                text = answer.text
                assert not set(INVISIBLE) & set(re.sub(r'value="[^"]*"', "", text))
                tags = re.findall(r"<([a-zA-Z!][^>\s]*)", text)
                assert {"svg", "img", "iframe", "base", "a/href"}.isdisjoint(tags)
                assert text.count("<script") == 1
                text = text.replace(COMPLETION, "")
                assert not re.search(r"<[^>]*\s(?:on\w+|hx-get|hx-on\S*)=", text)
                if path == "user":
                    shown = {name, name.encode("unicode_escape").decode()}
                    assert any(each in unescape(text) for each in shown)
