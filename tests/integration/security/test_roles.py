"""Every call and every role: who may call what, also where nothing is set."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.rpc import error_details_pb2, status_pb2

import queuegate
from queuegate.v1 import access_pb2, policy_pb2, sync_pb2, user_groups_pb2
from queuegate_server.rpc.authorization import ROLES
from queuegate_server.settings.callers import Role
from tests.integration.security.authorities import (
    Authority,
    channel,
    client,
    configured,
    dns,
    reveals_nothing,
    with_tls,
)
from tests.support.servers.queuegate_server import RunningServer, running_server

METHODS: list[MethodDescriptor] = [
    method
    for file in (
        access_pb2.DESCRIPTOR,
        user_groups_pb2.DESCRIPTOR,
        policy_pb2.DESCRIPTOR,
        sync_pb2.DESCRIPTOR,
    )
    for service in file.services_by_name.values()
    for method in service.methods
]
REFUSED = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
CALLERS = [*map(str, Role), "nothing"]


def test_every_call_has_a_role() -> None:
    assert {method.full_name for method in METHODS} == set(ROLES)


def outcome(asking: grpc.Channel, method: MethodDescriptor) -> grpc.RpcError | None:
    """Make an empty call; return its error. What it asks for is no concern here."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    try:
        if method.client_streaming:
            stream: Any = asking.stream_stream(path)
            list(stream(iter([b""]), timeout=60))
        else:
            unary: Any = asking.unary_unary(path)
            unary(b"", timeout=60)
    except grpc.RpcError as error:
        return error
    return None


def refusal(error: grpc.RpcError | None) -> grpc.StatusCode | None:
    return error.code() if error is not None and error.code() in REFUSED else None


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[RunningServer]:
    certificates = {f"dns:{role}.example.org": {"roles": [role]} for role in map(str, Role)}
    certificates["dns:nothing.example.org"] = {"roles": []}
    folder = tmp_path_factory.mktemp("roles")
    with configured(
        folder, [with_tls(authority)], callers={"certificates": certificates}
    ) as started:
        yield started


@pytest.mark.parametrize("name", CALLERS)
def test_a_role_may_call_what_needs_it_and_nothing_else(
    server: RunningServer, authority: Authority, name: str
) -> None:
    shown = authority.client(name, dns(f"{name}.example.org"))
    with channel(server.address, shown) as asking:
        answers = {method.full_name: refusal(outcome(asking, method)) for method in METHODS}
    assert answers == {
        method: None if role == name else grpc.StatusCode.PERMISSION_DENIED
        for method, role in ROLES.items()
    }


@pytest.mark.parametrize("name", CALLERS)
def test_reflection_needs_the_role_read(
    server: RunningServer, authority: Authority, name: str
) -> None:
    shown = authority.client(name, dns(f"{name}.example.org"))
    expected = None if name == Role.READ else grpc.StatusCode.PERMISSION_DENIED
    with channel(server.address, shown) as asking:
        assert reflection(asking) == expected


def reflection(asking: grpc.Channel) -> grpc.StatusCode | None:
    method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    call: Any = asking.stream_stream(method)
    try:
        # ServerReflectionRequest.list_services
        list(call(iter([b"\x3a\x00"]), timeout=60))
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return None


@pytest.mark.parametrize("place", ["loopback", "unix"])
def test_without_settings_local_callers_check_read_and_sync(tmp_path: Path, place: str) -> None:
    address = "127.0.0.1:0" if place == "loopback" else f"unix:{tmp_path}/q.sock"
    with running_server(listen=[address]) as server, channel(server.address) as asking:
        answers = {method.full_name: outcome(asking, method) for method in METHODS}
        assert reflection(asking) is None
    assert {method for method, error in answers.items() if refusal(error)} == {
        method for method, role in ROLES.items() if role is Role.ADMIN
    }
    error: Any = answers["queuegate.v1.PolicyService.ReloadPolicy"]
    (details,) = [
        value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"
    ]
    info = error_details_pb2.ErrorInfo()
    status_pb2.Status.FromString(details).details[0].Unpack(info)
    assert info.reason == "CALLER_NOT_PERMITTED"
    assert error.details() == (
        f"this call needs the admin role, which {place} does not have: add it to"
        f" callers.{place}.roles, now [check, read, sync], in the server's settings"
    )


def test_places_can_have_different_roles(tmp_path: Path) -> None:
    listen = ["127.0.0.1:0", f"unix:{tmp_path}/q.sock"]
    callers = {"loopback": {"roles": ["check"]}, "unix": {"roles": ["admin"]}}
    with configured(tmp_path, listen, callers=callers) as server:
        tcp, unix = server.address.split(", ")
        with client(tcp) as asking:
            assert asking.check("alice", "root.open")
            with pytest.raises(queuegate.NotPermitted) as caught:
                asking.reload()
            assert reveals_nothing(caught.value)
        with client(unix) as asking:
            assert asking.reload()
            with pytest.raises(queuegate.NotPermitted) as caught:
                asking.check("alice", "root.open")
            assert reveals_nothing(caught.value)
        # The log has who it was, also of what is refused, and who administers in any case.
        server.wait_for_log("call failed", count=2)
        assert [
            (entry["event"], entry["caller"], entry["method"].rpartition(".")[2])
            for entry in server.logs
            if "method" in entry
        ] == [
            ("call failed", "loopback", "ReloadPolicy"),
            ("admin call", "unix", "ReloadPolicy"),
            ("call failed", "unix", "CheckQueueAccess"),
        ]


def test_reflection_can_be_switched_off(tmp_path: Path) -> None:
    with configured(tmp_path, reflection=False) as server, channel(server.address) as asking:
        assert reflection(asking) is grpc.StatusCode.UNIMPLEMENTED


def test_a_stream_that_is_refused_leaves_no_warning() -> None:
    rights = ("--set", "callers={loopback: {roles: [check]}}")
    sync = next(each for each in METHODS if each.name == "Sync")
    with (
        running_server("--policy", "examples/queues.yaml", *rights) as server,
        grpc.insecure_channel(server.address) as asking,
    ):
        for _ in range(3):
            error = outcome(asking, sync)
            assert error is not None
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert not [line for line in server.errors if "Warning" in line]
