"""A request over `limits.max_message` is refused before it takes its memory."""

from typing import Any, Final

import grpc
import pytest

from tests.support.servers.queuegate_server import running_server

SIZE: Final = 96 << 20
CHECK: Final = "/queuegate.v1.AccessService/CheckQueueAccess"
NO_LIMIT: Final = pytest.mark.xfail(
    reason="pygrpc-native sets no limit when it reads or unpacks a message. If a version does:"
    " isolation/test_floods.py, and docs/explanation/performance.md#why-native-is-not-the-default",
    raises=AssertionError,
    strict=True,
)
OPTIONS: Final = (("grpc.max_send_message_length", -1),)


@pytest.mark.parametrize("transport", ["grpcio", pytest.param("native", marks=NO_LIMIT)])
@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_over_the_limit_takes_no_memory(
    transport: str, compression: grpc.Compression
) -> None:
    with (
        running_server("--set", f"transport={transport}") as server,
        grpc.insecure_channel(server.address, OPTIONS) as channel,
    ):
        call: Any = channel.unary_unary(CHECK)
        before = server.peak_memory()
        try:
            call(bytes(SIZE), timeout=60, compression=compression)
        except grpc.RpcError as error:
            code = error.code()
        else:
            code = grpc.StatusCode.OK
        if code is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            pytest.fail(f"the call ended with {code}", pytrace=False)
        assert server.peak_memory() - before < SIZE // 2
