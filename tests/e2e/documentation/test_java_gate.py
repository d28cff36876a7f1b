"""docs/how-to/java-client.md: its programs run.

examples/java-gate keeps deciding while its server is down and restarts.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.documents import samples
from tests.support.eventually import eventually
from tests.support.maven import BUILD_SECONDS, CLIENT, build
from tests.support.servers.queuegate_server import running_server

pytestmark = pytest.mark.timeout(2 * BUILD_SECONDS)
PAGE = Path("docs/how-to/java-client.md").read_text()
EXAMPLE = Path.cwd() / "examples" / "java-gate"
POLICY = ("--policy", "examples/queues.yaml")
HERE = "admit: by WILDCARD (decided here)"


@pytest.fixture(scope="module")
def program() -> Path:
    """The example, built with the commands of the page."""
    commands = [line for sample in samples(PAGE) for line in sample.command.splitlines()]
    assert commands[:2] == [
        "mvn -B -q -f client/java install -DskipTests",
        "mvn -B -q -f examples/java-gate package",
    ]
    build(CLIENT, "install")
    build(EXAMPLE, "package")
    return EXAMPLE / "target" / "shim.jar"


@pytest.fixture
def start(program: Path) -> Iterator[Callable[[str], Callable[[str], str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(address: str) -> Callable[[str], str]:
        environment = {**os.environ, "QUEUEGATE_ADDRESS": address}
        pipe = subprocess.PIPE
        command = ["java", "-jar", str(program)]
        shim = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
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
        assert ask("sue") == "reject: queue must not be empty"
    for _ in range(100):
        assert ask("sue root.sandbox").startswith("admit: by WILDCARD (decided here")
    assert ask("new root.analytics").startswith("wait: ")
    eventually(lambda: ask("sue root.sandbox"), HERE.replace(")", ", without a lease)"))
    with running_server(*POLICY, listen=[address]):
        eventually(lambda: ask("sue root.sandbox"), HERE)
        assert ask("new root.analytics").startswith("reject: new may not submit to root.analytics")


def test_the_program_on_the_page(program: Path, tmp_path: Path) -> None:
    del program
    [block] = re.findall(r"^```java\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    source = tmp_path / "Ask.java"
    source.write_text(block)
    libraries = str(EXAMPLE / "target" / "lib" / "*")
    with running_server(*POLICY) as server:
        done = subprocess.run(
            ["java", "-cp", libraries, source],
            env={**os.environ, "QUEUEGATE_ADDRESS": server.address},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, done.stdout) == (0, "true USER\n"), done.stderr
