"""The release: its workflow, and the checklist beside it."""

import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.e2e.packaging.dockerfile import PROJECT

PATH = PROJECT / ".github" / "workflows" / "release.yml"
TEXT = PATH.read_text()
JOBS: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]
CHECKLIST = (PROJECT / "RELEASING.md").read_text()


def test_actions_are_pinned_by_commit() -> None:
    used = re.findall(r"\buses: *(.*)", TEXT)
    assert len(used) == len([step for step in STEPS if "uses" in step]) > 0
    pinned = r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+(\.\d+)+"
    assert [text for text in used if not re.fullmatch(pinned, text)] == []


def test_no_job_may_do_more_than_it_needs() -> None:
    assert yaml.safe_load(TEXT)["permissions"] == {}
    writes = {
        name: {right for right, kind in job["permissions"].items() if kind == "write"}
        for name, job in JOBS.items()
    }
    assert writes == {
        "build": set(), "publish": {"id-token"}, "image": {"id-token", "packages"},
    }  # fmt: skip
    # Jobs that publish wait for a maintainer's approval, and no script runs text of a tag's name.
    assert [name for name, job in JOBS.items() if "environment" in job] == ["publish", "image"]
    assert [step for step in STEPS if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("script", [step["run"] for step in STEPS if "run" in step])
def test_scripts_are_valid(script: str) -> None:
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", TEXT + CHECKLIST))
    assert {"dist", "image", "lock", "sbom", "test"} <= named
    assert named <= targets


def test_checklist_names_all_places_of_the_version() -> None:
    """As its second step finds them."""
    version = re.search(
        r'^version = "(.*)"', (PROJECT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert version
    files = [PROJECT / "Makefile", *(PROJECT / "deploy").rglob("*.yaml")]
    tags = {tag for path in files for tag in re.findall(r"queuegate:([0-9.]+)", path.read_text())}
    assert tags == {version[1]}
