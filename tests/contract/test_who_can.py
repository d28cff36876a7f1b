"""The commands `who-can` and `tree`: pages, notes, exit statuses, and trees that are cut."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queuegate._results import PolicyQueue
from queuegate.cli import main
from queuegate.cli.terminal import Colors
from queuegate.cli.tree_drawing import Drawing
from tests.support.fakes.scripted_server import ScriptedServer

Capture = pytest.CaptureFixture[str]
EXAMPLE = ("--policy", "examples/queues.yaml")
PATIENT = ("--timeout", "60")


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedServer]:
    with ScriptedServer() as it:
        yield it


@pytest.fixture
def server(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    monkeypatch.setenv("QUEUEGATE_ADDRESS", scripted.address)
    scripted.script.reset()
    return scripted


def policy(folder: Path, lines: str, **more: str) -> tuple[str, str]:
    file = folder / "queues.yaml"
    resolver = f"    usergroupresolver: {{type: {more['resolver']}}}\n" if more else ""
    file.write_text(f"partitions:\n  - name: default\n{resolver}    queues:\n{lines}")
    return "--policy", str(file)


def test_the_first_page_says_that_there_are_others(server: ScriptedServer, capsys: Capture) -> None:
    assert main([*PATIENT, *["who-can", "root.a"]]) == 0
    output, errors = capsys.readouterr()
    assert "carol" not in output
    assert errors == "there are more users: show them with --all-pages\n"
    assert main([*PATIENT, *["who-can", "root.a", "-o", "json"]]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["has_more"], len(document["users"])) == (True, 2)
    assert (document["queue"], document["access"]) == ("root.a", "submit")


def test_an_incomplete_list_is_no_success(server: ScriptedServer, capsys: Capture) -> None:
    arguments = [*PATIENT, *["who-can", "root.partial", "--all-pages"]]
    assert main(arguments) == 3
    output, errors = capsys.readouterr()
    assert "alice" in output
    assert "carol" in output
    message = "the list is incomplete: not all members of staff\\x1b are known: the directory is"
    assert errors.startswith(f"Error: {message}")
    assert main([*arguments, "-o", "json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["complete"] is False
    assert document["error"]["reason"] == "INCOMPLETE"


def test_a_table(server: ScriptedServer, capsys: Capture) -> None:
    assert main([*PATIENT, *["who-can", "root.a", "--all-pages", "-o", "table"]]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "USER     VIA                     ACL     QUEUE   CONFIRMED",
        "alice    group staff\\x1b > devs  submit  root.a  yes",
        "bob\\x1b  group staff\\x1b > devs  submit  root.a  no",
        "carol    group staff\\x1b > devs  submit  root.a  yes",
    ]


OFFLINE: list[tuple[str, int, str, str]] = [
    (
        "who-can root.sandbox.x",
        0,
        "everyone: the submit ACL of root.sandbox allows",
        "decid",
    ),
    (
        "who-can root.engineering --access admin",
        0,
        "maria     the user in the admin ACL of",
        "may assert",
    ),
    ("who-can root.@recovery@", 0, "", "nobody may submit to root.@recovery@"),
    ("who-can submit root.a", 2, "", "is an option: queuegate who-can root.a --access submit\n"),
    ("who-can root.a submit", 2, "", "is an option: queuegate who-can root.a --access submit\n"),
    (
        "who-can --partition default admin root.a;b --all-pages",
        2,
        "",
        "is an option: queuegate who-can 'root.a;b' --access admin\n",
    ),
    ("who-can root.a root.b", 2, "", "Got unexpected extra argument (root.b)"),
    ("who-can submit", 2, "", "QUEUE 'submit' is not a full queue path"),
    ("who-can nosuch", 2, "", "QUEUE 'nosuch' is not a full queue path"),
    ("who-can root --page-size 2000", 2, "", "2000 is not in the range 1<=x<=1000"),
    ("tree --prefix root.nosuch", 1, "", "queue root.nosuch does not exist"),
]


@pytest.mark.parametrize(("line", "status", "output", "note"), OFFLINE)
def test_without_a_server(capsys: Capture, line: str, status: int, output: str, note: str) -> None:
    assert main([*line.split(), *EXAMPLE]) == status
    printed, errors = capsys.readouterr()
    assert output in printed
    assert note in errors


def test_groups_need_the_settings(tmp_path: Path, capsys: Capture) -> None:
    files = policy(tmp_path, '      - {name: root, submitacl: "sue dev"}\n', resolver="os")
    assert main(["who-can", "root", *files]) == 3
    printed, errors = capsys.readouterr()
    assert printed.startswith("sue  the user in the submit ACL of root")
    assert "not all members of dev are known: pass the server's settings" in errors


def test_disabled_acls_and_proxies(tmp_path: Path, capsys: Capture) -> None:
    site = tmp_path / "yarn-site.xml"
    site.write_text(
        "<configuration><property><name>yarn.acl.enable</name><value>false</value></property>"
        "</configuration>"
    )
    config = tmp_path / "queuegate.yaml"
    file = Path("examples/fair-scheduler.xml").absolute()
    config.write_text(f"policies: [{{path: {file}, yarn_site: {site}}}]\n")
    assert main(["who-can", "root.Test", "--config", str(config)]) == 0
    assert "everyone: yarn.acl.enable is not true: YARN enforces no ACLs" in capsys.readouterr().out
    queues = tmp_path / "fair-scheduler.xml"
    queues.write_text(
        '<allocations><queue name="root"><aclSubmitApps> </aclSubmitApps>'
        "<aclAdministerApps> </aclAdministerApps>"
        '<queue name="q"><aclSubmitApps>~hive,sue</aclSubmitApps></queue></queue></allocations>'
    )
    site.write_text(site.read_text().replace("false", "true"))
    config.write_text(
        f"policies: [{{path: {queues}, yarn_site: {site}}}]\n"
        "partitions: {default: {semantics: hadoop}}\n"
    )
    assert main(["who-can", "root.q", "--config", str(config)]) == 0
    printed = capsys.readouterr().out
    assert "any user on whose behalf hive acts: the submit ACL of root.q" in printed
    assert "sue  the user" in printed


def test_a_tree(capsys: Capture) -> None:
    assert main(["tree", *EXAMPLE]) == 0
    assert (
        capsys.readouterr().out
        == """\
