"""ListUsers over a real socket: who may use a queue, and why."""

from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc
from tests.support.rows import rows
from tests.support.servers.contract import QUEUES, SUBMIT, check, violations
from tests.support.servers.queuegate_server import ADMIN, running_server

ADMINISTER = access_pb2.ACCESS_TYPE_ADMIN
USER, GROUP = access_pb2.SUBJECT_KIND_USER, access_pb2.SUBJECT_KIND_GROUP

both_transports = pytest.mark.both_transports


def listed(channel: grpc.Channel, queue: str, **fields: Any) -> access_pb2.ListUsersResponse:
    fields.setdefault("access", SUBMIT)
    request = access_pb2.ListUsersRequest(queue=queue, **fields)
    return access_pb2_grpc.AccessServiceStub(channel).ListUsers(request, timeout=60)


def via(user: access_pb2.ListedUser) -> list[tuple[str, int, int, str]]:
    return [(grant.queue, grant.acl, grant.kind, grant.name) for grant in user.via]


@both_transports
def test_users_and_members_of_groups(channel: grpc.Channel) -> None:
    found = listed(channel, "root.dev")
    assert {user.user: via(user) for user in found.users} == {
        "alice": [("root.dev", SUBMIT, USER, "alice")],
        "boss": [("root", ADMINISTER, USER, "boss")],
        **{f"testuser{number}": [("root.dev", SUBMIT, GROUP, "group1001")] for number in (1, 2, 3)},
    }
    assert [user.user for user in found.users] == sorted(user.user for user in found.users)
    assert all(user.confirmed for user in found.users)
    assert (found.complete, found.everyone, found.groups_may_be_asserted) == (True, False, True)
    assert found.HasField("directory_as_of")
    assert (found.policy_revision, found.next_page_token, found.evaluated_queue) == (1, "", "")
    for user in ("alice", "boss", "testuser1", "testuser4", "testuser5", "ghost"):
        try:
            allowed = check(channel, user=user, queue="root.dev").allowed
        except grpc.RpcError:
            allowed = False
        assert allowed == (user in {each.user for each in found.users}), user


@both_transports
@rows
def test_other_queues(
    channel: grpc.Channel, fields: dict[str, Any], users: list[str], evaluated: str
) -> None:
    found = listed(channel, **fields)
    assert [user.user for user in found.users] == users
    assert found.evaluated_queue == evaluated
    assert found.complete


def test_everyone(channel: grpc.Channel) -> None:
    found = listed(channel, "root.open.below")
    assert (found.everyone, found.complete, len(found.users)) == (True, True, 0)
    grant = found.everyone_via
    assert (grant.queue, grant.acl, grant.name) == ("root.open", SUBMIT, "*")
    assert grant.kind == access_pb2.SUBJECT_KIND_EVERYONE


@both_transports
@pytest.mark.parametrize("size", [1, 2, 4, 5, 6])
def test_pages(channel: grpc.Channel, size: int) -> None:
    expected = [user.user for user in listed(channel, "root.dev").users]
    found: list[str] = []
    token = ""
    while True:
        page = listed(channel, "root.dev", page_size=size, page_token=token)
        assert len(page.users) <= size
        found += [user.user for user in page.users]
        if not (token := page.next_page_token):
            break
    assert found == expected


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"queue": ""}, ["queue"]),
        ({"queue": "a..b", "access": 0}, ["queue", "access"]),
        ({"queue": "root", "page_size": -1}, ["page_size"]),
        ({"queue": "root", "partition": "\n"}, ["partition"]),
        ({"queue": "root", "page_token": "no token"}, ["page_token"]),
        ({"queue": "root", "page_token": "AAAA"}, ["page_token"]),
        ({"queue": "root", "page_token": "x" * 5000}, ["page_token"]),
    ],
)
def test_faults(channel: grpc.Channel, fields: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        listed(channel, **fields)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert [field for field in violations(caught.value) if field != "access"] == [
        field for field in named if field != "access"
    ]


def test_a_token_belongs_to_its_question(channel: grpc.Channel) -> None:
    token = listed(channel, "root.dev", page_size=1).next_page_token
    for fields in ({"queue": "root.dev.deep"}, {"queue": "root.dev", "access": ADMINISTER}):
        with pytest.raises(grpc.RpcError, match="belongs to another request"):
            listed(channel, page_token=token, **fields)


def test_a_token_ends_with_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(QUEUES)
    with (
        running_server("--policy", str(path), *ADMIN) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        pages = client.list_users("root.dev", page_size=2)
        assert len(next(pages).users) == 2
        path.write_text(QUEUES.replace("alice group1001", "alice"))
        assert client.reload()
        with pytest.raises(queuegate.InvalidArgument, match="the policy has changed"):
            next(pages)
        [page] = client.list_users("root.dev")
        assert [user.user for user in page.users] == ["alice", "boss"]


async def test_clients_follow_the_pages(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(QUEUES)
    with running_server("--policy", str(path), *ADMIN) as server:
        with queuegate.Client(server.address, timeout=60) as client:
            blocking = list(client.list_users("root.dev", page_size=2))
        async with queuegate.aio.Client(server.address, timeout=60) as asynchronous:
            pages = [page async for page in asynchronous.list_users("root.dev", page_size=2)]
            [open_page] = [page async for page in asynchronous.list_users("root.open")]
    assert [page.users for page in pages] == [page.users for page in blocking]
    assert [len(page.users) for page in pages] == [2, 2, 1]
    assert pages[0].users[0] == queuegate.ListedUser(
        "alice",
        (
            queuegate.AccessGrant(
                "root.dev", queuegate.Access.SUBMIT, queuegate.SubjectKind.USER, "alice"
            ),
        ),
        further=0,
        confirmed=True,
        detail="",
    )
    assert open_page.everyone
    assert open_page.everyone_via is not None
    assert open_page.everyone_via.queue == "root.open"
