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