root  admin group platform
├─ analytics  users ann, bob; group analysts
│  ├─ reports  user sue
│  └─ notebooks  group data-science
├─ engineering  admin user maria
│  ├─ ci  user robot-ci; group engineers
│  ├─ training  groups engineers, data-science
│  └─ payroll
├─ namespaces  groups engineers, analysts, data-science
└─ sandbox  everyone
"""
    )


def test_a_tree_of_a_user(capsys: Capture) -> None:
    arguments = ["tree", *EXAMPLE, "--prefix", "root.analytics", "--user", "sue"]
    assert main(arguments) == 0
    assert (
        capsys.readouterr().out
        == """\
root.analytics  denied; users ann, bob; group analysts
├─ reports  submit; user sue
└─ notebooks  denied; group data-science
"""
    )
    assert main([*arguments, "-o", "json"]) == 0
    queues = json.loads(capsys.readouterr().out)["queues"]
    assert {queue["queue"]: queue["allowed"] for queue in queues} == {
        "root.analytics": [],
        "root.analytics.reports": ["submit"],
        "root.analytics.notebooks": [],
    }


def test_a_tree_of_a_user_with_given_groups(tmp_path: Path, capsys: Capture) -> None:
    lines = '      - {name: root, submitacl: "sue dev", queues: [{name: a, adminacl: " ops"}]}\n'
    files = policy(tmp_path, lines, resolver="os")
    assert main(["tree", *files, "--user", "bob", "--group", "ops", "--group", "x"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "root  denied; user sue; group dev",
        "└─ a  submit and admin; admin group ops",
    ]
    assert main(["tree", *files, "--group", "ops"]) == 2
    assert "--group, --no-groups and --real-user: only with --user" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("semantics", "who"),
    [("documented", "denied; group dev"), ("hadoop", "submit; service hue; group dev team")],
)
def test_a_tree_of_yarn(tmp_path: Path, capsys: Capture, semantics: str, who: str) -> None:
    file = tmp_path / "fair.xml"
    acl = "<aclSubmitApps>~hue dev team</aclSubmitApps>"
    closed = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    file.write_text(
        f'<allocations><queue name="root">{closed}<queue name="a b">{acl}</queue></queue>'
        "</allocations>"
    )
    files = ("--policy", str(file), "--semantics", semantics)
    assert main(["tree", *files, "--user", "sue", "--real-user", "hue", "--no-groups"]) == 0
    assert capsys.readouterr().out.splitlines() == ["root  denied", f"└─ a b  {who}"]


def test_a_tree_on_a_terminal(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ",".join(f"user{number}" for number in range(100))
    lines = (
        f'      - {{name: root, submitacl: "{names}", queues: [{{name: all, submitacl: "*"}}]}}\n'
    )
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    files = policy(tmp_path, lines)
    assert main(["tree", *files]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert len(first) == 60
    assert first.endswith("…")
    assert second == "└─ all  \x1b[32meveryone\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["tree", *files, "--user", "sue"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def wide(folder: Path) -> tuple[str, str]:
    """Return a policy of 61 queues below the root, each with three below it."""
    lines = "      - name: root\n        queues:\n"
    for number in range(61):
        lines += (
            f"          - {{name: q{number}, queues: [{{name: a}}, {{name: b}}, {{name: c}}]}}\n"
        )
    return policy(folder, lines)


def test_a_large_tree_is_cut(tmp_path: Path, capsys: Capture) -> None:
    files = wide(tmp_path)
    assert main(["tree", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["├─ q0", "│  └─ … 3 queues (--prefix root.q0)"]
    assert lines[-1] == "└─ … 11 more queues (--prefix root)"
    assert len(lines) == 1 + 2 * 50 + 1
    assert main(["tree", *files, "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 61 * 4
    assert main(["tree", *files, "--depth", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 61 * 2
    assert main(["tree", *files, "--depth", "0"]) == 0
    assert capsys.readouterr().out.splitlines() == ["root", "└─ … 61 queues (--prefix root)"]


def test_a_deep_tree(tmp_path: Path, capsys: Capture) -> None:
    """The tree of a path with very many levels is drawn without recursion."""
    queues = [{"path": ".".join(["root", *["a"] * level])} for level in range(1500)]
    shown: Any = [PolicyQueue(queue["path"], "", "", (), ()) for queue in queues]
    drawing = Drawing(shown, {}, Colors(on=False), None)
    assert sum(1 for _ in drawing.lines(None, None)) == 1500
