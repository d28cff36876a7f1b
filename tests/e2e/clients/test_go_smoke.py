"""The client for Go makes each of its calls. `make test` runs this where it need not install Go."""

import pytest

from tests.e2e.clients.go_module import MODULE, go_test
from tests.support import go_toolchain
from tests.support.go_toolchain import BUILD_SECONDS, GoError

pytestmark = pytest.mark.timeout(BUILD_SECONDS)


def test_every_call() -> None:
    if go_toolchain.installed() is None:
        pytest.skip("no Go here: `make verify-gates` installs it, and tests the Go client")
    try:
        go_toolchain.run("mod", "download", folder=MODULE)
    except GoError as error:
        pytest.skip(str(error))
    name = "TestEveryCallOfAServer"
    assert name in go_test("./queuegate", "-run", f"^{name}$")
