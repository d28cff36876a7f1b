"""Runs what matters on either transport over both."""

from collections.abc import Iterator

import pytest

from tests import running

OVER_BOTH = {
    "test_client_calls",
    "test_columns",
    "test_concurrency",
    "test_contract",
    "test_costly_requests",
    "test_drain",
    "test_fuzz",
    "testoverload",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.module.__name__.rpartition(".")[2]
    if name in OVER_BOTH:
        metafunc.parametrize("over", ("grpcio", "native"), indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def over(request: pytest.FixtureRequest) -> Iterator[None]:
    with running.over(getattr(request, "param", "grpcio")):
        yield
