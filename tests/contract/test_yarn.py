"""Both families of schedulers served by one process, asked through the client."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import queuegate
from queuegate import Access, Reason, StepOutcome
from tests.support.eventually import eventually
from tests.support.rows import rows
from tests.support.servers.dual_stack import EXAMPLES, policies_of_both_families, served
from tests.support.servers.queuegate_server import server_command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return policies_of_both_families(tmp_path_factory.mktemp("yarn"))


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[queuegate.Client]:
    with served(folder) as asking:
        yield asking


@rows
def test_queue_access(
    client: queuegate.Client,
    partition: str,
    queue: str,
    user: str,
    groups: list[str],
    access: Access,
    expected: str | None,
) -> None:
    decision = client.check(user, queue, partition=partition, access=access, groups=groups)
    assert decision.allowed is (expected is not None)
    assert decision.matched_queue == (expected or "")
    if expected == "":
        assert decision.reason is Reason.CLUSTER_ADMIN


def test_the_other_family_is_served_beside_it(client: queuegate.Client) -> None:
    info = client.get_policy("hadoop")
    assert set(info.partitions) >= {"default", "hadoop", "capacity"}
    assert [queue.path for queue in client.get_policy("hadoop", "Datascience").queues] == [
        "root.Datascience",
        "root.Datascience.Production",
    ]
    assert "root.Test" in client.list_queues("John", partition="hadoop")
    assert client.get_policy().queues


def test_explanations(client: queuegate.Client) -> None:
    explanation = client.explain("Bob", "Test", partition="hadoop")
    assert [(step.queue, step.outcome) for step in explanation.steps][-1] == (
        "",
        StepOutcome.CLUSTER_ADMIN,
    )
    assert explanation.evaluated_queue == "root.Test"


@rows
def test_a_missing_queue_is_said_where_it_is_decided(
    client: queuegate.Client, partition: str, queue: str, expected: str
) -> None:
    decision = client.check("Bob", queue, partition=partition)
    assert decision.evaluated_queue == expected
    assert client.explain("Bob", queue, partition=partition).decision == decision
    assert client.check_many([queuegate.Check("Bob", queue, partition)] * 100) == [decision] * 100


def test_faulty_requests_are_judged_by_the_rules_of_the_partition(client: queuegate.Client) -> None:
    with pytest.raises(queuegate.QueuegateError, match="write names joined by dots"):
        client.check("bob", "root..a", partition="hadoop")
    assert not client.check("bob", "root.a b", partition="hadoop", groups=["g"]).allowed


def test_validation_finds_out_the_format(client: queuegate.Client) -> None:
    assert client.validate(Path("examples/fair-scheduler.xml").read_text()).valid
    assert client.validate(Path("examples/capacity-scheduler.xml").read_text()).valid
    found = client.validate("<allocations><queue/></allocations>", "fair-scheduler")
    assert not found.valid
    errors = [each for each in found.diagnostics if each.severity == "error"]
    assert [(error.line, error.column) for error in errors] == [(1, 14)]


def test_each_file_is_watched(client: queuegate.Client, folder: Path) -> None:
    assert not client.check("zoe", "root.Test", partition="hadoop", groups=["g"]).allowed
    site = folder / "yarn-site.xml"
    before = site.read_text()
    site.write_text(before.replace("Bob", "Bob,zoe"))
    eventually(lambda: client.check("zoe", "Test", partition="hadoop", groups=["g"]).allowed, True)
    site.write_text("<broken")
    result = client.reload()
    assert not result.succeeded
    finding = next(found for found in result.diagnostics if found.severity == "error")
    assert (finding.file, finding.line) == (str(site), 1)
    assert client.check("zoe", "Test", partition="hadoop", groups=["g"]).allowed
    site.write_text(before)
    assert client.reload().succeeded
    assert not client.check("zoe", "root.Test", partition="hadoop", groups=["g"]).allowed


def test_a_policy_beside_others_may_not_lose_its_partitions(
    client: queuegate.Client, folder: Path
) -> None:
    policy = folder / "queues.yaml"
    before = policy.read_text()
    policy.write_text("partitions: []\n")
    result = client.reload()
    assert not result.succeeded
    (finding,) = (found for found in result.diagnostics if found.severity == "error")
    assert finding.message == "the policy no longer has any partitions"
    assert client.get_policy().queues
    policy.write_text(before)
    assert client.reload().succeeded


@rows
def test_a_policy_that_becomes_another_file_is_refused(
    client: queuegate.Client, folder: Path, name: str, text: str, words: str
) -> None:
    policy = folder / name
    before = policy.read_text()
    policy.write_text(text)
    result = client.reload()
    policy.write_text(before)
    assert not result.succeeded
    assert any(words in found.message for found in result.diagnostics)
    assert not client.check("eve", "root.eng", partition="capacity", groups=["g"]).allowed
    assert client.reload().succeeded


def test_a_name_that_is_given_twice_is_refused(folder: Path) -> None:
    policies = [{"path": str(folder / name)} for name in EXAMPLES[:2]]
    command = server_command(
        "serve", "--listen", "127.0.0.1:0", "--set", f"policies={json.dumps(policies)}"
    )
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert "the partition 'default' is also in" in ended.stderr
    assert "rename one of them" in ended.stderr


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("fair-scheduler.xml", "yarn-site.xml"),
        ("capacity-scheduler.xml", "capacity-yarn-site.xml"),
    ],
)
def test_the_examples_are_clean(name: str, site: str) -> None:
    command = server_command("lint", "--yarn-site", f"examples/{site}", f"examples/{name}")
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "")
