"""The client for Go: its own tests, which also ask a real server and replay the vectors."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.clients.go_module import MODULE, go_test
from tests.support import go_toolchain
from tests.support.go_toolchain import BUILD_SECONDS, GoError

pytestmark = pytest.mark.timeout(BUILD_SECONDS)


@pytest.fixture(scope="module", autouse=True)
def modules(go: Path) -> None:
    """The modules that the client needs."""
    del go
    try:
        go_toolchain.run("mod", "download", folder=MODULE)
    except GoError as error:
        pytest.skip(str(error))


def test_vet() -> None:
    go_toolchain.run("vet", "./...", folder=MODULE)


def test_format() -> None:
    files = sorted(MODULE.rglob("*.go"))
    gofmt = go_toolchain.go().parent / "gofmt"
    badly = subprocess.run([gofmt, "-l", *files], check=True, capture_output=True, text=True)
    assert badly.stdout == ""


def test_the_module_is_tidy() -> None:
    go_toolchain.run("mod", "tidy", "-diff", folder=MODULE)


def test_the_tests_of_the_module() -> None:
    assert go_test("./...") >= {
        "TestAnnotationVectors",
        "TestQueueVectors",
        "TestAServerThatEndsAndReturns",
        "TestQueueVectorsThroughAGate",
        "TestYARNVectorsThroughAGate",
        "TestUserGroupVectorsThroughAGate",
        "TestChecksDemandAChangeOfAServer",
        "TestDecisionsAreTold",
        "TestOddTables",
        "TestAGateDecidesAsTheServer",
        "TestAGateOfAServerWithAnAuditLog",
        "TestAGateInAProcessThatIsStopped",
        "TestAGateWhoseServerRestarts",
        "TestVectors",
    }
