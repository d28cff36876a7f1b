"""Checks of access to YARN and Spark applications, through the client."""

from collections.abc import Iterator

import grpc
import pytest

import queuegate
from queuegate import Reason, StepOutcome
from queuegate.cli import main
from queuegate.v1 import access_pb2, access_pb2_grpc
from tests.support.client_calls import arguments
from tests.support.servers.dual_stack import policies_of_both_families, served


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[queuegate.Client]:
    with served(policies_of_both_families(tmp_path_factory.mktemp("yarn"))) as asking:
        yield asking


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
    decision = client.check_application(**arguments(asked))
    assert decision.reason is reason
    assert decision.allowed is (reason is not Reason.NO_MATCH)
    explanation = client.explain_application(**arguments(asked))
    assert explanation.decision == decision
    assert explanation.steps
    assert client.check_applications([asked, asked]) == [decision, decision]


def test_a_service_that_acts_for_the_user(
    client: queuegate.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    decision = client.check("eve", "a", partition="proxied", groups=["g"], real_user="knox")
    assert (decision.reason, decision.matched_subject) == (Reason.USER, "~knox")
    asked = queuegate.Check("eve", "a", "proxied", groups=["g"], real_user="knox")
    other = queuegate.Check("knox", "a", "proxied", groups=["g"])
    assert [bool(one) for one in client.check_many([asked, other])] == [True, False]
    explanation = client.explain("eve", "a", partition="proxied", real_user="knox")
    assert (explanation.decision, explanation.steps[-1].outcome) == (decision, StepOutcome.USER)
    assert client.list_queues("eve", partition="proxied", groups=["g"], real_user="knox") == [
        "root"
    ]
    assert client.list_queues("eve", partition="proxied", groups=["g"]) == []
    app = queuegate.Application("a", "olga", view_acl="~hue")
    check = queuegate.ApplicationCheck("eve", "view", app, "proxied", ["g"], real_user="hue")
    assert client.check_application(**arguments(check)).matched_subject == "~hue"
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
        assert client.check_application(**arguments(asked)).allowed is allowed
    for user, groups, properties, allowed in (
        ("ada", ["none"], {}, True),
        ("eve", ["dev"], {}, True),
        ("eve", ["dev"], {"spark.modify.acls.groups": "ops"}, False),
    ):
        stated = queuegate.SparkApplication(properties)
        asked = queuegate.ApplicationCheck(user, "modify", stated, "capacity", groups)
        assert client.check_application(**arguments(asked)).allowed is allowed
    wrong = queuegate.SparkApplication({"spark.acls.enable": "maybe"})
    with pytest.raises(queuegate.InvalidArgument, match="must be true or false"):
        client.check_application("a", "view", wrong)


def test_faulty_questions_about_applications(client: queuegate.Client) -> None:
    in_yunikorn = queuegate.ApplicationCheck("Jane", "view", TEST_APP, groups=["g"])
    good = queuegate.ApplicationCheck("John", "view", TEST_APP, "hadoop")
    no_target = queuegate.ApplicationCheck("John", "move", TEST_APP, "hadoop")
    admin = queuegate.ApplicationCheck("John", "admin", TEST_APP, "hadoop")
    first, second, third, fourth = client.check_applications([in_yunikorn, good, no_target, admin])
    assert second
    for failed, words in (
        (first, "is a YuniKorn partition"),
        (third, "is required"),
        (fourth, "only in Spark"),
    ):
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
    moved = [*base, "John", "move", "--queue", "Test", "--owner", "John", "--group", "developers"]
    assert main([*moved, "--target-queue", "Dev", "--explain"]) == 0
    output = capsys.readouterr().out
    assert "queue submit of root.Test 'John': grants" in output
    assert "queue submit of root.Dev ' developers': grants" in output
    assert main([*moved, "--target-queue", "Dave"]) == 1
    assert "the target queue does not exist" in capsys.readouterr().out
    spark = ["--spark", "--property", "spark.acls.enable=true", "--spark-user", "own"]
    assert main([*base, "own", "view", *spark]) == 0
    assert "the user owns the application" in capsys.readouterr().out
    assert main([*base, "eve", "view", "--spark", "--spark-user", "own"]) == 0
    assert "spark.acls.enable is not true" in capsys.readouterr().out
