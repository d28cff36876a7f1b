"""The workflows about policies, carried out as written."""

import os
import subprocess
import sys
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


def test_the_review_of_a_pull_request(tmp_path: Path) -> None:
    """The steps of the workflow, in a shell as GitHub's."""
    workflow = yaml.safe_load(Path("examples/policy-review/workflow.yml").read_text())
    job = workflow["jobs"]["review"]
    steps = {step.get("name"): step["run"] for step in job["steps"] if "run" in step}
    policy = tmp_path / "queues.yaml"
    original = Path("examples/queues.yaml").read_text()
    (tmp_path / "old.yaml").write_text(original)
    environment = {
        **os.environ,
        **job["env"],
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "POLICY": str(policy),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }

    def step(name: str) -> tuple[int, str]:
        script = steps[name].replace("examples/", f"{Path.cwd()}/examples/")
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert bool(done.stderr) is (done.returncode == 2), done.stderr
        return done.returncode, done.stdout

    policy.write_text("partitions: [")
    status, annotations = step("Who gains and who loses")
    assert (status, annotations.partition(",")[0]) == (2, f"::error file={policy}")
    assert "cannot be compared" in (tmp_path / "change.md").read_text()

    policy.write_text(original)
    assert step("Who gains and who loses") == (0, "")
    assert (tmp_path / "change.md").read_text() == "Nobody gains or loses access to a queue.\n"
    assert step("Claims") == (0, "")

    policy.write_text(original.replace("ann,bob analysts", "ann,bob analysts,interns"))
    status, annotations = step("Who gains and who loses")
    assert status == 1
    assert annotations.startswith(f"::error file={policy},line=64,col=24,")
    assert "| ❌ | <code>default: root.analytics</code> |" in (tmp_path / "summary").read_text()
    status, annotations = step("Claims")
    assert status == 1
    assert "is refuted, for example: somebody in interns may submit root.analytics" in annotations
