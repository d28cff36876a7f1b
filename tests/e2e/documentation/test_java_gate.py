"""docs/how-to/java-client.md: its programs run.

examples/java-gate keeps deciding while its server is down and restarts.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.documentation.example_gates import POLICY, expect_decisions_during_a_restart
from tests.support.documents import samples
from tests.support.maven import BUILD_SECONDS, CLIENT, build
from tests.support.servers.queuegate_server import running_server

pytestmark = pytest.mark.timeout(2 * BUILD_SECONDS)
PAGE = Path("docs/how-to/java-client.md").read_text()
EXAMPLE = Path.cwd() / "examples" / "java-gate"


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


def test_a_restart(program: Path) -> None:
    refusal = "reject: queue must not be empty"
    expect_decisions_during_a_restart(["java", "-jar", str(program)], "WILDCARD", refusal)


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
