"""What a program adds to the calls of a client: metadata and interceptors of gRPC."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

import queuegate
from tests.support.client_calls import Ask
from tests.support.fakes.scripted_server import Fault, ScriptedServer

REMOTE = "queuegate.example.com:50051"


class Blocking(grpc.UnaryUnaryClientInterceptor):
    def __init__(self, name: str, seen: list[tuple[str, str]]) -> None:
        self.name, self.seen = name, seen

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        self.seen.append((self.name, details.method))
        return continuation(details, request)


class Asynchronous(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, name: str, seen: list[tuple[str, str]]) -> None:
        self.name, self.seen = name, seen

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        self.seen.append((self.name, details.method.decode()))
        return await continuation(details, request)


async def test_metadata_goes_with_each_call(
    server: ScriptedServer, connect: Callable[..., Ask]
) -> None:
    given = {"x-team": "search", "trace-bin": b"\x00\xff", "authorization": "Basic secret"}
    for metadata in (given, tuple(given.items())):
        server.script.reset()
        ask = connect(server.address, timeout=60, metadata=metadata)
        await ask("check", "alice", "root")
        await ask("check_many", [queuegate.Check("alice", "root")])
        assert len(server.script.calls) == 2
        for call in server.script.calls:
            assert given.items() <= call.metadata.items()


async def test_metadata_goes_beside_the_token(
    server: ScriptedServer, connect: Callable[..., Ask], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("abc\n")
    ask = connect(server.address, timeout=60, metadata={"x-team": "search"}, token_file=token)
    await ask("check", "alice", "root")
    [call] = server.script.calls
    assert call.metadata["x-team"] == "search"
    assert call.metadata["authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("metadata", "error", "message"),
    [
        ({"X-Team": "a"}, ValueError, "metadata 'X-Team': a key consists of lowercase letters"),
        ({"": "a"}, ValueError, "metadata '': a key"),
        ({"grpc-timeout": "1S"}, ValueError, "does not start with 'grpc-'"),
        ({"x": "secret\n"}, ValueError, "metadata 'x' must consist of printable ASCII"),
        ({"x": "secret\u00e9"}, ValueError, "metadata 'x' must consist of printable ASCII"),
        ({"x": b"secret"}, TypeError, "metadata 'x' must be a str"),
        ({"x-bin": "secret"}, TypeError, "metadata 'x-bin' must be bytes"),
        ({1: "secret"}, TypeError, "metadata must be a mapping"),
        ([("x", "secret", "y")], TypeError, "metadata must be a mapping, or pairs"),
        ([7], TypeError, "metadata must be a mapping, or pairs"),
        (7, TypeError, "metadata must be a mapping, or pairs"),
        ("secret", TypeError, "metadata must be a mapping, or pairs"),
    ],
)
def test_metadata_that_cannot_be_sent(metadata: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        queuegate.Client("127.0.0.1:1", metadata=metadata)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", [queuegate.Client, queuegate.Gate])
def test_authorization_is_guarded_as_a_token_is(kind: Any, tmp_path: Path) -> None:
    secret = {"authorization": "Bearer secret"}
    message = r"refusing to send metadata 'authorization' to .* unencrypted: use TLS"
    with pytest.raises(ValueError, match=message) as caught:
        kind(REMOTE, metadata=secret)
    assert "secret" not in str(caught.value)
    token = tmp_path / "token"
    token.write_text("abc")
    with pytest.raises(ValueError, match="'authorization' if a token file sets it"):
        kind("127.0.0.1:1", metadata=secret, token_file=token)


async def test_interceptors_see_each_call_once(
    server: ScriptedServer, request: pytest.FixtureRequest, connect: Callable[..., Ask]
) -> None:
    server.script.fail("CheckQueueAccess", Fault(grpc.StatusCode.UNAVAILABLE))
    seen: list[tuple[str, str]] = []
    kind = Asynchronous if "asyncio" in request.node.name else Blocking
    both = [kind("outer", seen), kind("inner", seen)]
    ask = connect(server.address, timeout=60, interceptors=both)
    assert await ask("check", "alice", "root")
    method = "/queuegate.v1.AccessService/CheckQueueAccess"
    assert seen == [("outer", method), ("inner", method)]
    assert len(server.script.calls) == 2  # the retry is part of the call


async def test_errors_and_closing_behind_an_interceptor(
    server: ScriptedServer, request: pytest.FixtureRequest, connect: Callable[..., Ask]
) -> None:
    kind = Asynchronous if "asyncio" in request.node.name else Blocking
    ask = connect(server.address, timeout=60, interceptors=[kind("one", [])])
    server.script.fail("CheckQueueAccess", Fault(grpc.StatusCode.NOT_FOUND))
    with pytest.raises(queuegate.UnknownPartition):
        await ask("check", "alice", "root")
    await ask("close")
    with pytest.raises(queuegate.ClientClosed):
        await ask("check", "alice", "root")


async def test_a_fault_of_an_interceptor_is_not_taken_for_a_closed_client(
    server: ScriptedServer, request: pytest.FixtureRequest, connect: Callable[..., Ask]
) -> None:
    class Broken(Blocking):
        def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            raise ValueError("mine")

    class AsyncBroken(Asynchronous):
        async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            raise ValueError("mine")

    kind = AsyncBroken if "asyncio" in request.node.name else Broken
    ask = connect(server.address, timeout=60, interceptors=[kind("one", [])])
    with pytest.raises(ValueError, match=r"^mine$"):
        await ask("check", "alice", "root")


async def test_interceptors_of_the_other_kind() -> None:
    wrong: Any = [Asynchronous("one", [])]
    with pytest.raises(TypeError, match=r"interceptors\[0\] must be a client interceptor of grpc,"):
        queuegate.Client("127.0.0.1:1", interceptors=wrong)
    wrong = [Asynchronous("one", []), Blocking("one", [])]
    with pytest.raises(TypeError, match=r"interceptors\[1\] .* of grpc\.aio, .* not Blocking"):
        queuegate.aio.Client("127.0.0.1:1", interceptors=wrong)
