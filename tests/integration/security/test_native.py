"""Callers over the native transport, where streams come through a socket of its own."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.integration.security.authorities import SECRET_QUEUE, channel, configured

TOKEN = "qg_" + "c" * 43
WITH_TOKEN = (("authorization", f"Bearer {TOKEN}"),)
WITH_ANOTHER = (("authorization", "Bearer qg_" + "o" * 43),)
Ask = Callable[[access_pb2_grpc.AccessServiceStub, Any], bool]
EVERYTHING = {"roles": ["check", "read", "admin"], "assert_groups": True}


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.Channel]:
    """Loopback may check without groups; a caller with the token, or through a Unix socket
    that is listened on, with them.
    """
    folder = tmp_path_factory.mktemp("native")
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    (folder / "tokens").write_text(f"ci:{digest}\n")
    callers = {
        "loopback": {"roles": ["check"], "assert_groups": False},
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


def alone(stub: access_pb2_grpc.AccessServiceStub, metadata: Any) -> bool:
    return stub.CheckQueueAccess(question(), timeout=60, metadata=metadata).allowed


def in_a_batch(stub: access_pb2_grpc.AccessServiceStub, metadata: Any) -> bool:
    batch = access_pb2.BatchCheckQueueAccessRequest(checks=[question()])
    results = stub.BatchCheckQueueAccess(batch, timeout=60, metadata=metadata).results
    return results[0].decision.allowed


def as_columns(stub: access_pb2_grpc.AccessServiceStub, metadata: Any) -> bool:
    request = access_pb2.CheckQueueAccessColumnsRequest(
        access=access_pb2.ACCESS_TYPE_SUBMIT,
        users=[question().user],
        queues=[SECRET_QUEUE],
        user_indexes=[0],
        queue_indexes=[0],
    )
    response = stub.CheckQueueAccessColumns(request, timeout=60, metadata=metadata)
    return response.allowed == b"\x01"


def in_a_stream(stub: access_pb2_grpc.AccessServiceStub, metadata: Any) -> bool:
    batch = access_pb2.BatchCheckQueueAccessRequest(checks=[question()])
    request = access_pb2.StreamQueueAccessRequest(id=1, batch=batch)
    [response] = stub.StreamQueueAccess(iter([request]), timeout=60, metadata=metadata)
    return response.batch.results[0].decision.allowed


@pytest.mark.parametrize("ask", [alone, in_a_batch, as_columns, in_a_stream])
def test_a_caller_is_who_it_is_in_every_call(asking: grpc.Channel, ask: Ask) -> None:
    stub = access_pb2_grpc.AccessServiceStub(asking)
    for _ in range(2):
        assert not ask(stub, ())
        assert ask(stub, WITH_TOKEN)
    with pytest.raises(grpc.RpcError) as caught:
        ask(stub, WITH_ANOTHER)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_reflection_is_for_those_who_may_read(asking: grpc.Channel) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(asking)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.ServerReflectionInfo(iter([request]), timeout=60))
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    metadata = WITH_TOKEN
    assert list(stub.ServerReflectionInfo(iter([request]), timeout=60, metadata=metadata))
