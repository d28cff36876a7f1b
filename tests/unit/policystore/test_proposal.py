"""A proposed policy, assessed in a child process."""

import asyncio
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from queuegate.cli import main
from queuegate.policy.tree import Partition
from queuegate_server.analysis.access_changes import GroupsByUser
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.policystore import proposal
from queuegate_server.policystore.parsing import File, ParseJob, PolicyText
from queuegate_server.policystore.proposal import ProposalJob, served_lines

SERVED = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: ml, submitacl: " ml"}
          - {name: ops, submitacl: "sue"}
"""
PROPOSED = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: ml
            submitacl: "bob ml,interns"
            queues:
              - name: train
          - {name: ops, submitacl: ""}
"""
CLAIMS = """\
facts: [interns within staff]
claims:
  - only group:ml may submit root.ml
  - no new access compared with what is served
  - nobody may submit root.ops
"""


def partitions(text: str, format_name: str = "yunikorn") -> Mapping[str, Partition]:
    found = load_policy(format_name, text.encode(), "served.yaml")
    assert found.partitions, found.diagnostics
    return found.partitions


async def assessed(
    text: str,
    *,
    served: Mapping[str, Partition] | None = None,
    claims: str | None = None,
    people: Mapping[str, GroupsByUser] | None = None,
    replaces_all: bool = True,
    name: str = "queues.yaml",
    partition: str = "default",
) -> dict[str, Any]:
    options = FormatOptions(yarn=YarnOptions(partition))
    policy = PolicyText(File(name, text.encode()), "", options)
    job = ProposalJob(
        ParseJob((policy,), ""),
        b"".join(served_lines(served or partitions(SERVED))),
        replaces_all,
        None if claims is None else File("claims.yaml", claims.encode()),
        people,
        wants_groups=people is None,
    )
    return await proposal.run(job)


def changes(found: dict[str, Any]) -> dict[tuple[str, str], tuple[list[str], list[str], str]]:
    return {
        (each["queue"], each["access"]): (
            [":".join(name) for name in each["gained"]["names"]],
            [":".join(name) for name in each["lost"]["names"]],
            each["place"],
        )
        for each in found["changes"]
    }


async def test_names_that_gain_and_lose() -> None:
    found = await assessed(PROPOSED)
    assert found["valid"]
    assert changes(found) == {
        ("root.ml", "submit"): (["group:interns", "user:bob"], [], "queues.yaml:7:24"),
        ("root.ops", "submit"): ([], ["user:sue"], ""),
    }
    assert [each["below"] for each in found["changes"]] == [1, 0]
    assert found["groups"] == {"default": ["interns", "ml"]}


async def test_people_who_gain_and_lose() -> None:
    people = {"default": {"ann": ("ml", "interns"), "joe": ("interns",)}}
    found = await assessed(PROPOSED, people=people)
    assert changes(found)["root.ml", "submit"][0] == ["user:bob", "user:joe"]


async def test_claims_are_proved_or_refuted_by_a_command() -> None:
    found = await assessed(PROPOSED, claims=CLAIMS)
    assert found["claims"]["error"] == ""
    proofs = found["claims"]["proofs"]
    assert [each["proved"] for each in proofs] == [False, False, True]
    [shown] = proofs[0]["shown"]
    assert shown["command"] == "queuegate check --policy queues.yaml bob root.ml"
    assert shown["place"] == "queues.yaml:7:24"
    new, old = proofs[1]["shown"]
    assert new["command"].startswith("queuegate check --policy queues.yaml ")
    assert old["command"].startswith("queuegate check ")
    assert "--policy" not in old["command"]
    assert old["place"] == "the served policy"


