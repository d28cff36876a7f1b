"""What the commands say about queues that YARN will create."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queuegate.cli import main
from queuegate_server.cli.main import command_group
from tests.support.yarn_templates import creating_scheduler


@pytest.fixture
def old(tmp_path: Path) -> str:
    file = tmp_path / "old.xml"
    file.write_text(creating_scheduler())
    return str(file)


@pytest.fixture
def new(tmp_path: Path) -> str:
    file = tmp_path / "new.xml"
    file.write_text(creating_scheduler("mallory"))
    return str(file)


def server(*arguments: str) -> Result:
    return CliRunner().invoke(command_group(), arguments)


def test_a_changed_template_is_a_difference(old: str, new: str) -> None:
    result = server("diff", old, new)
    assert result.exit_code == 1
    assert result.stdout == (
        'partition "default", queue "root.managed": leaf-queue-template: submit ACL:'
        ' + user "mallory", - user "alice"\n'
    )
    assert server("diff", old, old).exit_code == 0


def test_people_who_gain_at_queues_that_will_be_created(old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("alice,analysts\nmallory,\nops,\n")
    people = ("--people", "--users-from", str(tmp_path / "people.csv"))
    result = server("diff", *people, old, new)
    assert result.exit_code == 1
    assert 'queue "root.managed.*": submit: + user "mallory"' in result.stdout
    assert "alice" not in result.stdout
    assert server("diff", *people, old, old).exit_code == 0


def test_queues_that_are_no_longer_created(old: str, tmp_path: Path) -> None:
    closed = tmp_path / "closed.xml"
    closed.write_text(creating_scheduler().replace(">true<", ">false<"))
    result = server("diff", old, str(closed))
    assert (
        "queues that will be created below: auto-create-child-queue becomes none" in result.stdout
    )
    people = server("diff", "--people", old, str(closed)).stdout
    for name in ('user "alice"', 'user "ops"', 'group "analysts"'):
        assert f"- {name}" in people
    assert 'user "sue"' not in people


def test_claims_cover_them(old: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claims = tmp_path / "claims.yaml"
    claims.write_text(
        "claims:\n"
        "  - only user:sue may submit root.**\n"
        "  - only user:sue, user:alice, user:ops, group:analysts may submit root.**\n"
        "  - only user:ops may admin root.managed.team.**\n"
        "  - never user:alice admin root.**\n"
    )
    result = server("prove", old, str(claims))
    assert result.exit_code == 1
    shown = [line for line in result.stdout.splitlines() if ": proved:" in line]
    assert len(shown) == 3
    assert re.search(r"old\.xml:\d:\d+: \w+ may submit root\.managed\.\*: the ", result.stdout)
    main(["check", "--policy", old, "alice", "root.managed.*"])
    assert "allowed" in capsys.readouterr().out


def test_the_files_are_valid_and_a_conversion_loses_them(old: str) -> None:
    result = server("validate", old)
    assert result.exit_code == 0
    assert "0 errors, 0 warnings" in result.output
    result = server("convert", old)
    assert result.exit_code == 1
    assert "the ACLs of leaf-queue-template are left out" in result.output


def test_who_can(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["who-can", "--policy", old, "root.managed.new"])
    shown = capsys.readouterr().out
    assert "alice" in shown
    assert "root.managed.new" in shown


NEW = "does not exist yet: YARN will create it, with ACLs from templates"
V2 = "auto-queue-creation-v2"
SUBMIT = "acl_submit_applications"
ADMIN = "acl_administer_queue"
FLEXIBLE = {
    "root.queues": "flex,managed",
    "root.acl_submit_applications": " ",
    "root.acl_administer_queue": " ",
    f"root.flex.{V2}.enabled": "true",
    f"root.flex.{V2}.template.acl_submit_applications": "ann",
    f"root.flex.*.{V2}.leaf-template.acl_administer_queue": "ops",
    "root.managed.auto-create-child-queue.enabled": "true",
    "root.managed.leaf-queue-template.acl_submit_applications": "ann",
}


@pytest.mark.parametrize(
    ("queue", "lines"),
    [
        (
            "root.flex.new",
            [
                f"root.flex.new {NEW}",
                f"├─ submit ACL 'ann': no match (root.flex.{V2}.template.{SUBMIT})",
                "└─ admin ACL ' ': grants nothing (no template sets it)",
            ],
        ),
        (
            "root.flex.a.b",
            [
                f"root.flex.a.b {NEW}",
                "├─ submit ACL ' ': grants nothing (no template sets it)",
                f"└─ admin ACL 'ops': no match (root.flex.*.{V2}.leaf-template.{ADMIN})",
                f"├─ submit ACL 'ann': no match (root.flex.{V2}.template.{SUBMIT})",
            ],
        ),
        (
            "root.managed.new",
            [
                f"root.managed.new {NEW}",
                f"├─ submit ACL 'ann': no match (root.managed.leaf-queue-template.{SUBMIT})",
                "└─ admin ACL ' ': grants nothing (no template sets it)",
            ],
        ),
        ("root.managed.a.b", ["root.managed.a.b does not exist; decided at root.managed"]),
        ("root.flex.a.b.c", ["root.flex.a.b.c does not exist; decided at root.flex"]),
        ("root.flex", []),
    ],
)
def test_an_explanation_says_where_acls_come_from(
    queue: str, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cs.xml"
    prefix = "yarn.scheduler.capacity."
    properties = "".join(
        f"<property><name>{prefix}{name}</name><value>{value}</value></property>"
        for name, value in FLEXIBLE.items()
    )
    file.write_text(f"<configuration>{properties}</configuration>")
    assert main(["explain", "eve", queue, "--policy", str(file), "--group", "g"]) == 1
    output = capsys.readouterr().out.replace(prefix, "").splitlines()
    assert [line for line in output if "template" in line or "not exist" in line] == lines
