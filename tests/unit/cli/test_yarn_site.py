"""Every command that reads a capacity scheduler's file reads it over yarn-site.xml."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queuegate.cli import main
from queuegate_server.cli.diff import diff
from queuegate_server.cli.policy_files import convert, lint, validate
from tests.support.generators.yarn_files import prop

KEY = "yarn.scheduler.capacity.root"
ETL = f"{KEY}.etl.acl_submit_applications"
BASE = "".join(
    prop(f"{KEY}.{name}", value)
    for name, value in (
        ("queues", "default,etl"),
        ("acl_submit_applications", " "),
        ("acl_administer_queue", " "),
        ("etl.acl_submit_applications", "alice"),
    )
)
SITE = prop("yarn.acl.enable", "true") + prop("yarn.admin.acl", "yarn")
SITE += prop(ETL, "bob", "<final>true</final>")
HADOOP = ("--semantics", "hadoop")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (
        ("cs.xml", BASE),
        ("other.xml", BASE.replace("alice", "carol")),
        ("fewer.xml", BASE.replace("default,etl", "default")),
        ("yarn-site.xml", SITE),
    ):
        (tmp_path / name).write_text(f"<configuration>\n{text}\n</configuration>")
    return tmp_path


def run(command: object, folder: Path, *names: str) -> Result:
    site = ("--yarn-site", str(folder / "yarn-site.xml"))
    files = [str(folder / name) for name in names]
    return CliRunner().invoke(command, [*files, *site, *HADOOP])  # type: ignore[arg-type]


@pytest.mark.parametrize(("command", "status"), [(validate, 0), (lint, 1)])
def test_a_value_that_does_not_count_is_reported(
    command: object, status: int, folder: Path
) -> None:
    result = run(command, folder, "cs.xml")
    assert result.exit_code == status
    assert result.stdout.startswith(f"{folder / 'cs.xml'}:2:")
    assert f"is final in {folder / 'yarn-site.xml'}:2:" in result.stdout
    assert '"bob" applies' in result.stdout
    assert len(result.stdout.splitlines()) == 1


def test_convert(folder: Path) -> None:
    result = run(convert, folder, "cs.xml")
    assert "submitacl: 'bob'" in result.stdout
    assert "alice" not in result.stdout


def test_diff(folder: Path) -> None:
    """Only what counts is compared."""
    assert run(diff, folder, "cs.xml", "other.xml").exit_code == 0
    result = run(diff, folder, "cs.xml", "fewer.xml")
    assert result.exit_code == 1
    assert '- user "bob"' in result.stdout
    assert "alice" not in result.stdout


@pytest.mark.parametrize(("user", "status"), [("alice", 1), ("bob", 0)])
def test_without_a_server(
    user: str, status: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--policy", str(folder / "cs.xml"), "--yarn-site", str(folder / "yarn-site.xml"))
    asked = (user, "root.etl", "--group", "g", *options, *HADOOP)
    assert main(["check", *asked]) == status
    assert main(["explain", *asked]) == status
    assert "submit ACL 'bob'" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["validate", "lint"])
@pytest.mark.parametrize(("group", "count"), [("queues", 0), ("prod", 1)])
def test_a_key_that_yunikorn_does_not_read(
    command: str, group: str, count: int, tmp_path: Path
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("partitions: [{name: default, queues: [{name: root, submitacl: bob}]}]\n")
    (tmp_path / "service.policyGroup").write_text(group)
    ended = subprocess.run(
        (sys.executable, "-m", "queuegate_server", command, str(file)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.stdout.count('makes YuniKorn read "prod.yaml"') == count
    assert ended.returncode == (count if command == "lint" else 0)
