"""A server with a small policy, and calls of the contract through handwritten stubs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from queuegate.v1 import (
    access_pb2,
    access_pb2_grpc,
    user_group_information_pb2,
)
from tests.support.servers.queuegate_server import ADMIN, running_server

QUEUES = """
partitions:
  - name: default
    usergroupresolver: {type: test}
    queues:
      - name: root
        adminacl: boss
        queues:
          - name: open
            submitacl: "*"
          - name: dev
            submitacl: "alice group1001"
            queues:
              - name: deep
  - name: gpu
    queues:
      - name: root
        submitacl: " alice"
"""
SUBMIT = access_pb2.ACCESS_TYPE_SUBMIT


@contextmanager
def contract_channel(folder: Path) -> Iterator[grpc.Channel]:
    """Serve QUEUES from a file in the folder."""
    path = folder / "queues.yaml"
    path.write_text(QUEUES)
    with (
        running_server("--policy", str(path), *ADMIN) as started,
        grpc.insecure_channel(started.address) as opened,
    ):
        yield opened


def request(
    user: str = "alice", queue: str = "root.open", groups: tuple[str, ...] = (), **fields: Any
) -> access_pb2.CheckQueueAccessRequest:
    information = user_group_information_pb2.UserGroupInformation(user=user, groups=groups)
    fields.setdefault("access", SUBMIT)
    return access_pb2.CheckQueueAccessRequest(user=information, queue=queue, **fields)


def check(channel: grpc.Channel, **fields: Any) -> access_pb2.CheckQueueAccessResponse:
    stub = access_pb2_grpc.AccessServiceStub(channel)
    return stub.CheckQueueAccess(request(**fields), timeout=60)


def violations(error: grpc.RpcError) -> list[str]:
    """Return the fields that the error names, and check the details that every error carries."""
    trailers = {entry.key: entry.value for entry in error.trailing_metadata()}
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "queuegate"
    bad = error_details_pb2.BadRequest()
    if info.reason == "INVALID_FIELD":
        assert status.details[1].Unpack(bad)
    return [violation.field for violation in bad.field_violations]


def raw(channel: grpc.Channel, service: str, method: str, data: bytes) -> bytes:
    """Call with bytes that no message class would write."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        f"/queuegate.v1.{service}/{method}"
    )
    return call(data, timeout=60)
