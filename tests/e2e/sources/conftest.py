"""A real Keycloak that all tests here share."""

from collections.abc import Iterator

import pytest
import trustme

from tests.support.servers.keycloak import Keycloak, running_keycloak


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def keycloak(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    with running_keycloak(tmp_path_factory.mktemp("keycloak"), ca) as server:
        yield server
