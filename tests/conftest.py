"""For every test: an environment without our settings, and bounded random cases."""

import logging
import os
from collections.abc import Iterator

import hypothesis
import pytest

from tests.support.servers import queuegate_server

pytest_plugins = ["tests.support.fixtures"]

hypothesis.settings.register_profile(
    "queuegate",
    # Two shared cores: a slow example is no finding.
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("queuegate")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that start servers; the short ones then keep all processes busy."""
    items.sort(key=lambda item: item.nodeid.startswith("tests/unit/"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--transport",
        choices=("grpcio", "auto"),
        help="what servers serve over where a test does not say (auto: native where it can)",
    )


@pytest.fixture(autouse=True, scope="session")
def _transport(request: pytest.FixtureRequest) -> Iterator[None]:
    with queuegate_server.over(request.config.getoption("transport")):
        yield


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """Restore what `queuegate` sets for its process when it decides by files."""
    yield
    for name in ("queuegate_server", "queuegate_server.identity"):
        logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(name).handlers = []


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the developer's own settings out of the tests."""
    for name in [name for name in os.environ if name.startswith("QUEUEGATE_")]:
        monkeypatch.delenv(name)
