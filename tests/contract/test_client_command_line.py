"""`queuegate` against a server: its output and exit statuses."""

import json
from collections.abc import Iterator

import pytest

from queuegate.cli import main
from queuegate.v1 import access_pb2, policy_pb2
from tests.support.fakes.scripted_server import Script, ScriptedServer

QUEUES = ["root", "root.a", "root.b\x1b"]
Capture = pytest.CaptureFixture[str]
PATIENT = ("--timeout", "60")
"""Where a busy machine must not decide the outcome."""


@pytest.fixture(scope="module")
def shared() -> Iterator[ScriptedServer]:
    with ScriptedServer(queues=QUEUES, health_of={"": 1, "down": 2}) as it:
        yield it


@pytest.fixture
def server(shared: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    monkeypatch.setenv("QUEUEGATE_ADDRESS", shared.address)
    shared.script.reset()
    return shared


def test_a_fleet_whose_replica_starts_is_no_failure(
    server: ScriptedServer, capsys: Capture
) -> None:
    starting = policy_pb2.FleetReplica(
        name="a", self=True, version="1.0", state=policy_pb2.REPLICA_STATE_STARTING
    )
    server.script.answers["GetFleet"] = policy_pb2.GetFleetResponse(replicas=[starting])
    assert main([*PATIENT, "fleet"]) == 0
    output, errors = capsys.readouterr()
    assert "a (this server)  starting: it has not joined the fleet yet\n" in output
    assert errors == ""
    assert main([*PATIENT, "fleet", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["agreed"], document["replicas"][0]["state"]) == (False, "starting")
    server.script.answers["GetFleet"] = policy_pb2.GetFleetResponse(
        replicas=[starting], problems=["the replicas serve different policies"]
    )
    assert main([*PATIENT, "fleet"]) == 1
    assert "different policies" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["text", "table"])
def test_an_empty_list_says_so_beside_the_list(
    server: ScriptedServer, capsys: Capture, output: str
) -> None:
    server.script.answers["ListQueues"] = access_pb2.ListQueuesResponse()
    assert main([*PATIENT, "queues", "alice", "-o", output]) == 0
    heads = "QUEUE\n" if output == "table" else ""
    assert capsys.readouterr() == (heads, "alice may submit to none of the configured queues\n")
    server.script.answers["GetPolicy"] = policy_pb2.GetPolicyResponse()
    assert main([*PATIENT, "policy", "--prefix", "root.x", "-o", output]) == 1
    assert capsys.readouterr().err == "queue root.x does not exist\n"


def test_options_reach_the_server(script: Script) -> None:
    line = "check alice root.a --partition gpu --access admin --group a --group b --timeout 50"
    assert main(line.split()) == 0
    (call,) = script.calls
    assert call.request.partition == "gpu"
    assert list(call.request.user.groups) == ["a", "b"]
    assert call.request.access == 2
    assert call.seconds_left
    assert 20 < call.seconds_left < 55


def test_a_reload_has_more_time(script: Script) -> None:
    assert main(["reload"]) == 0
    assert script.calls[0].seconds_left
    assert script.calls[0].seconds_left > 20
