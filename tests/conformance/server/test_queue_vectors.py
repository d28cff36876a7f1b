"""The vectors of queues over a real socket."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.v1 import (
    access_pb2,
)
from tests.support.gates import KINDS, live_gate
from tests.support.servers.contract import SUBMIT, check, violations
from tests.support.servers.http_port import (
    EVALUATION,
    LISTEN,
    connect,
    exchange,
    http_address,
)
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

DOCUMENTS = json.loads(Path("tests/vectors/queue_vectors.json").read_text())["documents"]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("policy") / "queues.yaml"
    file.write_text(DOCUMENTS[0]["yaml"])
    return file


@pytest.fixture(scope="module")
def server(policy: Path) -> Iterator[RunningServer]:
    with running_server("--policy", str(policy), *LISTEN, *ADMIN) as started:
        yield started


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["id"])
def test_queue_vectors(document: dict[str, Any], server: RunningServer, policy: Path) -> None:
    """YuniKorn's answers, through the contract; the deviations are in DEVIATIONS.md."""
    access = {"submit": SUBMIT, "admin": access_pb2.ACCESS_TYPE_ADMIN}
    policy.write_text(document["yaml"])
    with queuegate.Client(server.address, timeout=60) as client:
        assert client.reload()
    with grpc.insecure_channel(server.address) as opened:
        for asked in document["questions"]:
            fields = {key: asked[key] for key in ("user", "queue", "partition")}
            fields["groups"] = tuple(asked["groups"])
            fields["access"] = access[asked["access"]]
            try:
                answer = check(opened, **fields)
                outcome: Any = answer.allowed
                if not asked["groups"] and answer.reason == access_pb2.REASON_GROUP:
                    # No groups in a request means "resolve them": to the user's own name.
                    assert answer.matched_subject == asked["user"]
                    continue
            except grpc.RpcError as error:
                outcome = (error.code(), violations(error))
            expected = asked.get("allowed")
            if asked.get("error") == "partition_not_found":
                expected = (grpc.StatusCode.NOT_FOUND, [])
            elif asked["user"] == "" or (asked["user"] == "*" and asked["groups"]):
                expected = (grpc.StatusCode.INVALID_ARGUMENT, ["user.user"])
            elif asked["queue"].startswith("root.@recovery@.") and asked["access"] == "submit":
                expected = False
            assert outcome == expected, asked


def test_http_answers_as_grpc(server: RunningServer, policy: Path) -> None:
    with (
        queuegate.Client(server.address, timeout=60) as client,
        contextlib.closing(connect(http_address(server))) as opened,
    ):
        for document in DOCUMENTS:
            policy.write_text(document["yaml"])
            assert client.reload()
            for asked in document["questions"]:
                question = {key: asked[key] for key in ("partition", "access", "groups")}
                expected = outcome(client, asked, question)
                reply = exchange(opened, EVALUATION, over_http(asked))
                if isinstance(expected, queuegate.Decision):
                    found = reply.content
                    context = found["context"]
                    assert (found["decision"], context["reason"], context.get("queue", "")) == (
                        expected.allowed,
                        str(expected.reason),
                        expected.matched_queue,
                    ), asked
                    assert context["policy_revision"] == expected.policy_revision
                else:
                    # Also what the client refuses itself, such as a user without a name.
                    assert reply.status == 400, (asked, reply)


def over_http(asked: dict[str, Any]) -> dict[str, Any]:
    properties = {"groups": asked["groups"]}
    return {
        "subject": {"type": "user", "id": asked["user"], "properties": properties},
        "action": {"name": asked["access"]},
        "resource": {
            "type": "queue",
            "id": asked["queue"],
            "properties": {"partition": asked["partition"]},
        },
    }


@pytest.mark.parametrize("kind", KINDS)
def test_gates_answer_as_the_server(kind: str, server: RunningServer, policy: Path) -> None:
    with (
        queuegate.Client(server.address, timeout=60) as client,
        live_gate(server.address, kind) as gate,
    ):
        for document in DOCUMENTS:
            policy.write_text(document["yaml"])
            assert client.reload(wait=True)
            for asked in document["questions"]:
                question = {key: asked[key] for key in ("partition", "access", "groups")}
                assert outcome(gate, asked, question) == outcome(client, asked, question), asked
        assert gate.decided > 100


def outcome(client: queuegate.Client, asked: dict[str, Any], question: dict[str, Any]) -> Any:
    """Return the decision, or which exception there was instead."""
    try:
        return client.check(asked["user"], asked["queue"], **question)
    except (queuegate.QueuegateError, ValueError) as error:
        return type(error), str(error)
