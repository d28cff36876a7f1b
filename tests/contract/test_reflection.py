"""Server reflection, as tools use it that have no copy of the contract."""

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.reflection_pb2 import (
    ServerReflectionRequest,
    ServerReflectionResponse,
)

from tests.support.servers.queuegate_server import RunningServer, running_server

CHECK = "queuegate.v1.AccessService.CheckQueueAccess"
SERVICES = {
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "queuegate.v1.AccessService",
    "queuegate.v1.PolicyService",
    "queuegate.v1.SyncService",
    "queuegate.v1.UserGroupService",
}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


class Asking:
    """A caller of one version of reflection."""

    def __init__(self, channel: grpc.Channel, version: str) -> None:
        self._call: grpc.StreamStreamMultiCallable[
            ServerReflectionRequest, ServerReflectionResponse
        ] = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=ServerReflectionRequest.SerializeToString,
            response_deserializer=ServerReflectionResponse.FromString,
        )

    def ask(self, request: ServerReflectionRequest) -> ServerReflectionResponse:
        return next(self._call(iter([request]), timeout=60))

    def files(self, request: ServerReflectionRequest) -> list[FileDescriptorProto]:
        response = self.ask(request)
        assert response.HasField("file_descriptor_response"), response
        found = response.file_descriptor_response.file_descriptor_proto
        return [FileDescriptorProto.FromString(each) for each in found]


@pytest.fixture(params=["v1", "v1alpha"])
def asking(server: RunningServer, request: pytest.FixtureRequest) -> Iterator[Asking]:
    with grpc.insecure_channel(server.address) as channel:
        yield Asking(channel, request.param)


def test_services_are_listed(asking: Asking) -> None:
    listed = asking.ask(ServerReflectionRequest(list_services="")).list_services_response
    assert {service.name for service in listed.service} == SERVICES


@pytest.mark.parametrize("symbol", [*sorted(SERVICES), CHECK, "queuegate.v1.Status"])
def test_a_symbol_is_found_with_all_that_it_needs(asking: Asking, symbol: str) -> None:
    files = asking.files(ServerReflectionRequest(file_containing_symbol=symbol))
    pool = DescriptorPool()
    remaining = {file.name: file for file in files}
    while remaining:
        for file in list(remaining.values()):
            if not remaining.keys() & set(file.dependency):
                pool.Add(remaining.pop(file.name))
    service, _, method = symbol.rpartition(".")
    if symbol == CHECK:
        assert method in pool.FindServiceByName(service).methods_by_name
    else:
        assert pool.FindFileContainingSymbol(symbol).name == files[0].name


def test_comments_come_along(asking: Asking) -> None:
    files = asking.files(ServerReflectionRequest(file_by_filename="queuegate/v1/access.proto"))
    comments = [each.leading_comments for each in files[0].source_code_info.location]
    assert " Runs a check.\n" in comments


@pytest.mark.parametrize(
    "symbol", ["", "queuegate", f"{CHECK}.no", "queuegate.v1.AccessService.No", "a.b.c"]
)
def test_unknown_symbols(asking: Asking, symbol: str) -> None:
    error = asking.ask(ServerReflectionRequest(file_containing_symbol=symbol)).error_response
    assert error.error_code == grpc.StatusCode.NOT_FOUND.value[0]
