"""The places and findings of a policy when no child process can be started."""

import asyncio
import base64
import gzip
import sys
from pathlib import Path

import pytest

from queuegate.policy.decision import Access
from queuegate.policy.tree import Policy
from queuegate_server.console.annotations import Annotator
from queuegate_server.engine import Snapshot
from queuegate_server.formats.acl_positions import AclKey
from queuegate_server.policystore.loader import MAX_KEPT_BYTES, PolicyLoader
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
    assert found.place(AclKey("default", "root", Access.SUBMIT)) == f"{file}:5:20"
    assert "No such file or directory" in found.missing


@pytest.mark.parametrize("in_manifest", [False, True])
async def test_the_size_is_that_of_the_policy_and_not_of_its_archive(
    tmp_path: Path, in_manifest: bool
) -> None:
    data = gzip.compress((QUEUES + "#" * MAX_KEPT_BYTES).encode())
    if in_manifest:
        value = base64.b64encode(data).decode()
        data = f"kind: ConfigMap\nbinaryData:\n  queues.yaml.gz: {value}\n".encode()
    (tmp_path / "queues.yaml").write_bytes(data)
    settings = Settings.model_validate({"policy": {"path": tmp_path / "queues.yaml"}})
    job = await PolicyLoader(settings).read()
    snapshot = Snapshot(Policy({}, revision=1, checksum=job.checksum), {}, 0.0)
    annotator = Annotator(lambda: job)
    async with asyncio.timeout(60):
        while "still being read" in (found := await annotator.annotations(snapshot)).missing:
            pass
    assert "larger than 2 MiB" in found.missing
    assert not found.places


async def test_large_policies_have_no_places() -> None:
    found = await Annotator(lambda: None).annotations(Snapshot(Policy({}, revision=1), {}, 0.0))
    assert found.place(AclKey("default", "root", Access.SUBMIT)) == ""
    assert "larger than 2 MiB" in found.missing
