"""The certification scenario of the Authorization API 1.0, on queues.

The scenario's records are queues, and its actions are kinds of access to them. The levels are those
that need no properties of a record, which queues do not have: Basic Core, Batch Core, Search Core
and Discovery. Each row is named after the section of the scenario.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.rows import rows
from tests.support.servers.http_port import (
    EVALUATION,
    EVALUATIONS,
    SUBJECTS,
    Reply,
    http_address,
    send,
)
from tests.support.servers.queuegate_server import running_server

POLICY = """\
partitions:
  - name: default
    usergroupresolver: {type: test}
    queues:
      - name: root
        queues:
          - {name: record-1, submitacl: "alice,bob", adminacl: alice}
          - {name: record-2, submitacl: "alice,bob", adminacl: bob}
"""
SETTINGS = {
    "http": {
        "listen": "127.0.0.1:0",
        "public_url": "https://pdp.example.org/queues",
        "types": {"record": "root"},
        "actions": {"read": "submit", "write": "admin"},
    }
}
ALICE_READS = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "record", "id": "record-1"},
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("certification")
    policy, settings = folder / "queues.yaml", folder / "queuegate.yaml"
    policy.write_text(POLICY)
    settings.write_text(yaml.safe_dump(SETTINGS | {"policy": {"path": str(policy)}}))
    with running_server("--config", str(settings)) as server:
        yield http_address(server)


def answered(reply: Reply) -> Any:
    assert reply.status == 200, reply
    assert reply.headers["Content-Type"] == "application/json"
    return reply.content


@rows
def test_a_decision(address: str, request_body: dict[str, Any], decision: bool) -> None:
    content = answered(send(address, EVALUATION, request_body))
    assert content["decision"] is decision
    assert isinstance(content["context"], dict)


@rows
def test_decisions(address: str, request_body: dict[str, Any], decisions: list[bool]) -> None:
    content = answered(send(address, EVALUATIONS, request_body))
    assert [each["decision"] for each in content["evaluations"]] == decisions
    assert "decision" not in content


@rows
def test_without_evaluations_the_request_is_one(address: str, request_body: dict[str, Any]) -> None:
    content = answered(send(address, EVALUATIONS, request_body))
    assert content["decision"] is True
    assert "evaluations" not in content


@rows
def test_a_search(
    address: str, path: str, request_body: dict[str, Any], results: list[dict[str, str]]
) -> None:
    content = answered(send(address, f"/access/v1/search/{path}", request_body))
    assert next(iter(content)) == "page"
    assert content["page"]["next_token"] == ""
    assert content["page"]["count"] == len(results)
    assert content["results"] == results


@rows
def test_a_malformed_request(
    address: str, path: str, request_body: dict[str, Any], message: str
) -> None:
    reply = send(address, f"/access/v1/{path}", request_body)
    assert (reply.status, reply.content) == (400, message)


@pytest.mark.parametrize("path", ["evaluation", "evaluations", "search/subject", "search/action"])
@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"{}", "text/plain", "the content type must be application/json"),
        (b"{", "application/json", "the body is not JSON: line 1, column 2: "),
        (b"", "application/json", "the body is empty: send a JSON object"),
        (b"[]", "application/json", "the body must be a JSON object"),
    ],
)
def test_what_is_not_an_object(
    address: str, path: str, body: bytes, kind: str, message: str
) -> None:
    reply = send(address, f"/access/v1/{path}", body, Content_Type=kind)
    assert reply.status == 400
    assert reply.content.startswith(message)


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_another_method(address: str, method: str) -> None:
    reply = send(address, EVALUATION, ALICE_READS, method=method)
    assert (reply.status, reply.headers["Allow"]) == (405, "POST")


def test_the_content_type_may_have_a_charset(address: str) -> None:
    kind = "application/json; charset=utf-8"
    assert answered(send(address, EVALUATION, ALICE_READS, Content_Type=kind))["decision"]


@pytest.mark.parametrize("identifier", ["bfe9eb29-ab87-4ca3-be83-a1d5d8305716", "a b/ü=*"])
@pytest.mark.parametrize("body", [ALICE_READS, {}])
def test_the_request_id_comes_back(address: str, body: object, identifier: str) -> None:
    sent = identifier.encode().decode("latin-1")
    assert send(address, EVALUATION, body, X_Request_ID=sent).headers["X-Request-ID"] == sent


def test_without_a_request_id(address: str) -> None:
    assert answered(send(address, EVALUATION, ALICE_READS))["decision"]


def test_the_same_answer_each_time(address: str) -> None:
    contents = [answered(send(address, EVALUATION, ALICE_READS)) for _ in range(5)]
    assert contents == contents[:1] * 5


def test_pages_of_a_search(address: str) -> None:
    asked: dict[str, Any] = ALICE_READS | {"subject": {"type": "user"}, "page": {"limit": 1}}
    first = answered(send(address, SUBJECTS, asked))
    assert first["results"] == [{"type": "user", "id": "alice"}]
    token = first["page"]["next_token"]
    assert token
    # The scenario sends the token alone; the standard also allows the limit beside it.
    for page in ({"token": token}, {"token": token, "limit": 1}):
        last = answered(send(address, SUBJECTS, asked | {"page": page}))
        assert last["results"] == [{"type": "user", "id": "bob"}]
        assert last["page"]["next_token"] == ""


def test_metadata(address: str) -> None:
    url = "https://pdp.example.org/queues"
    for suffix in ("", "/queues"):
        reply = send(address, f"/.well-known/authzen-configuration{suffix}", method="GET")
        assert answered(reply) == {
            "policy_decision_point": url,
            "access_evaluation_endpoint": f"{url}/access/v1/evaluation",
            "access_evaluations_endpoint": f"{url}/access/v1/evaluations",
            "search_subject_endpoint": f"{url}/access/v1/search/subject",
            "search_resource_endpoint": f"{url}/access/v1/search/resource",
            "search_action_endpoint": f"{url}/access/v1/search/action",
        }
