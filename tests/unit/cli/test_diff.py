"""`queuegate-server diff`: its output, and its exit status."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from queuegate_server.cli.diff import diff


def document(*queues: dict[str, Any], name: str = "default", **more: Any) -> str:
    root = {"name": "root", "adminacl": "top", "queues": list(queues)}
    return json.dumps({"partitions": [{"name": name, "queues": [root], **more}]})


def compare(folder: Path, old: str, new: str, *options: str) -> Result:
    for name, text in (("old", old), ("new", new)):
        (folder / name).write_text(text)
    return CliRunner().invoke(diff, [*options, str(folder / "old"), str(folder / "new")])


def queue(**acls: str) -> dict[str, Any]:
    return {"name": "a", **acls}


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("sue,bob dev", "bob,sue,bob dev", []),
        ("sue", "sue,1bad", []),
        ("", " ", []),
        ("sue dev", "bob dev,ops", ['+ user "bob", - user "sue", + group "ops"']),
        ("sue", " sue", ['- user "sue", + group "sue"']),
        ("sue", "* ", ['+ everyone, - user "sue"']),
        (" *", "", ["- everyone"]),
        ("Sue", "sue", ['+ user "sue", - user "Sue"']),
    ],
)
@pytest.mark.parametrize("kind", ["submit", "admin"])
def test_acls_are_compared_by_meaning(
    tmp_path: Path, kind: str, old: str, new: str, lines: list[str]
) -> None:
    documents = (document(queue(**{f"{kind}acl": acl})) for acl in (old, new))
    result = compare(tmp_path, *documents)
    where = f'partition "default", queue "root.a": {kind} ACL: '
    assert result.stdout.splitlines() == [where + line for line in lines]
    assert result.exit_code == bool(lines)


def test_queues_and_partitions(tmp_path: Path) -> None:
    old = document(queue(submitacl="sue"), usergroupresolver={"type": "os"})
    result = compare(tmp_path, old, document({"name": "B"}))
    assert result.stdout.splitlines() == [
        'partition "default": usergroupresolver: "os" becomes ""',
        'partition "default", queue "root.a": removed',
        'partition "default", queue "root.a": submit ACL: - user "sue"',
        'partition "default", queue "root.b": added',
    ]
    result = compare(tmp_path, "", document(name="gpu"))
    assert result.stdout.splitlines() == [
        'partition "gpu": added',
        'partition "gpu", queue "root": added',
        'partition "gpu", queue "root": admin ACL: + user "top"',
    ]
    assert compare(tmp_path, old, old).stdout == ""


def test_files_of_yarn_by_the_semantics(tmp_path: Path) -> None:
    one, two = (
        f'<allocations><queue name="q"><aclSubmitApps>{acl}</aclSubmitApps></queue></allocations>'
        for acl in ("u g", "u  g")
    )
    assert compare(tmp_path, one, two, "--semantics", "hadoop").exit_code == 0
    result = compare(tmp_path, one, two)
    assert result.stdout == 'partition "default", queue "root.q": submit ACL: - group "g"\n'


def test_files_that_cannot_be_compared(tmp_path: Path) -> None:
    result = compare(tmp_path, document(), document(queue(submitacl="a b c")))
    assert "new:1:" in result.stderr
    assert "new: not valid" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 2)
    assert CliRunner().invoke(diff, [str(tmp_path / "old"), "nowhere"]).exit_code == 2
    assert CliRunner().invoke(diff, ["-", "-"]).exit_code == 2
    result = compare(tmp_path, " \n", "<allocations/>")
    assert "old: the file is empty: fill it, or name another file" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 2)
    result = compare(tmp_path, document(), "<allocations/>")
    assert "convert one of them first" in result.stderr
    assert (result.stdout, result.exit_code) == ("", 2)
    assert CliRunner().invoke(diff, [str(tmp_path / "old")]).exit_code == 2
    same = CliRunner().invoke(diff, ["-", str(tmp_path / "old")], input=document())
    assert (same.output, same.exit_code) == ("", 0)
