"""Decisions over HTTP: what becomes of each member, and of each error."""

import base64
from pathlib import Path
from typing import Any

import pytest

import queuegate
from tests.support.rows import rows
from tests.support.servers.admin_port import ops_address, value
from tests.support.servers.audited_server import audit_records, audited_server, decision_of
from tests.support.servers.http_port import (
    EVALUATION,
    EVALUATIONS,
    LISTEN,
    asked,
    http_address,
    send,
)
from tests.support.servers.queuegate_server import RunningServer, running_server

OUTAGE = "groups are needed and resolver 'test' is unavailable; see the server's log"


@rows
def test_a_decision(address: str, request_body: dict[str, Any], answer: dict[str, Any]) -> None:
    reply = send(address, EVALUATION, request_body)
    assert (reply.status, reply.content) == (200, answer)


@rows
def test_a_malformed_member(address: str, change: dict[str, Any], message: str) -> None:
    reply = send(address, EVALUATION, asked("alice", "submit", "root.open") | change)
    assert (reply.status, reply.content) == (400, message)


def test_an_outage_is_no_denial(address: str) -> None:
    reply = send(address, EVALUATION, asked("testuser5", "submit", "root.dev"))
    assert (reply.status, reply.content) == (503, OUTAGE)
    assert int(reply.headers["Retry-After"]) >= 1
    assert reply.headers["X-Request-ID"]


@pytest.mark.parametrize(
    ("semantic", "decisions"),
    [
        ("execute_all", [True, False, True]),
        ("deny_on_first_deny", [True, False]),
        ("permit_on_first_permit", [True]),
    ],
)
def test_an_outage_in_a_batch(address: str, semantic: str, decisions: list[bool]) -> None:
    body = {
        "action": {"name": "submit"},
        "resource": {"type": "queue", "id": "root.dev"},
        "options": {"evaluations_semantic": semantic},
        "evaluations": [
            {"subject": {"type": "user", "id": name}}
            for name in ("alice", "testuser5", "testuser1")
        ],
    }
    reply = send(address, EVALUATIONS, body)
    assert reply.status == 200
    found = reply.content["evaluations"]
    assert [each["decision"] for each in found] == decisions
    errors = [each["context"]["error"] for each in found if "error" in each["context"]]
    assert errors == [{"status": 503, "message": OUTAGE}] * (len(decisions) > 1)


def test_an_outage_never_counts_as_the_first_permit(address: str) -> None:
    body = {
        "action": {"name": "submit"},
        "resource": {"type": "queue", "id": "root.dev"},
        "options": {"evaluations_semantic": "permit_on_first_permit"},
        "evaluations": [
            {"subject": {"type": "user", "id": name}}
            for name in ("testuser5", "testuser5", "alice")
        ],
    }
    found = send(address, EVALUATIONS, body).content["evaluations"]
    assert [each["decision"] for each in found] == [False, False, True]
    # Each has the error, although the contract sends it once.
    assert [each["context"].get("error", {}).get("status") for each in found] == [503, 503, None]


def test_queues_and_applications_in_one_batch(address: str) -> None:
    application = {
        "subject": {"type": "user", "id": "carol"},
        "action": {"name": "view"},
        "resource": {
            "type": "application",
            "id": "spark-1",
            "properties": {
                "spark": {
                    "properties": {"spark.acls.enable": "true", "spark.ui.view.acls": "carol"},
                    "spark_user": "dave",
                }
            },
        },
    }
    body = {
        "evaluations": [
            asked("alice", "admin", "root.dev"),
            application,
            {},
            asked("alice", "submit", "root.dev"),
            application | {"action": {"name": "modify"}},
        ]
    }
    found = send(address, EVALUATIONS, body).content["evaluations"]
    assert [each["decision"] for each in found] == [False, True, False, True, False]
    assert found[1]["context"]["message"] == (
        "allowed: carol may view the application: an ACL of the application lists the user carol"
    )
    assert found[2]["context"]["error"] == {"status": 400, "message": "subject: is required"}


def test_more_evaluations_than_a_batch_has(address: str) -> None:
    body = asked("alice", "submit", "root.open") | {"evaluations": [{}] * 10_001}
    reply = send(address, EVALUATIONS, body)
    assert (reply.status, reply.content) == (400, "evaluations: has more than 10000 items")


def test_more_malformed_evaluations_than_a_batch_has(address: str) -> None:
    reply = send(address, EVALUATIONS, {"evaluations": [{}] * 10_001})
    assert (reply.status, reply.content) == (400, "evaluations: has more than 10000 items")
    found = send(address, EVALUATIONS, {"evaluations": [{}] * 10_000}).content["evaluations"]
    error = {"status": 400, "message": "subject: is required"}
    assert found == [{"decision": False, "context": {"error": error}}] * 10_000


