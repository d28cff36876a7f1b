"""Fixtures of all suites."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import go_toolchain
from tests.support.go_toolchain import COMPOSE, HELM, KUSTOMIZE, PROMTOOL, GoError, Program
from tests.support.resolvers import Open, R
from tests.support.servers import queuegate_server

if TYPE_CHECKING:
    from tests.support.servers.webhook import Webhook

_POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: alice
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A small policy: alice may submit to root of the partition default."""
    path = tmp_path / "queues.yaml"
    path.write_text(_POLICY)
    return path


_FORKED = tuple(
    f"{Path(__file__).parents[1] / suite}/" for suite in ("conformance", "contract", "integration")
)


@pytest.fixture(scope="module", autouse=True)
def _module_forks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fork the servers of these suites. In `make verify`, each has an interpreter of its own."""
    with queuegate_server.forking(forks=str(request.path).startswith(_FORKED)):
        yield


TRANSPORTS = ("grpcio", pytest.param("native", marks=pytest.mark.second_transport))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("both_transports"):
        metafunc.parametrize("module_transport", TRANSPORTS, indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def module_transport(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a module marked `both_transports` over one transport, then over the other."""
    with queuegate_server.over(getattr(request, "param", None)):
        yield


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test over both transports, one after the other."""
    with queuegate_server.over(request.param):
        yield request.param


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Webhook]":
    """A running webhook that the tests of a module share."""
    from tests.support.servers.webhook import running_webhook

    with running_webhook(tmp_path_factory.mktemp("webhook")) as running:
        yield running


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Fail the test if it leaves a task behind."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if not task.done()}
    left.discard(asyncio.current_task())
    assert not left


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Open resolvers, which are closed at the end of the test."""
    async with AsyncExitStack() as stack:

        async def open_resolver(resolver: R) -> R:
            await resolver.open()
            stack.push_async_callback(resolver.close)
            return resolver

        yield open_resolver


@pytest.fixture(scope="session")
def go() -> Path:
    """The command `go`. A test is skipped if Go is absent and cannot be installed."""
    try:
        return go_toolchain.go()
    except GoError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def kustomize(go: Path) -> Path:
    """The command `kustomize`. A module that uses it has the time limit `BUILD_SECONDS`."""
    return _built(KUSTOMIZE)


@pytest.fixture(scope="session")
def helm(go: Path) -> Path:
    """The command `helm`. A module that uses it has the time limit `BUILD_SECONDS`."""
    return _built(HELM)


@pytest.fixture(scope="session")
def compose(go: Path) -> Path:
    """Prints a compose file as Docker Compose reads it. The time limit is as for `kustomize`."""
    return _built(COMPOSE)


@pytest.fixture(scope="session")
def promtool(go: Path) -> Path:
    """The command `promtool`. A module that uses it has the time limit `BUILD_SECONDS`."""
    return _built(PROMTOOL)


def _built(program: Program) -> Path:
    try:
        return program.built()
    except GoError as error:
        pytest.skip(str(error))
