"""`queuegate-server diff --people`: its output, and its exit status."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from queuegate_server.cli.main import command_group

OLD = {"root": " platform", "a": "bob dev", "a.x": "", "open": "*"}
NEW = {"root": " platform,ops", "a": " dev,ml", "a.x": "sue", "open": "ann"}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("old.yaml", OLD)
    write("new.yaml", NEW)


def write(name: str, acls: dict[str, str]) -> None:
    """Write queues with their submit ACLs; one line each, so that lines are known."""
    x = {"name": "x", "submitacl": acls["a.x"]}
    below: list[dict[str, Any]] = [
        {"name": "a", "submitacl": acls["a"], "queues": [x]},
        {"name": "open", "submitacl": acls["open"]},
    ]
    root = {"name": "root", "submitacl": acls["root"], "queues": below}
    document = {"partitions": [{"name": "default", "queues": [root]}]}
    Path(name).write_text(json.dumps(document, indent=1))


def diff(*options: str) -> Result:
    return CliRunner().invoke(
        command_group(), ["diff", "--people", *options, "old.yaml", "new.yaml"]
    )


def test_by_name() -> None:
    done = diff()
    assert done.exit_code == 1
    assert [
        line.removeprefix('partition "default", queue ') for line in done.stdout.splitlines()
    ] == [
        '"root": submit: + group "ops"; 2 queues below inherit it',
        '"root.a": submit: + group "ml", - user "bob"; 1 queue below inherits it',
        '"root.a.x": submit: + user "sue"',
        '"root.open": submit: - everyone but group "ops", group "platform", user "ann"',
    ]


def test_by_people() -> None:
    Path("people.csv").write_text("john,ops\nsue,dev\neve,ml,platform\nann\nbob\n")
    done = diff("--users-from", "people.csv")
    assert [
        line.removeprefix('partition "default", queue ') for line in done.stdout.splitlines()
    ] == [
        '"root": submit: + user "john"; 2 queues below inherit it',
        '"root.a": submit: - user "bob"; 1 queue below inherits it',
        '"root.open": submit: - everyone, among them user "bob", user "sue"',
    ]


def test_all_users_of_the_resolver() -> None:
    write("new.yaml", {**OLD, "a": "bob dev,group1001"})
    assert (
        "pass the settings that configure the resolver" in diff("--users-from", "directory").stderr
    )
    Path("queuegate.yaml").write_text(
        "policy: {path: queues.yaml}\nresolvers: {table: {type: test}}\n"
        "partitions: {default: {resolver: table}}\n"
    )
    options = ("--config", "queuegate.yaml", "--users-from", "directory")
    line = 'partition "default", queue "root.a": submit: + '
    found = [f'user "testuser{number}"' for number in (1, 2, 3)]
    assert diff(*options).stdout == f"{line}{', + '.join(found)}; 1 queue below inherits it\n"
    Path("more.csv").write_text("testuser3,dev\njoe,group1001\n")
    done = diff(*options, "--users-from", "more.csv")
    assert done.stdout.startswith(f'{line}user "joe", + {", + ".join(found[:2])};')
    Path("queuegate.yaml").write_text("policy: {path: queues.yaml}\n")
    done = diff(*options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert (
        "the users cannot be listed: resolver 'none': every name is that of a user" in done.stderr
    )


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["--fail-on", "gain"], 1),
        (["--fail-on", "loss"], 1),
        (["--fail-on", "gain", "--allow-gain", "group:ops:root"], 1),
        (
            [
                *("--fail-on", "gain", "--allow-gain", "group:ops:root"),
                *("--allow-gain", "user:sue:root", "--allow-gain", "group:ml:root.A"),
            ],
            0,
        ),
        (["--fail-on", "gain", "--allow-gain", "everyone:root"], 0),
        (["--fail-on", "gain", "--allow-gain", "everyone:root.A"], 1),
        (["--allow-gain", "everyone:root"], 1),
        (["--fail-on", "gain", "--allow-gain", "everyone:root.a"], 1),
    ],
)
def test_what_fails(options: list[str], status: int) -> None:
    assert diff(*options).exit_code == status


def test_a_gain_is_allowed_to_the_members_of_a_group() -> None:
    Path("people.csv").write_text("john,ops\nsue,dev\n")
    options = ("--users-from", "people.csv", "--fail-on", "gain", "--allow-gain")
    assert diff(*options, "group:ops:root").exit_code == 0
    assert diff(*options, "group:dev:root").exit_code == 1
    assert "(allowed)" in diff(*options, "user:john:root").stdout


def test_documents() -> None:
    document = json.loads(diff("-o", "json", "--allow-gain", "group:ops:root").stdout)
    first, second, *_, last = document["changes"]
    assert first["gained"] == {"everyone": False, "subjects": ["group:ops"], "except": []}
    assert first["unexpected"]["subjects"] == []
    assert (second["queue"], second["lost"]["subjects"]) == ("root.a", ["user:bob"])
    assert last["lost"]["everyone"] is True
    lines = Path("new.yaml").read_text().splitlines()
    assert (second["file"], " dev,ml" in lines[second["line"] - 1]) == ("new.yaml", True)
    assert last["file"] == "old.yaml"
    assert '"*"' in Path("old.yaml").read_text().splitlines()[last["line"] - 1]
    assert document["failed"] == 3
    table = diff("-o", "markdown", "--fail-on", "gain").stdout.splitlines()
    assert [line.split()[1] for line in table[2:]] == ["❌", "❌", "❌", "✅"]
    results = json.loads(diff("-o", "sarif", "--fail-on", "loss").stdout)["runs"][0]["results"]
    assert [each["level"] for each in results] == ["warning", "error", "warning", "error"]


def test_names_are_hostile_in_markdown() -> None:
    write("new.yaml", {**OLD, "a.x": "a<b>|c`d"})
    Path("site").write_text("")
    xml = '<allocations><queue name="a|b`c"><aclSubmitApps>{}</aclSubmitApps></queue></allocations>'
    Path("old.xml").write_text(xml.format("u"))
    Path("new.xml").write_text(xml.format("u,&lt;b>|"))
    done = CliRunner().invoke(
        command_group(), ["diff", "--people", "-o", "markdown", "old.xml", "new.xml"]
    )
    row = done.stdout.splitlines()[-1]
    assert row.count("|") == 7
    assert "<b>" not in row
    assert "`" not in row


def test_no_difference() -> None:
    write("new.yaml", OLD)
    assert (diff().stdout, diff().exit_code) == ("", 0)
    assert diff("-o", "markdown").stdout == "Nobody gains or loses access to a queue.\n"


def test_wrong_usage() -> None:
    for options in (["--fail-on", "gain"], ["--allow-gain", "user:a:root"], ["-o", "markdown"]):
        done = CliRunner().invoke(command_group(), ["diff", *options, "old.yaml", "new.yaml"])
        assert done.exit_code == 2
        assert f"Error: {options[0]}" in done.stderr
        assert ": only with --people" in done.stderr
    done = CliRunner().invoke(command_group(), ["diff", "--config", "q.yaml", "a", "b"])
    assert "--config: only with --people; pass --semantics, --yarn-site or --acl" in done.stderr
    assert diff("--allow-gain", "ml:root").exit_code == 2
    assert diff("--users-from", "nowhere").exit_code == 2
    Path("people.csv").write_text("ann\n,x\n")
    assert "people.csv:2:1" in diff("--users-from", "people.csv").stderr