async def test_the_command_for_a_named_partition_of_yarn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "<allocations><queue name='root'><aclSubmitApps> </aclSubmitApps>"
        "<aclAdministerApps> </aclAdministerApps>"
        "<queue name='a'><aclSubmitApps>{}</aclSubmitApps></queue></queue></allocations>"
    )
    file = tmp_path / "fair-scheduler.xml"
    file.write_text(text.format("ann"))
    [served] = partitions(text.format("eve"), "fair-scheduler").values()
    found = await assessed(
        text.format("ann"),
        served={"hadoop": replace(served, name="hadoop")},
        claims=(
            "partition: hadoop\n"
            "claims: [nobody may submit root.a, no new access compared with what is served]\n"
        ),
        name=str(file),
        partition="hadoop",
    )
    nobody, compared = found["claims"]["proofs"]
    [shown] = nobody["shown"]
    assert shown["command"] == f"queuegate check --policy {file} ann root.a"
    new, old = compared["shown"]
    assert new["command"] == shown["command"]
    assert old["command"] == "queuegate check ann root.a --partition hadoop --no-groups"
    # In a thread without an event loop.
    assert await asyncio.to_thread(main, shlex.split(shown["command"])[1:]) == 0
    assert capsys.readouterr().out.startswith("allowed: ann may submit to root.a")


@pytest.mark.parametrize(
    ("claims", "error"),
    [
        ("claims: [what is this]", "the claims are not valid"),
        ("claims: [nobody may submit nowhere]", "the claims are not valid"),
        ("partition: gpu\nclaims: [nobody may submit root]", "there is no partition"),
        (
            f"claims: [{', '.join(['nobody may submit root'] * 201)}]",
            "there are 201 claims, more than",
        ),
    ],
)
async def test_claims_that_are_not_valid(claims: str, error: str) -> None:
    found = await assessed(PROPOSED, claims=claims)
    assert error in found["claims"]["error"]
    assert found["claims"]["proofs"] == []
    assert found["changes"]


async def test_a_proposal_that_is_not_valid_has_findings_only() -> None:
    found = await assessed("partitions: 3")
    assert not found["valid"]
    assert found["findings"]
    assert "changes" not in found


async def test_what_the_linter_finds() -> None:
    found = await assessed(SERVED.replace('"sue"', '"sue, bob"'))
    assert found["valid"]
    assert [each["severity"] for each in found["findings"]] == ["warning"]


async def test_partitions_that_the_proposal_does_not_have() -> None:
    two = partitions(SERVED + SERVED[len("partitions:\n") :].replace("default", "gpu"))
    found = await assessed(SERVED, served=two)
    assert found["removed_partitions"] == ["gpu"]
    assert found["changes"]
    found = await assessed(SERVED, served=two, replaces_all=False)
    assert (found["removed_partitions"], found["changes"]) == ([], [])


async def test_groups_of_partitions_that_come_and_go() -> None:
    text = SERVED.replace("default", "gpu").replace("ml", "vision")
    found = await assessed(text)
    assert (found["added_partitions"], found["removed_partitions"]) == (["gpu"], ["default"])
    assert found["groups"] == {"default": ["ml"], "gpu": ["vision"]}
    people = {"default": {"ann": ("ml",)}, "gpu": {"joe": ("vision",)}}
    found = await assessed(text, people=people)
    assert changes(found)["root.ml", "submit"][1] == ["user:ann"]
    assert changes(found)["root.vision", "submit"][0] == ["user:joe"]


async def test_a_policy_of_another_scheduler_is_not_compared() -> None:
    text = "<allocations><queue name='root'/></allocations>"
    served = partitions(text, "fair-scheduler")
    found = await assessed(SERVED, served=served)
    assert (found["added_partitions"], found["removed_partitions"]) == (["default"], [])


async def test_long_lists_are_cut() -> None:
    names = ",".join(f"user{number}" for number in range(80))
    queues = "".join(
        f"          - {{name: q{number}, submitacl: {names!r}}}\n" for number in range(300)
    )
    found = await assessed(SERVED + queues)
    assert len(found["changes"]) == 200
    assert found["changes_not_shown"] == 100
    gained = found["changes"][0]["gained"]
    assert (len(gained["names"]), gained["names_not_shown"]) == (50, 30)
