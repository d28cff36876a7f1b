"""Both families of schedulers served by one process, asked through the client."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

import queuegate
from queuegate import Access, Reason, StepOutcome
from queuegate.cli import main
from queuegate.v1 import access_pb2, access_pb2_grpc
from tests.running import ADMIN, running_server, server_command
from tests.waiting import eventually

EXAMPLES = ("queues.yaml", "fair-scheduler.xml", "capacity-scheduler.xml", "yarn-site.xml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("yarn")
    for name in EXAMPLES:
        shutil.copy(f"examples/{name}", path)
    (path / "spark-defaults.conf").write_text(
        "# Spark\nspark.acls.enable true\nspark.admin.acls=root,ada\n"
        "spark.modify.acls.groups: dev\n"
    )
    (path / "proxied.xml").write_text(
        "<allocations><queue name='root'><aclSubmitApps>~knox</aclSubmitApps>"
        "<aclAdministerApps> </aclAdministerApps></queue></allocations>"
    )
    return path


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[queuegate.Client]:
    policies = [
        {"path": str(folder / "queues.yaml")},
        {
            "path": str(folder / "fair-scheduler.xml"),
            "yarn_site": str(folder / "yarn-site.xml"),
            "partition": "hadoop",
        },
        {
            "path": str(folder / "capacity-scheduler.xml"),
            "partition": "capacity",
            "spark_defaults": str(folder / "spark-defaults.conf"),
        },
    ]
    policies.append(
        {"path": str(folder / "proxied.xml"), "format": "fair-scheduler", "partition": "proxied"}
    )
    semantics = "partitions.proxied.semantics=hadoop"
    options = ("--set", f"policies={json.dumps(policies)}", "--set", semantics, *ADMIN)
    with running_server(*options) as server, queuegate.Client(server.address, timeout=60) as asking:
        yield asking


@pytest.mark.parametrize(
    ("partition", "queue", "user", "groups", "access", "expected"),
    [
        ("hadoop", "root.Datascience.Production", "John", [], "submit", "root.Datascience"),
        ("hadoop", "Datascience.Production", "John", [], "submit", "root.Datascience"),
        ("hadoop", "root.datascience.Production", "John", [], "submit", None),
        ("hadoop", "root.Datascience.Production", "Jane", [], "admin", "root.Datascience"),
        ("hadoop", "root.Test", "Jane", [], "submit", None),
        ("hadoop", "root.Test", "Jane", [], "admin", None),
        ("hadoop", "root.Marketing.new", "olga", ["others"], "submit", "root.Marketing"),
        ("hadoop", "root.Test", "Bob", [], "submit", ""),
        ("hadoop", "root.Test", "eve", ["hadoopadmgroup"], "admin", ""),
        ("capacity", "root.support", "x", ["cfo-group"], "submit", "root.support"),
        ("capacity", "root.eng.dev", "sherlock", [], "submit", None),
        ("capacity", "root.eng.qa", "lead", [], "admin", "root.eng"),
    ],
)
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
    info = client.policy("hadoop")
    assert set(info.partitions) >= {"default", "hadoop", "capacity"}
    assert [queue.path for queue in client.policy("hadoop", "Datascience").queues] == [
        "root.Datascience",
        "root.Datascience.Production",
    ]
    assert "root.Test" in client.queues("John", partition="hadoop")
    assert client.policy().queues


def test_explanations(client: queuegate.Client) -> None:
    told = client.explain("Bob", "Test", partition="hadoop")
    assert [(step.queue, step.outcome) for step in told.steps][-1] == (
        "",
        StepOutcome.CLUSTER_ADMIN,
    )
    assert told.evaluated_queue == "root.Test"


def test_faulty_requests_are_told_by_the_rules_of_the_partition(client: queuegate.Client) -> None:
    with pytest.raises(queuegate.QueuegateError, match="names without dots"):
        client.check("bob", "root..a", partition="hadoop")
    assert not client.check("bob", "root.a b", partition="hadoop", groups=["g"]).allowed


def test_validation_finds_out_the_format(client: queuegate.Client) -> None:
    assert client.validate(Path("examples/fair-scheduler.xml").read_text()).valid
    assert client.validate(Path("examples/capacity-scheduler.xml").read_text()).valid
    found = client.validate("<allocations><queue/></allocations>", "fair-scheduler")
    assert not found.valid
    assert (found.diagnostics[0].line, found.diagnostics[0].column) == (1, 14)


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
    assert finding.message == "the policy has no partitions any more"
    assert client.policy().queues
    policy.write_text(before)
    assert client.reload().succeeded


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("capacity-scheduler.xml", "<configuration/>", "root.queues names no queue"),
        ("capacity-scheduler.xml", "<allocations/>", "not <configuration>"),
        ("fair-scheduler.xml", "", "no element found"),
        ("fair-scheduler.xml", '<!DOCTYPE a [\n<!ENTITY x "y">\n]>\n<allocations/>', "DOCTYPE"),
    ],
)
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
    assert "the partition 'default' is in" in ended.stderr
    assert "give one of them another name" in ended.stderr


@pytest.mark.parametrize("name", ["fair-scheduler.xml", "capacity-scheduler.xml"])
def test_the_examples_are_clean(name: str) -> None:
    command = server_command("lint", "--yarn-site", "examples/yarn-site.xml", f"examples/{name}")
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "")


TEST_APP = queuegate.Application("root.Test", "John", view_acl="Jane")


@pytest.mark.parametrize(
    ("user", "action", "reason"),
    [
        ("John", "view_logs", Reason.OWNER),
        ("Jane", "view_logs", Reason.USER),
        ("Jane", "modify", Reason.NO_MATCH),
        ("Jane", "move", Reason.NO_MATCH),
        ("Bob", "move", Reason.CLUSTER_ADMIN),
    ],
)
def test_applications(
    client: queuegate.Client, user: str, action: queuegate.Action, reason: Reason
) -> None:
    target = "Marketing" if action == "move" else ""
    asked = queuegate.ApplicationCheck(user, action, TEST_APP, "hadoop", ["none"], target)
    decision = client.check_application(asked)
    assert decision.reason is reason
    assert decision.allowed is (reason is not Reason.NO_MATCH)
    told = client.explain_application(asked)
    assert told.decision == decision
    assert told.steps
    assert client.check_applications([asked, asked]) == [decision, decision]


def test_a_service_that_acts_for_the_user(
    client: queuegate.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    decision = client.check("eve", "a", partition="proxied", groups=["g"], real_user="knox")
    assert (decision.reason, decision.matched_subject) == (Reason.USER, "~knox")
    asked = queuegate.Check("eve", "a", "proxied", groups=["g"], real_user="knox")
    other = queuegate.Check("knox", "a", "proxied", groups=["g"])
    assert [bool(one) for one in client.check_many([asked, other])] == [True, False]
    told = client.explain("eve", "a", partition="proxied", real_user="knox")
    assert (told.decision, told.steps[-1].outcome) == (decision, StepOutcome.USER)
    assert client.queues("eve", partition="proxied", groups=["g"], real_user="knox") == ["root"]
    assert client.queues("eve", partition="proxied", groups=["g"]) == []
    app = queuegate.Application("a", "olga", view_acl="~hue")
    check = queuegate.ApplicationCheck("eve", "view", app, "proxied", ["g"], real_user="hue")
    assert client.check_application(check).matched_subject == "~hue"
    with pytest.raises(queuegate.InvalidArgument, match="real_user: has a control character"):
        client.check("eve", "a", partition="proxied", real_user="a\nb")
    base = [
        "--address",
        client.address,
        "--timeout",
        "60",
        "check",
        "eve",
        "a",
        "--partition",
        "proxied",
    ]
    assert main([*base, "--group", "g", "--real-user", "knox"]) == 0
    assert "~knox" in capsys.readouterr().out
    assert main([*base, "--group", "g"]) == 1


def test_applications_of_spark(client: queuegate.Client) -> None:
    app = queuegate.SparkApplication(
        {"spark.acls.enable": "true", "spark.ui.view.acls": "alice"}, "owner"
    )
    for user, action, allowed in (
        ("alice", "view", True),
        ("alice", "modify", False),
        ("owner", "modify", True),
        ("owner", "admin", False),
    ):
        asked = queuegate.ApplicationCheck(user, queuegate.Action(action), app)
        assert client.check_application(asked).allowed is allowed
    for user, groups, properties, allowed in (
        ("ada", ["none"], {}, True),
        ("eve", ["dev"], {}, True),
        ("eve", ["dev"], {"spark.modify.acls.groups": "ops"}, False),
    ):
        stated = queuegate.SparkApplication(properties)
        asked = queuegate.ApplicationCheck(user, "modify", stated, "capacity", groups)
        assert client.check_application(asked).allowed is allowed
    wrong = queuegate.SparkApplication({"spark.acls.enable": "maybe"})
    with pytest.raises(queuegate.InvalidArgument, match="should be true or false"):
        client.check_application(queuegate.ApplicationCheck("a", "view", wrong))


def test_faulty_questions_about_applications(client: queuegate.Client) -> None:
    in_yunikorn = queuegate.ApplicationCheck("Jane", "view", TEST_APP, groups=["g"])
    good = queuegate.ApplicationCheck("John", "view", TEST_APP, "hadoop")
    no_target = queuegate.ApplicationCheck("John", "move", TEST_APP, "hadoop")
    admin = queuegate.ApplicationCheck("John", "admin", TEST_APP, "hadoop")
    first, second, third, fourth = client.check_applications([in_yunikorn, good, no_target, admin])
    assert second
    for failed, words in ((first, "of YuniKorn"), (third, "is required"), (fourth, "Spark's only")):
        assert isinstance(failed, queuegate.CheckFailure)
        assert words in str(failed.error)


def test_the_partition_comes_before_what_it_alone_can_judge(
    client: queuegate.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["--address", client.address, "--timeout", "60"]
    app = ["--queue", "Datascience.Production", "--owner", "John"]
    for line in (
        ["check", "Jane", "Datascience.Production"],
        ["explain", "Jane", "Datascience.Production"],
        ["queues", "Jane", "--prefix", "Datascience"],
        ["app-check", "Jane", "view", *app],
        ["app-check", "Jane", "view", *app, "--explain"],
    ):
        assert main([*base, *line, "--partition", "nope"]) == 2
        said = capsys.readouterr().err
        assert "'nope'" in said
        assert "hadoop" in said
    with pytest.raises(queuegate.UnknownPartition):
        client.check("Jane", "Datascience.Production", partition="nope")
    (failed,) = client.check_many([queuegate.Check("Jane", "Data.Prod", "nope")])
    assert isinstance(failed, queuegate.CheckFailure)
    assert isinstance(failed.error, queuegate.UnknownPartition)
    asked = queuegate.ApplicationCheck("Jane", "view", TEST_APP, "nope")
    (failed,) = client.check_applications([asked])
    assert isinstance(failed, queuegate.CheckFailure)
    assert isinstance(failed.error, queuegate.UnknownPartition)


def test_a_missing_application_is_all_that_is_missing(client: queuegate.Client) -> None:
    asked = access_pb2.CheckApplicationAccessRequest(
        partition="hadoop", action=access_pb2.APPLICATION_ACTION_VIEW
    )
    asked.user.user = "Jane"
    with grpc.insecure_channel(client.address) as channel:
        stub = access_pb2_grpc.AccessServiceStub(channel)
        with pytest.raises(grpc.RpcError) as one:
            stub.ExplainApplicationAccess(access_pb2.ExplainApplicationAccessRequest(check=asked))
        assert one.value.details() == "application: is required"
        batch = access_pb2.BatchCheckApplicationAccessRequest(checks=[asked])
        result = stub.BatchCheckApplicationAccess(batch).results[0]
        assert result.error.message == "application: is required"


def test_app_check_on_the_command_line(
    client: queuegate.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["--address", client.address, "--timeout", "60", "app-check", "--partition", "hadoop"]
    app = ["--queue", "root.Datascience.Production", "--owner", "John"]
    assert main([*base, "Bob", "modify", *app, "--explain"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("allowed: Bob may modify the application: the user administers")
    assert "owner 'John': no match" in output
    assert main([*base, "Zed", "view-logs", *app, "--group", "g"]) == 1
    assert "denied: Zed may not view the logs of the application" in capsys.readouterr().out
    spark = ["--spark", "--property", "spark.acls.enable=true", "--spark-user", "own"]
    assert main([*base, "own", "view", *spark]) == 0
    assert "the user owns the application" in capsys.readouterr().out
    assert main([*base, "eve", "view", "--spark", "--spark-user", "own"]) == 0
    assert "spark.acls.enable is not true" in capsys.readouterr().out
