"""Callers over the native transport, where streams come through a socket of its own."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.integration.security.authorities import SECRET_QUEUE, channel, configured
from tests.support.sync_stream import SyncStream

TOKEN = "qg_" + "c" * 43
WITH_TOKEN = (("authorization", f"Bearer {TOKEN}"),)
WITH_ANOTHER = (("authorization", "Bearer qg_" + "o" * 43),)
Ask = Callable[[grpc.Channel, Any], bool]
EVERYTHING = {"roles": ["check", "read", "admin", "sync"], "assert_groups": True}


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.Channel]:
    """Loopback may check without groups; a caller with the token, or through a Unix socket
    that is listened on, with them.
    """
    folder = tmp_path_factory.mktemp("native")
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    (folder / "tokens").write_text(f"ci:{digest}\n")
    callers = {
        "loopback": {"roles": ["check", "sync"], "assert_groups": False},
        "unix": EVERYTHING,
        "token_file": str(folder / "tokens"),
        "tokens": {"ci": EVERYTHING},
    }
    with (
        configured(folder, callers=callers, transport="native") as server,
        channel(server.address) as opened,
    ):
        yield opened


def question() -> access_pb2.CheckQueueAccessRequest:
    return access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="u", groups=["secret-group"]),
        queue=SECRET_QUEUE,
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )


def alone(channel: grpc.Channel, metadata: Any) -> bool:
    stub = access_pb2_grpc.AccessServiceStub(channel)
    return stub.CheckQueueAccess(question(), timeout=60, metadata=metadata).allowed


def in_a_batch(channel: grpc.Channel, metadata: Any) -> bool:
    stub = access_pb2_grpc.AccessServiceStub(channel)
    batch = access_pb2.BatchCheckQueueAccessRequest(checks=[question()])
    results = stub.BatchCheckQueueAccess(batch, timeout=60, metadata=metadata).results
    return results[0].decision.allowed


def as_columns(channel: grpc.Channel, metadata: Any) -> bool:
    stub = access_pb2_grpc.AccessServiceStub(channel)
    request = access_pb2.CheckQueueAccessColumnsRequest(
        access=access_pb2.ACCESS_TYPE_SUBMIT,
        users=[question().user],
        queues=[SECRET_QUEUE],
        user_indexes=[0],
        queue_indexes=[0],
    )
    response = stub.CheckQueueAccessColumns(request, timeout=60, metadata=metadata)
    return response.allowed == b"\x01"


def in_a_stream(channel: grpc.Channel, metadata: Any) -> bool:
    with closing(SyncStream(channel, metadata)) as stream:
        return stream.open().assert_groups


@pytest.mark.parametrize("ask", [alone, in_a_batch, as_columns, in_a_stream])
def test_a_caller_is_who_it_is_in_every_call(asking: grpc.Channel, ask: Ask) -> None:
    for _ in range(2):
        assert not ask(asking, ())
        assert ask(asking, WITH_TOKEN)
    with pytest.raises(grpc.RpcError) as caught:
        ask(asking, WITH_ANOTHER)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_reflection_is_for_those_who_may_read(asking: grpc.Channel) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(asking)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.ServerReflectionInfo(iter([request]), timeout=60))
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    metadata = WITH_TOKEN
    assert list(stub.ServerReflectionInfo(iter([request]), timeout=60, metadata=metadata))
