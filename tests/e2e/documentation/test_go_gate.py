"""examples/go-gate keeps deciding while its server is down and restarts."""

from pathlib import Path

import pytest

from tests.e2e.documentation.example_gates import expect_decisions_during_a_restart
from tests.support import go_toolchain
from tests.support.go_toolchain import BUILD_SECONDS, GoError

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
MODULE = Path.cwd() / "examples" / "go-gate"


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


def test_a_restart(program: Path) -> None:
    refusal = "reject: queuegate: queue must not be empty"
    expect_decisions_during_a_restart([str(program)], "wildcard", refusal)
