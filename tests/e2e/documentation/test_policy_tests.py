"""The workflow that runs tests of policies, carried out as written."""

from pathlib import Path

import yaml
from click.testing import CliRunner

from queuegate_server.cli.main import command_group


def run(line: str) -> tuple[int, str]:
    done = CliRunner().invoke(command_group(), line.split())
    return done.exit_code, done.stdout


def test_the_workflow(tmp_path: Path) -> None:
    workflow = yaml.safe_load(Path("examples/policy-tests/workflow.yml").read_text())
    commands = [
        step["run"].removeprefix("queuegate-server ")
        for step in workflow["jobs"]["test"]["steps"]
        if step.get("run", "").startswith("queuegate-server ")
    ]
    assert len(commands) == 2
    for command in commands:
        assert run(command.replace("policy-tests.xml", str(tmp_path / "junit.xml")))[0] == 0
    assert (tmp_path / "junit.xml").read_text().count("<testcase") == 8
