"""Both clients, one after the other."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import pytest

import queuegate
from tests.support.client_calls import QUICK, Ask
from tests.support.fakes.scripted_server import Script, ScriptedServer
from tests.support.servers.contract import contract_channel


@pytest.fixture(params=["blocking", "asyncio"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Ask]]:
    """Make a client of one kind or the other, and call its methods by name."""
    kind = queuegate.Client if request.param == "blocking" else queuegate.aio.Client
    made: list[Ask] = []

    def make(address: str, **settings: Any) -> Ask:
        client = kind(address, **settings)

        async def call(method: str, *args: Any, **kwargs: Any) -> Any:
            result = getattr(client, method)(*args, **kwargs)
            if inspect.isasyncgen(result):
                return [each async for each in result]
            if inspect.isgenerator(result):
                return list(result)
            return await result if inspect.isawaitable(result) else result

        made.append(call)
        return call

    yield make
    for call in made:
        await call("close")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that answers the clients by a script, unless a file has one of its own."""
    with ScriptedServer() as it:
        yield it


@pytest.fixture
def script(server: ScriptedServer) -> Script:
    return server.script


@pytest.fixture
async def ask(server: ScriptedServer, connect: Callable[..., Ask]) -> Ask:
    """Call a method of one client or the other by its name."""
    return connect(server.address, timeout=60, retry=QUICK)


@pytest.fixture(scope="module")
def channel(
    module_transport: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[grpc.Channel]:
    """A channel to a server with the policy of the contract's tests."""
    with contract_channel(tmp_path_factory.mktemp("policy")) as opened:
        yield opened
