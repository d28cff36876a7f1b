"""For every test: an environment that does not depend on the machine, and bounded random cases."""

import logging
import logging.handlers
import os
from collections.abc import Iterator

import hypothesis
import pytest

from queuegate_server.observe.logs import StderrHandler
from tests.support.servers import queuegate_server

pytest_plugins = ["tests.support.fixtures"]

hypothesis.settings.register_profile(
    "queuegate",
    # Two shared cores: a slow example is no finding.
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("queuegate")


# Of the shell, the terminal and the `make` that run the tests, and of libraries whose settings are
# those of a test.
for _name in [*os.environ]:
    if _name.startswith(("QUEUEGATE_", "LDAP", "KRB5", "GRPC_")) or _name in {
        *("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"),
        *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"),
        *("CDPATH", "BASH_ENV", "ENV", "POSIXLY_CORRECT", "PYTHONWARNINGS"),
    }:
        del os.environ[_name]
# A proxy is for packages from elsewhere: all servers of the tests are on this machine.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "localhost,127.0.0.1,::1,[::1]"


# The files that take longest.
_FIRST = (
    *("tests/integration/sync/", "tests/integration/fleet/", "tests/integration/policystore/"),
    *("tests/integration/security/", "tests/contract/test_client_server.py"),
)
_LAST = "tests/unit/"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest; the short ones then keep all processes busy."""
    items.sort(key=lambda item: item.nodeid.startswith(_LAST) - item.nodeid.startswith(_FIRST))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--transport",
        choices=("grpcio", "auto"),
        help="what servers serve over where a test does not say (auto: native where it can)",
    )


@pytest.fixture(autouse=True, scope="session")
def _servers(request: pytest.FixtureRequest) -> Iterator[None]:
    with (
        queuegate_server.over(request.config.getoption("transport")),
        queuegate_server.fork_server(),
    ):
        yield


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """Restore what commands set for their process: the server's, and `queuegate`'s with files."""
    yield
    root = logging.getLogger()
    ours = (logging.handlers.MemoryHandler, StderrHandler)
    root.handlers = [each for each in root.handlers if not isinstance(each, ours)]
    for name in ("queuegate_server", "queuegate_server.identity"):
        logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(name).handlers = []
