"""Both clients, one after the other; and both transports, for what matters on either."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import queuegate
from tests.support.client_calls import QUICK, Ask
from tests.support.fakes.scripted_server import Script, ScriptedServer
from tests.support.servers import queuegate_server

_POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: alice
"""
OVER_BOTH = {
    "test_bad_input",
    "test_columns",
    "test_contract",
    "test_costly_requests",
    "test_drain",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.module.__name__.rpartition(".")[2]
    if name in OVER_BOTH:
        metafunc.parametrize("over", ("grpcio", "native"), indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def over(request: pytest.FixtureRequest) -> Iterator[None]:
    with queuegate_server.over(getattr(request, "param", None)):
        yield


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A small policy: alice may submit to root of the partition default."""
    path = tmp_path / "queues.yaml"
    path.write_text(_POLICY)
    return path


@pytest.fixture(params=["blocking", "asyncio"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Ask]]:
    """Make a client of one kind or the other, and call its methods by name."""
    kind = queuegate.Client if request.param == "blocking" else queuegate.aio.Client
    made: list[Ask] = []

    def make(address: str, **settings: Any) -> Ask:
        client = kind(address, **settings)

        async def call(method: str, *args: Any, **kwargs: Any) -> Any:
            result = getattr(client, method)(*args, **kwargs)
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
