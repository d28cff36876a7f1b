"""What the commands say about queues that YARN will create."""

import json
import re
from collections.abc import Mapping
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


def of_flexible(folder: Path, name: str, changes: Mapping[str, str | None]) -> str:
    """Write a file with a property per line, the first one in line 2, and return its name."""
    properties = {**FLEXIBLE, **changes}
    lines = (
        f"<property><name>yarn.scheduler.capacity.{key}</name><value>{value}</value></property>"
        for key, value in properties.items()
        if value is not None
    )
    (folder / name).write_text("\n".join(["<configuration>", *lines, "</configuration>"]))
    return str(folder / name)


@pytest.mark.parametrize("people", [(), ("--people",)])
@pytest.mark.parametrize(
    ("key", "line"),
    [
        (f"root.flex.{kind}.{acl}", 10)
        for acl in ("acl_submit_applications", "acl_administer_queue")
        for kind in (
            "auto-queue-creation-v2.leaf-template",
            "auto-queue-creation-v2.parent-template",
        )
    ]
    + [
        ("root.flex.*.auto-queue-creation-v2.template.acl_submit_applications", 10),
        ("root.flex.team.auto-queue-creation-v2.template.acl_submit_applications", 10),
        ("root.flex.auto-queue-creation-v2.template.acl_submit_applications", 6),
        ("root.flex.*.auto-queue-creation-v2.leaf-template.acl_administer_queue", 7),
        ("root.managed.leaf-queue-template.acl_submit_applications", 9),
    ],
)
def test_changes_of_templates_have_lines(
    tmp_path: Path, key: str, line: int, people: tuple[str, ...]
) -> None:
    old, new = of_flexible(tmp_path, "old.xml", {}), of_flexible(tmp_path, "new.xml", {key: "eve"})
    result = server("diff", *people, "-o", "github", old, new)
    gained = [each for each in result.stdout.splitlines() if '+ user "eve"' in each]
    assert gained
    for each in gained:
        assert f"file={new},line={line},col=" in each
    document = json.loads(server("diff", *people, "-o", "sarif", old, new).stdout)
    for each in document["runs"][0]["results"]:
        assert each["locations"][0]["physicalLocation"]["region"]["startLine"] > 0


@pytest.mark.parametrize(
    ("changes", "removed", "lines"),
    [
        # The template is still in the file.
        (
            {"root.flex.auto-queue-creation-v2.enabled": "false"},
            "no longer takes effect",
            [("new", 5), ("new", 6), ("new", 7)],
        ),
        (
            dict.fromkeys(
                (
                    "root.flex.auto-queue-creation-v2.enabled",
                    "root.flex.auto-queue-creation-v2.template.acl_submit_applications",
                    "root.flex.*.auto-queue-creation-v2.leaf-template.acl_administer_queue",
                )
            ),
            "removed",
            [("old", 5), ("old", 6), ("old", 7)],
        ),
    ],
)
def test_templates_of_queues_that_are_no_longer_created(
    tmp_path: Path, changes: Mapping[str, str | None], removed: str, lines: list[tuple[str, int]]
) -> None:
    old, new = of_flexible(tmp_path, "old.xml", {}), of_flexible(tmp_path, "new.xml", changes)
    queue = 'partition "default", queue "root.flex'
    kind = "auto-queue-creation-v2"
    assert server("diff", old, new).stdout.splitlines() == [
        f'{queue}": queues that will be created below: {kind}, 2 levels becomes none',
        f'{queue}": {kind}.template: submit ACL {removed}: - user "ann"',
        f'{queue}.*": {kind}.leaf-template: admin ACL {removed}: - user "ops"',
    ]
    shown = server("diff", "-o", "github", old, new).stdout
    assert re.findall(r"file=\S+/(old|new)\.xml,line=(\d+),", shown) == [
        (file, str(line)) for file, line in lines
    ]
    back = server("diff", new, old).stdout
    action = "takes effect" if removed != "removed" else "added"
    assert f'{kind}.template: submit ACL {action}: + user "ann"' in back


def test_a_template_without_effect_makes_no_difference(tmp_path: Path) -> None:
    off = {"root.managed.auto-create-child-queue.enabled": "false"}
    changed = {**off, "root.managed.leaf-queue-template.acl_submit_applications": "eve"}
    old, new = of_flexible(tmp_path, "old.xml", off), of_flexible(tmp_path, "new.xml", changed)
    assert server("diff", old, new).stdout == ""


def test_the_tree_shows_queues_that_will_be_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {
        "root.flex.team.auto-queue-creation-v2.leaf-template.acl_submit_applications": "*",
        "root.flex.team.auto-queue-creation-v2.leaf-template.acl_administer_queue": " ",
        "root.*.auto-queue-creation-v2.parent-template.acl_submit_applications": "kim g,h",
    }
    policy = of_flexible(tmp_path, "cs.xml", changes)
    assert main(["tree", "--policy", policy]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "root",
        "├─ flex  YARN creates queues, up to 2 levels",
        "│  ├─ *  template: user ann",
        "│  ├─ *.*  leaf-template: admin user ops",
        "│  └─ team.*  leaf-template: everyone",
        "├─ managed  YARN creates queues",
        "│  └─ *  leaf-queue-template: user ann",
        "└─ *.*  parent-template: user kim; groups g, h",
    ]
    assert main(["tree", "--policy", policy, "--user", "ann", "--no-groups"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "│  ├─ *  submit; template: user ann",
        "│  ├─ *.*  denied; leaf-template: admin user ops",
        "│  └─ team.*  submit; leaf-template: everyone",
        "├─ managed  denied; YARN creates queues",
        "│  └─ *  submit; leaf-queue-template: user ann",
        "└─ *.*  parent-template: user kim; groups g, h",
    ]
    assert main(["tree", "--policy", policy, "--depth", "0"]) == 0
    assert "template" not in capsys.readouterr().out
    assert main(["tree", "--policy", policy, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    levels = [queue.get("created_levels") for queue in document["queues"]]
    assert levels == [None, 2, 1]
    assert [each["path"] for each in document["templates"]] == [
        *("root.flex", "root.flex.*", "root.managed", "root.flex.team", "root.*"),
    ]


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
    assert "the ACLs of leaf-queue-template at root.managed are left out" in result.output


def test_who_can(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["who-can", "--policy", old, "root.managed.new"])
    shown = capsys.readouterr().out
    assert "alice" in shown
    assert "root.managed.new" in shown


NEVER = "does not exist, and YARN does not create it"
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
        (
            "root.managed.a.b",
            [f"root.managed.a.b {NEVER}; decided at root.managed"],
        ),
        (
            "root.flex.a.b.c",
            [f"root.flex.a.b.c {NEVER}; decided at root.flex"],
        ),
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
