"""A real Keycloak that all tests here share, and resolvers that ask a real 389 Directory Server."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.resolver import LdapResolver
from tests.support.servers import dirsrv
from tests.support.servers.dirsrv import Dirsrv
from tests.support.servers.keycloak import Keycloak, running_keycloak


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def keycloak(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    with running_keycloak(tmp_path_factory.mktemp("keycloak"), ca) as server:
        yield server


@pytest.fixture
async def ldap_resolver(
    tmp_path: Path,
) -> AsyncIterator[Callable[..., Awaitable[LdapResolver]]]:
    """Build and open resolvers that follow a server; they are closed at the end."""
    opened: list[LdapResolver] = []

    async def build(server: Dirsrv, **more: Any) -> LdapResolver:
        options = dirsrv.settings(tmp_path, server) | more
        built = LdapResolver(LdapOptions.model_validate(options))
        await built.open()
        opened.append(built)
        return built

    yield build
    for built in opened:
        await built.close()
