"""The audit log of a running server: which decisions are recorded, and where."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.support.client_calls import arguments
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers.admin_port import LISTEN, ops_address, value
from tests.support.servers.audited_server import (
    ALLOWED,
    DENIED,
    audit_records,
    audited_server,
    decision_of,
)
from tests.support.servers.queuegate_server import running_server


def ask_everything(address: str, client: queuegate.Client) -> None:
    for _ in range(2):  # the second time from the memo
        assert client.check(*ALLOWED)
        assert not client.check(*DENIED)
        assert client.check("carol", "root.team")
    with pytest.raises(queuegate.GroupsUnavailable):
        client.check("dave", "root.team")
    with pytest.raises(queuegate.InvalidArgument):
        client.check("eve\n", "root..team")
    client.check_many([queuegate.Check(*ALLOWED), queuegate.Check(*DENIED)])
    columns = [queuegate.Check(*pair) for pair in (ALLOWED, DENIED)] * 32
    assert client.check_many([*columns, queuegate.Check("dave", "root.team")])[0]
    client.explain(*DENIED)
    spark = queuegate.SparkApplication({"spark.acls.enable": "true"}, spark_user="alice")
    kill = queuegate.ApplicationCheck("mallory", "modify", spark, groups=["x"])
    client.check_application(**arguments(kill))
    client.explain_application(**arguments(kill))
    yarn = queuegate.Application(queue="root.team", owner="alice")
    client.check_applications([kill, queuegate.ApplicationCheck("mallory", "view", yarn)])
    item = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="mallory", groups=["a", "b"]),
        queue="root.TEAM",
        access=access_pb2.ACCESS_TYPE_ADMIN,
    )
    batch = access_pb2.BatchCheckQueueAccessRequest(checks=[item, item])
    with grpc.insecure_channel(address) as channel:
        stub = access_pb2_grpc.AccessServiceStub(channel)
        for _ in range(2):
            assert len(stub.BatchCheckQueueAccess(batch, timeout=60).results) == 2


DENIALS = [
    *[("CheckQueueAccess", "bob", "root.team", "denied", "unknown_user")] * 2,
    ("CheckQueueAccess", "dave", "root.team", "error", "resolver_unavailable"),
    ("CheckQueueAccess", "eve\n", "root..team", "error", "invalid_field"),
    ("BatchCheckQueueAccess", "bob", "root.team", "denied", "unknown_user"),
    *[("CheckQueueAccessColumns", "bob", "root.team", "denied", "unknown_user")] * 32,
    ("CheckQueueAccessColumns", "dave", "root.team", "error", "resolver_unavailable"),
    ("ExplainQueueAccess", "bob", "root.team", "denied", "unknown_user"),
    ("CheckApplicationAccess", "mallory", "", "denied", "no_match"),
    ("ExplainApplicationAccess", "mallory", "", "denied", "no_match"),
    ("BatchCheckApplicationAccess", "mallory", "", "denied", "no_match"),
    ("BatchCheckApplicationAccess", "mallory", "root.team", "error", "invalid_field"),
    *[("BatchCheckQueueAccess", "mallory", "root.TEAM", "denied", "no_match")] * 4,
]
ALLOWALS = [
    *[("CheckQueueAccess", "alice", "root.team", "allowed", "user")] * 2,
    *[("CheckQueueAccess", "carol", "root.team", "allowed", "group")] * 2,
    ("BatchCheckQueueAccess", "alice", "root.team", "allowed", "user"),
    *[("CheckQueueAccessColumns", "alice", "root.team", "allowed", "user")] * 32,
]


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize(
    ("policy", "records", "expected"),
    [("block", "denials", DENIALS), ("drop", "all", DENIALS + ALLOWALS)],
)
def test_which_decisions_are_recorded(
    tmp_path: Path, policy: str, records: str, expected: list[tuple[str, ...]]
) -> None:
    with audited_server(tmp_path, records=records, when_unwritable=policy) as (server, client):
        ask_everything(server.address, client)
        # Nothing but its number is asked of a file that is still being written.
        eventually(lambda: (tmp_path / "audit.log").read_bytes().count(b"\n"), len(expected))
        found = audit_records(tmp_path)
        assert sorted((record["method"], *decision_of(record)) for record in found) == sorted(
            expected
        )
        written = partial(value, ops_address(server), "queuegate_audit_records_total", "written")
        eventually(written, float(len(found)))
    for record in found:
        assert record["time"].endswith("Z")
        assert record["partition"] == "default"
        assert "caller" in record
        if "Application" in record["method"]:
            assert record["action"] == ("view" if record["queue"] else "modify")
            assert record["owner"] == "alice"
    assert not (tmp_path / "audit.log").stat().st_mode & 0o137


@pytest.mark.usefixtures("transport")
def test_a_move_to_a_queue_that_does_not_exist(tmp_path: Path) -> None:
    """A denial that no list of names decides counts as one, and is recorded as one."""
    (tmp_path / "fair.xml").write_text(
        "<allocations><queue name='root'><aclSubmitApps>*</aclSubmitApps></queue></allocations>"
    )
    policy = {"path": str(tmp_path / "fair.xml"), "format": "fair-scheduler"}
    settings = {"policy": policy, "audit": {"path": str(tmp_path / "audit.log")}}
    application = queuegate.Application("root.default", "ann")
    move = queuegate.ApplicationCheck(
        "ann", "move", application, groups=["g"], target_queue="root.none"
    )
    with (
        running_server("--config", settings_file(tmp_path, settings), *LISTEN) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        denied = client.check_application(**arguments(move))
        assert (denied.allowed, denied.reason) == (False, queuegate.Reason.UNKNOWN_QUEUE)
        assert client.check_applications([move, move]) == [denied, denied]
        assert client.explain_application(**arguments(move)).decision == denied
        ops = ops_address(server)
        assert value(ops, "queuegate_decisions_total", "denied", "unknown_queue") == 4
        assert value(ops, "queuegate_decisions_total", "allowed", "unknown_queue") == 0
        eventually(lambda: (tmp_path / "audit.log").read_bytes().count(b"\n"), 4)
    records = audit_records(tmp_path)
    assert {decision_of(each) for each in records} == {
        ("ann", "root.default", "denied", "unknown_queue")
    }
    assert {each["target_queue"] for each in records} == {"root.none"}


def test_the_fields_of_a_record(tmp_path: Path) -> None:
    with audited_server(tmp_path, records="all") as (_, client):
        client.check("carol", "root.team")
        client.check("erin", "root.team", groups=["staff"])
        carol, erin = audit_records(tmp_path)
    assert carol.pop("time") < erin.pop("time")
    assert carol == {
        "caller": "loopback",
        "method": "CheckQueueAccess",
        "user": "carol",
        "partition": "default",
        "queue": "root.team",
        "access": "submit",
        "decision": "allowed",
        "reason": "group",
        "matched_queue": "root.team",
        "matched_name": "staff",
        "revision": 1,
    }
    assert erin == {**carol, "user": "erin", "groups_in_request": 1}


@pytest.mark.parametrize("audit", [{"records": "none"}, {"path": None}])
def test_off(tmp_path: Path, audit: dict[str, Any]) -> None:
    settings = settings_file(tmp_path, {"audit": {"path": str(tmp_path / "audit.log"), **audit}})
    with (
        running_server("--config", settings) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        client.check("nobody", "root")
    assert not (tmp_path / "audit.log").exists()


def test_standard_output(tmp_path: Path) -> None:
    with audited_server(tmp_path, "-") as (server, client):
        client.check(*DENIED)
        assert server.process.stdout
        assert decision_of(json.loads(server.process.stdout.readline()))[2] == "denied"
