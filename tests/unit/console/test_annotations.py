"""The places and findings of a policy when no child process can be started."""

import sys
from pathlib import Path

import pytest

from queuegate.policy.decision import Access
from queuegate.policy.tree import Policy
from queuegate_server.console.annotations import Annotator
from queuegate_server.engine import Snapshot
from queuegate_server.policystore.loader import PolicyLoader
from queuegate_server.settings.model import Settings

QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: alice
"""


async def test_places_are_known_without_a_linter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    settings = Settings.model_validate({"policy": {"path": file}})
    job = await PolicyLoader(settings).read()
    policy = Policy({}, revision=1, checksum=job.checksum)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    found = await Annotator(lambda: job).annotations(Snapshot(policy, {}, 0.0))
    assert found.place("default", "root", Access.SUBMIT) == f"{file}:5:20"
    assert "No such file or directory" in found.missing


async def test_large_policies_have_no_places() -> None:
    found = await Annotator(lambda: None).annotations(Snapshot(Policy({}, revision=1), {}, 0.0))
    assert found.place("default", "root", Access.SUBMIT) == ""
    assert "larger than 2 MiB" in found.missing
