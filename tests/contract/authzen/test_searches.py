"""Searches over HTTP: pages, what a list does not show, and names of the settings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import queuegate
from tests.support.servers.contract import QUEUES
from tests.support.servers.http_port import (
    ACTIONS,
    EVALUATION,
    LISTEN,
    RESOURCES,
    SUBJECTS,
    asked,
    http_address,
    send,
)
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

OTHER_REQUEST = (
    "page.token: belongs to another request: repeat all members of the request that returned it,"
    " or omit it to begin again"
)


def pages(address: str, path: str, body: dict[str, Any], limit: int) -> list[Any]:
    """Return the results of all pages."""
    found: list[Any] = []
    page: dict[str, Any] = {"limit": limit}
    while True:
        reply = send(address, path, body | {"page": page})
        assert reply.status == 200, reply
        assert reply.content["page"]["count"] == len(reply.content["results"]) <= limit
        found += reply.content["results"]
        if not (token := reply.content["page"]["next_token"]):
            return found
        page = {"token": token}


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_of_queues(server: RunningServer, address: str, limit: int) -> None:
    body = asked("boss", "submit", "") | {"resource": {"type": "queue"}}
    with queuegate.Client(server.address, timeout=60) as client:
        expected = list(client.list_queues("boss"))
    assert len(expected) > 2
    found = pages(address, RESOURCES, body, limit)
    assert found == [{"type": "queue", "id": queue} for queue in expected]


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_pages_of_users(server: RunningServer, address: str, limit: int) -> None:
    body = asked("", "submit", "root.dev") | {"subject": {"type": "user"}}
    found = pages(address, SUBJECTS, body, limit)
    names = ["alice", "boss", "testuser1", "testuser2", "testuser3"]
    assert found == [{"type": "user", "id": name} for name in names]


@pytest.mark.parametrize("limit", [1, 2])
def test_pages_of_actions(address: str, limit: int) -> None:
    body = {"subject": {"type": "user", "id": "boss"}, "resource": {"type": "queue", "id": "root"}}
    assert pages(address, ACTIONS, body, limit) == [{"name": "submit"}, {"name": "admin"}]


@pytest.mark.parametrize(
    "change",
    [
        {"subject": {"type": "user", "id": "alice"}},
        {"action": {"name": "admin"}},
        {"resource": {"type": "queue", "properties": {"partition": "gpu"}}},
        {"context": {"time": "later"}},
        {"page": {"limit": 2}},
    ],
)
def test_a_token_belongs_to_its_request(address: str, change: dict[str, Any]) -> None:
    body: dict[str, Any] = asked("boss", "submit", "") | {"resource": {"type": "queue"}}
    token = send(address, RESOURCES, body | {"page": {"limit": 1}}).content["page"]["next_token"]
    page = {"limit": 1, "token": token} | change.get("page", {})
    reply = send(address, RESOURCES, body | change | {"page": page})
    assert (reply.status, reply.content) == (400, OTHER_REQUEST)


def test_a_token_belongs_to_its_endpoint(address: str) -> None:
    body = asked("boss", "submit", "root.dev")
    token = send(address, RESOURCES, body | {"page": {"limit": 1}}).content["page"]["next_token"]
    reply = send(address, SUBJECTS, body | {"page": {"limit": 1, "token": token}})
    assert (reply.status, reply.content) == (400, OTHER_REQUEST)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ({"limit": 0}, "page.limit: must be at least 1"),
        ({"limit": True}, "page.limit: must be an integer"),
        ({"limit": 1.5}, "page.limit: must be an integer"),
        ({"token": 1}, "page.token: must be a string"),
        ({"token": "no token"}, "page.token: is not a page token"),
        ({"token": "AAAA"}, OTHER_REQUEST),
        ([], "page: must be an object"),
    ],
)
def test_malformed_pages(address: str, page: object, message: str) -> None:
    body = asked("boss", "submit", "") | {"resource": {"type": "queue"}, "page": page}
    reply = send(address, RESOURCES, body)
    assert (reply.status, reply.content) == (400, message)


def test_everyone_is_said(address: str) -> None:
    body = asked("", "submit", "root.open") | {"subject": {"type": "user"}}
    content = send(address, SUBJECTS, body).content
    assert content["results"] == []
    assert content["context"]["everyone"] is True


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(QUEUES.replace("type: test", "type: no_groups"))
    with running_server("--policy", str(policy), *LISTEN) as server:
        body = asked("", "submit", "root.dev") | {"subject": {"type": "user"}}
        content = send(http_address(server), SUBJECTS, body).content
    assert [each["id"] for each in content["results"]] == ["alice", "boss"]
    assert content["context"]["complete"] is False
    assert content["context"]["incomplete"] == [
        "no resolver looks up groups: name one in the settings"
    ]


def test_users_who_cannot_be_checked_are_no_results(address: str) -> None:
    # The table lists no groups for this user, whom the ACL does not name either.
    body = asked("", "submit", "root.dev") | {"subject": {"type": "user"}}
    content = send(address, SUBJECTS, body).content
    assert content["context"]["unconfirmed"] == []


def test_a_changed_policy_ends_a_search_of_users(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(QUEUES)
    with (
        running_server("--policy", str(policy), *LISTEN, *ADMIN) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        address = http_address(server)
        body = asked("", "submit", "root.dev") | {"subject": {"type": "user"}}
        first = send(address, SUBJECTS, body | {"page": {"limit": 2}}).content
        policy.write_text(QUEUES.replace("alice group1001", "alice"))
        assert client.reload()
        page = {"token": first["page"]["next_token"]}
        reply = send(address, SUBJECTS, body | {"page": page})
    assert reply.status == 400
    assert reply.content.startswith("page.token: belongs to another policy")


def test_an_outage_is_no_empty_list(address: str) -> None:
    for path in (RESOURCES, ACTIONS):
        reply = send(address, path, asked("testuser5", "submit", "root.dev"))
        assert (reply.status, bool(reply.headers["Retry-After"])) == (503, True)


def test_a_search_is_for_queues(address: str) -> None:
    resource = {"type": "application", "id": "a"}
    for path in (RESOURCES, SUBJECTS, ACTIONS):
        reply = send(address, path, asked("alice", "submit", "") | {"resource": resource})
        message = "resource.type: a search must be for queue, not application"
        assert (reply.status, reply.content) == (400, message)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose settings have names of types and actions."""
    folder = tmp_path_factory.mktemp("named")
    policy, settings = folder / "queues.yaml", folder / "queuegate.yaml"
    policy.write_text(QUEUES)
    http = {
        "listen": "127.0.0.1:0",
        "types": {"team": "root", "part": "root.DEV"},
        "actions": {"can_submit": "submit", "use": "submit"},
    }
    settings.write_text(yaml.safe_dump({"http": http, "policy": {"path": str(policy)}}))
    with running_server("--config", str(settings)) as server:
        yield http_address(server)


def test_types_are_queues_below_another(named: str) -> None:
    body = asked("alice", "can_submit", "") | {"resource": {"type": "part", "id": "deep"}}
    context = send(named, EVALUATION, body).content["context"]
    assert context["message"].startswith("allowed: alice may submit to root.DEV.deep: ")
    for kind, expected in (("part", ["deep"]), ("team", ["dev", "dev.deep", "open"])):
        found = send(named, RESOURCES, body | {"resource": {"type": kind}}).content["results"]
        assert found == [{"type": kind, "id": name} for name in expected]


def test_actions_have_the_names_of_the_settings(named: str) -> None:
    body = {"subject": {"type": "user", "id": "boss"}, "resource": {"type": "team", "id": "dev"}}
    found = send(named, ACTIONS, body).content["results"]
    assert [each["name"] for each in found] == ["can_submit", "use", "admin"]
    for name in ("submit", "can_submit", "use", "admin"):
        assert send(named, EVALUATION, body | {"action": {"name": name}}).content["decision"]
