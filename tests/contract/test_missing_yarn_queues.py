"""What the command line says about queues that YARN does not know, against a running server."""

import json
from collections.abc import Iterator

import pytest

import queuegate
from queuegate.cli import main
from queuegate.v1 import access_pb2
from tests.support.fakes.scripted_server import ScriptedServer
from tests.support.generators.yarn_files import prop
from tests.support.rows import rows
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

KEY = "yarn.scheduler.capacity.root"
CAPACITY = "".join(
    prop(f"{KEY}.{name}", value)
    for name, value in (
        ("queues", "prod,users"),
        ("acl_submit_applications", " "),
        ("acl_administer_queue", " "),
        ("prod.queues", "etl,reports"),
        ("prod.acl_administer_queue", "olga"),
        ("users.auto-create-child-queue.enabled", "true"),
        ("users.leaf-queue-template.acl_submit_applications", "mary"),
    )
)
CAPACITY = f"<configuration>{CAPACITY}</configuration>"
FAIR = """<allocations><queue name="root"><aclSubmitApps> </aclSubmitApps>
<aclAdministerApps> </aclAdministerApps>
<queue name="prod"><aclAdministerApps>olga</aclAdministerApps></queue></queue></allocations>"""
NEVER = "root.prod.new does not exist, and YARN does not create it; decided at root.prod\n"
UNKNOWN = "root.prod.new does not exist; decided at root.prod\n"


@pytest.fixture(scope="module", params=["capacity", "fair"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, RunningServer]]:
    policy = tmp_path_factory.mktemp("policy") / "scheduler.xml"
    policy.write_text(CAPACITY if request.param == "capacity" else FAIR)
    with running_server("--policy", str(policy), *ADMIN) as server:
        yield request.param, server


@pytest.fixture
def scheduler(served: tuple[str, RunningServer]) -> str:
    return served[0]


@pytest.fixture
def server(served: tuple[str, RunningServer]) -> RunningServer:
    return served[1]


def output(server: RunningServer, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(["--address", server.address, "--timeout", "60", *words])
    return capsys.readouterr().out


@rows
def test_only_the_capacity_scheduler_is_known_to_create_nothing(
    server: RunningServer,
    scheduler: str,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = output(server, capsys, *words, "--no-groups")
    assert lines.startswith("allowed: olga may ")
    assert (NEVER if scheduler == "capacity" else UNKNOWN) in lines


def test_the_queue_of_an_application_in_every_decision(
    server: RunningServer, scheduler: str
) -> None:
    with queuegate.Client(server.address, timeout=60) as client:
        assert client.get_policy().format == f"{scheduler}-scheduler"
        assert client.get_policy().semantics == "documented"
        for queue, evaluated in (("root.prod.new", "root.prod"), ("root.prod", "")):
            application = queuegate.Application(queue, "x")
            for groups in ((), None):
                check = queuegate.ApplicationCheck("olga", "view", application, groups=groups)
                answers = [
                    client.check_application("olga", "view", application, groups=groups),
                    *client.check_applications([check, check]),
                    client.explain_application("olga", "view", application, groups=groups).decision,
                ]
                for answer in answers:
                    assert isinstance(answer, queuegate.Decision)
                    assert answer.evaluated_queue == evaluated


def test_no_evaluated_queue_for_a_move_to_a_missing_queue_and_for_spark(
    server: RunningServer,
) -> None:
    application = queuegate.Application("root.prod.new", "x")
    with queuegate.Client(server.address, timeout=60) as client:
        answer = client.check_application("olga", "move", application, target_queue="root.none")
        assert (answer.reason, answer.evaluated_queue) == ("unknown_queue", "")
        spark = queuegate.SparkApplication({"spark.acls.enable": "true"}, "ann")
        assert client.check_application("olga", "view", spark, groups=()).evaluated_queue == ""


def test_an_application_in_a_missing_queue_takes_one_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("app-check", "olga", "view", "--queue", "root.new", "--owner", "x")
    with ScriptedServer() as scripted:
        scripted.script.answers["CheckApplicationAccess"] = (
            access_pb2.CheckApplicationAccessResponse(
                reason=access_pb2.REASON_NO_MATCH, evaluated_queue="root"
            )
        )
        main(["--address", scripted.address, "--timeout", "60", *words])
        assert capsys.readouterr().out.endswith("root.new does not exist; decided at root\n")
        main(["--address", scripted.address, "--timeout", "60", *words, "-o", "json"])
        assert json.loads(capsys.readouterr().out)["evaluated_queue"] == "root"
        methods = [call.method for call in scripted.script.calls]
        assert methods == ["CheckApplicationAccess", "GetPolicy", "CheckApplicationAccess"]


@pytest.mark.parametrize("served", ["capacity"], indirect=True)
def test_the_policy_is_printed_depth_first(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = output(server, capsys, "policy").splitlines()
    queues = [line.split()[0] for line in lines[lines.index("") + 1 :] if line][:5]
    assert queues == ["root", "prod", "etl", "reports", "users"]
