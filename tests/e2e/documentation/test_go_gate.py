"""examples/go-gate keeps deciding while its server is down and restarts."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import go_toolchain
from tests.support.eventually import eventually
from tests.support.go_toolchain import BUILD_SECONDS, GoError
from tests.support.servers.queuegate_server import running_server

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
MODULE = Path.cwd() / "examples" / "go-gate"
POLICY = ("--policy", "examples/queues.yaml")
HERE = "admit: by wildcard (decided here)"


@pytest.fixture(scope="module")
def program(go: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    del go
    built = tmp_path_factory.mktemp("go") / "gate"
    try:
        go_toolchain.run("mod", "download", folder=MODULE)
    except GoError as error:
        pytest.skip(str(error))
    go_toolchain.run("vet", ".", folder=MODULE)
    go_toolchain.run("mod", "tidy", "-diff", folder=MODULE)
    go_toolchain.run("build", "-o", str(built), ".", folder=MODULE)
    return built


@pytest.fixture
def start(program: Path) -> Iterator[Callable[[str], Callable[[str], str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(address: str) -> Callable[[str], str]:
        environment = {**os.environ, "QUEUEGATE_ADDRESS": address}
        pipe = subprocess.PIPE
        shim = subprocess.Popen([program], env=environment, stdin=pipe, stdout=pipe, text=True)
        started.append(shim)

        def ask(application: str) -> str:
            assert shim.stdin is not None
            assert shim.stdout is not None
            shim.stdin.write(f"{application}\n")
            shim.stdin.flush()
            return shim.stdout.readline().strip()

        return ask

    yield start
    for shim in started:
        shim.communicate(timeout=60)
        assert shim.returncode == 0


def test_a_restart(start: Callable[[str], Callable[[str], str]]) -> None:
    with running_server(*POLICY) as server:
        address = server.address
        ask = start(address)
        eventually(lambda: ask("sue root.sandbox"), HERE)
        assert ask("sue") == "reject: queuegate: queue must not be empty"
    for _ in range(100):
        assert ask("sue root.sandbox").startswith("admit: by wildcard (decided here")
    assert ask("new root.analytics").startswith("wait: ")
    eventually(lambda: ask("sue root.sandbox"), HERE.replace(")", ", without a lease)"))
    with running_server(*POLICY, listen=[address]):
        eventually(lambda: ask("sue root.sandbox"), HERE)
        assert ask("new root.analytics").startswith("reject: new may not submit to root.analytics")
