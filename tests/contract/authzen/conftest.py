"""A server with the policy of the contract, which also answers over HTTP."""

from collections.abc import Iterator

import pytest

from tests.support.servers.admin_port import LISTEN as OPS
from tests.support.servers.contract import QUEUES
from tests.support.servers.http_port import LISTEN, http_address
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    path = tmp_path_factory.mktemp("authzen") / "queues.yaml"
    path.write_text(QUEUES)
    with running_server("--policy", str(path), *LISTEN, *OPS, *ADMIN) as started:
        yield started


@pytest.fixture(scope="module")
def address(server: RunningServer) -> str:
    return http_address(server)