def test_as_many_evaluations_as_a_batch_has(address: str) -> None:
    body = asked("alice", "submit", "root.open") | {"evaluations": [{}] * 10_000}
    found = send(address, EVALUATIONS, body).content["evaluations"]
    assert len(found) == 10_000
    assert all(each["decision"] for each in found)


@pytest.mark.parametrize("item", [None, [], "x", 1])
def test_an_evaluation_that_is_no_object(address: str, item: object) -> None:
    body = asked("alice", "submit", "root.open") | {"evaluations": [{}, item]}
    reply = send(address, EVALUATIONS, body)
    assert (reply.status, reply.content) == (400, "evaluations[1]: must be an object")


def test_a_caller_reads_its_own_change(server: RunningServer, address: str) -> None:
    with queuegate.Client(server.address, timeout=60) as client:
        cursor = client.invalidate().cursor
    assert cursor is not None
    epoch = base64.b64encode(cursor.epoch).decode()
    for sequence in (cursor.sequence, str(cursor.sequence)):
        context = {"at_least": {"epoch": epoch, "sequence": sequence}}
        body = asked("alice", "submit", "root.open") | {"context": context}
        assert send(address, EVALUATION, body).content["decision"]
    unknown: list[dict[str, object]] = [
        {"epoch": "", "sequence": 1},
        {"epoch": epoch, "sequence": cursor.sequence + 1},
    ]
    for at_least in unknown:
        body["context"]["at_least"] = at_least
        reply = send(address, EVALUATION, body)
        assert reply.status == 503
        assert reply.content.startswith("at_least: this server does not know of that change")
    batch = send(address, EVALUATIONS, body | {"evaluations": [{}, {"context": {}}]}).content
    assert [each["decision"] for each in batch["evaluations"]] == [False, True]
    assert batch["evaluations"][0]["context"]["error"]["status"] == 503
    # Without its number, the change is not one that the server has applied.
    for incomplete in ({"epoch": epoch}, {"epoch": epoch, "seqence": cursor.sequence + 1}):
        body["context"]["at_least"] = incomplete
        reply = send(address, EVALUATION, body)
        assert (reply.status, reply.content) == (400, "context.at_least.sequence: is required")


def test_decisions_are_recorded_and_counted_as_over_grpc(tmp_path: Path) -> None:
    with audited_server(tmp_path, arguments=LISTEN) as (server, client):
        address = http_address(server)
        for user in ("alice", "bob", "dave"):
            send(address, EVALUATION, asked(user, "submit", "root.team"))
        over_http = audit_records(tmp_path)
        for user in ("alice", "bob", "dave"):
            try:
                client.check(user, "root.team")
            except queuegate.GroupsUnavailable:
                continue
        both = audit_records(tmp_path)
        assert [decision_of(each) for each in over_http] == [
            decision_of(each) for each in both[len(over_http) :]
        ]
        volatile = {"time", "seconds"}
        assert [{k: v for k, v in each.items() if k not in volatile} for each in over_http] == [
            {k: v for k, v in each.items() if k not in volatile} for each in both[len(over_http) :]
        ]
        ops = ops_address(server)
        counted = value(ops, "queuegate_decisions_total", "error", "resolver_unavailable")
        assert counted == 2
        assert value(ops, "queuegate_http_requests_total", EVALUATION, "503") == 1
        assert value(ops, "queuegate_http_requests_total", EVALUATION, "200") == 2
        assert value(ops, "grpc_server_handled_total", "CheckQueueAccess", "OK") == 4


def test_a_yarn_application(tmp_path: Path) -> None:
    policy = Path("examples/capacity-scheduler.xml")
    with running_server("--policy", str(policy), *LISTEN) as server:
        address = http_address(server)
        with queuegate.Client(server.address, timeout=60) as client:
            tree = client.get_policy()
            queue = tree.queues[-1].path
        properties = {"queue": queue, "owner": "john", "view_acl": "jane"}
        body = {
            "subject": {"type": "user", "id": "jane", "properties": {"groups": []}},
            "action": {"name": "view"},
            "resource": {"type": "application", "id": "application_1_2", "properties": properties},
        }
        assert send(address, EVALUATION, body).content["decision"]
        body["action"] = {"name": "modify"}
        reply = send(address, EVALUATION, body)
        assert reply.content["decision"] is False
        body["action"] = {"name": "move"}
        reply = send(address, EVALUATION, body)
        assert reply.content == "resource.properties.target_queue: is required"
        properties |= {"target_queue": queue, "owner": "jane"}
        assert send(address, EVALUATION, body).content["context"]["reason"] in {"no_match", "owner"}
