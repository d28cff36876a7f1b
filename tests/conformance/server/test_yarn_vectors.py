"""The vectors of YARN and Spark through the contract: one server with a partition for each
cluster that they describe.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import queuegate
from tests.support.client_calls import arguments
from tests.support.gates import KINDS, live_gate
from tests.support.generators.yarn import configuration
from tests.support.http_client import HttpClient
from tests.support.servers.http_port import http_address
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.yarn_vectors import VECTORS, readings

ACTIONS = {"VIEW": "view", "VIEW_LOGS": "view_logs", "KILL": "modify", "MOVE": "move"}
EMPTY_GROUP = "no-group"
"""Without any group the server would resolve them: to the group of the user's name."""

Case = tuple[str, dict[str, Any], str, bool]
"""The id, what is asked, the semantics, and whether it must be allowed."""


def cases(*dialects: str) -> list[Case]:
    found = []
    for vector in VECTORS:
        asked = vector["input"]
        if vector["dialect"] not in dialects or asked.get("action") == "SUBMIT_APPLICATIONS":
            continue
        if asked["op"] in {"check", "allowed", "app"}:
            found += [
                (vector["id"], asked, str(semantics), expect["allowed"])
                for semantics, expect in readings(vector)
            ]
    return found


def closed_but_for(acl: str) -> str:
    """Return a capacity scheduler's file in which only one ACL grants anything."""
    key = "yarn.scheduler.capacity.root"
    texts = {"acl_submit_applications": " ", "acl_administer_queue": " ", "queues": "a"}
    stated = {f"{key}.{name}": text for name, text in texts.items()}
    return configuration({**stated, f"{key}.a.acl_submit_applications": acl})


OF_QUEUES = cases("fair-scheduler", "capacity-scheduler")
OF_ACLS = cases("yarn")
OF_APPS = cases("yarn-app")


def partition(case: Case) -> str:
    return f"{case[0]}-{case[2]}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("vectors")
    policies = []
    partitions = {}
    for case in (*OF_QUEUES, *OF_ACLS, *OF_APPS):
        _, asked, semantics, _ = case
        name = partition(case)
        if "acl" in asked:
            text = closed_but_for(asked["acl"])
        else:
            text = asked.get("xml") or configuration(asked["properties"])
        (folder / f"{name}.xml").write_text(text)
        policy = {"path": str(folder / f"{name}.xml"), "partition": name}
        if "yarn_site" in asked:
            (folder / f"{name}-site.xml").write_text(configuration(asked["yarn_site"]))
            policy["yarn_site"] = str(folder / f"{name}-site.xml")
        policies.append({**policy, "daemon_user": asked.get("rm_user") or ""})
        partitions[name] = {"semantics": semantics}
    settings = folder / "queuegate.yaml"
    http = {"listen": "127.0.0.1:0"}
    settings.write_text(json.dumps({"policies": policies, "partitions": partitions, "http": http}))
    with running_server("--config", str(settings)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[queuegate.Client]:
    with queuegate.Client(server.address, timeout=60) as asking:
        yield asking


@pytest.fixture(scope="module", params=["client", "HTTP"])
def remote(
    request: pytest.FixtureRequest, server: RunningServer, client: queuegate.Client
) -> Iterator[queuegate.Client | HttpClient]:
    """Ask the server over gRPC, or over HTTP."""
    if request.param == "client":
        yield client
        return
    with HttpClient(http_address(server)) as asking:
        yield asking


@pytest.fixture(scope="module", params=["client", "HTTP", *KINDS])
def asking(
    request: pytest.FixtureRequest, server: RunningServer, client: queuegate.Client
) -> Iterator[queuegate.Client | HttpClient]:
    if request.param == "client":
        yield client
        return
    if request.param == "HTTP":
        with HttpClient(http_address(server)) as over_http:
            yield over_http
        return
    with live_gate(server.address, request.param) as gate:
        yield gate
        assert gate.decided > 50


def check(
    client: queuegate.Client | HttpClient, asked: list[queuegate.Check], expected: list[Case]
) -> None:
    for case, answer in zip(expected, client.check_many(asked), strict=True):
        assert isinstance(answer, queuegate.Decision), (case, answer)
        assert answer.allowed is case[3], case


def test_queues(asking: queuegate.Client | HttpClient) -> None:
    questions = [
        queuegate.Check(
            case[1]["user"],
            case[1]["queue"],
            partition(case),
            "admin" if case[1]["action"] == "ADMINISTER_QUEUE" else "submit",
            case[1]["groups"] or [EMPTY_GROUP],
        )
        for case in OF_QUEUES
    ]
    check(asking, questions, OF_QUEUES)


def test_acls(asking: queuegate.Client | HttpClient) -> None:
    # Without a name there is no question.
    askable = [case for case in OF_ACLS if case[1]["user"]]
    assert len(askable) > 20
    questions = [
        queuegate.Check(
            case[1]["user"],
            "root.a",
            partition(case),
            groups=case[1]["groups"] or [EMPTY_GROUP],
            real_user=case[1].get("real_user") or "",
        )
        for case in askable
    ]
    check(asking, questions, askable)


def test_applications(remote: queuegate.Client | HttpClient) -> None:
    asked = []
    assert len(OF_APPS) > 30
    for case in OF_APPS:
        app = case[1]["app"]
        asked.append(
            queuegate.ApplicationCheck(
                case[1]["user"],
                queuegate.Action(ACTIONS[case[1]["action"]]),
                queuegate.Application(
                    app["queue"], app["owner"], app["view_acl"] or "", app["modify_acl"] or ""
                ),
                partition(case),
                case[1]["groups"] or [EMPTY_GROUP],
                case[1].get("target_queue") or "",
            )
        )
    for case, answer in zip(OF_APPS, remote.check_applications(asked), strict=True):
        assert isinstance(answer, queuegate.Decision), (case, answer)
        assert answer.allowed is case[3], case


def test_spark(remote: queuegate.Client | HttpClient) -> None:
    name = partition(OF_QUEUES[0])
    count = 0
    for vector in VECTORS:
        stated, expect = vector["input"], vector["expect"]
        if vector["dialect"] != "spark" or stated["op"] != "check":
            continue
        user = stated["user"]
        if not user:  # nobody has logged in, or as "": who asks over the wire has a name
            continue
        app = queuegate.SparkApplication(
            stated["conf"], stated["spark_user"] or "", stated["process_os_user"] or ""
        )
        action = queuegate.Action(stated["action"])
        asked = queuegate.ApplicationCheck(
            user, action, app, name, stated["groups"] or [EMPTY_GROUP]
        )
        count += 1
        if "error" in expect:
            with pytest.raises(queuegate.InvalidArgument):
                remote.check_application(**arguments(asked))
        else:
            assert remote.check_application(**arguments(asked)).allowed is expect["allowed"], (
                vector["id"]
            )
    assert count > 25
