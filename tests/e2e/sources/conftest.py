"""A real Keycloak and a real domain controller that tests share, and what asks real sources."""

import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from queuegate import Client
from queuegate_server.identity.resolvers.keycloak.keycloak_options import KeycloakOptions
from queuegate_server.identity.resolvers.keycloak.keycloak_resolver import KeycloakResolver
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.support.constants import LDAP, of_provider, take_constants
from tests.support.resolvers import Open
from tests.support.servers import dirsrv, samba, with_constants
from tests.support.servers.dirsrv import Dirsrv
from tests.support.servers.keycloak import Keycloak, running_keycloak
from tests.support.servers.queuegate_server import running_server, server_command
from tests.support.servers.samba import Samba, running_samba

Build = Callable[..., Awaitable[KeycloakResolver]]
BuildLdap = Callable[..., Awaitable[LdapResolver]]
FOR_ENG = "partitions: [{name: default, queues: [{name: root, submitacl: ' eng'}]}]"
"""A policy that lets only the group eng in."""


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def keycloak(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    with running_keycloak(tmp_path_factory.mktemp("keycloak"), ca) as server:
        yield server


@pytest.fixture
def resolver(given: dict[str, Any], opened: Open, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Build and open resolvers that ask a realm. Modules have their own settings `given`."""

    async def build(**more: Any) -> KeycloakResolver:
        # A busy machine must not decide the outcome.
        asked = {"connect_timeout": 60.0} | given | more
        options = take_constants(asked, of_provider("keycloak"), monkeypatch)
        return await opened(KeycloakResolver(KeycloakOptions.model_validate(options)))

    return build


@pytest.fixture
def ldap_resolver(tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> BuildLdap:
    """Build and open resolvers that follow a server."""

    async def build(server: Dirsrv, **more: Any) -> LdapResolver:
        options = dirsrv.settings(tmp_path, server) | more
        return await opened(
            LdapResolver(LdapOptions.model_validate(take_constants(options, LDAP, monkeypatch)))
        )

    return build


@pytest.fixture(scope="session")
def controller(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Samba]:
    """A domain controller, in whose domain each test has its own users and groups."""
    with running_samba(tmp_path_factory.mktemp("samba"), ca) as server:
        yield server


@pytest.fixture
def domain_resolver(
    controller: Samba, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> BuildLdap:
    """Build and open resolvers that ask the domain controller."""

    async def build(*, as_admin: bool = False, **more: Any) -> LdapResolver:
        options = samba.settings(tmp_path, controller, as_admin=as_admin) | more
        return await opened(
            LdapResolver(LdapOptions.model_validate(take_constants(options, LDAP, monkeypatch)))
        )

    return build


@contextmanager
def served(folder: Path, policy: str, **resolver: Any) -> Iterator[Client]:
    """Run a server with a policy and the settings of a resolver."""
    (folder / "queues.yaml").write_text(policy)
    config = {
        "policy": {"path": str(folder / "queues.yaml")},
        "resolvers": {"corp": resolver},
        "partitions": {"default": {"resolver": "corp", "cache": {"positive_ttl": "1h"}}},
        "callers": {"loopback": {"roles": ["check", "read"]}},
    }
    file = folder / "queuegate.yaml"
    file.write_text(yaml.safe_dump(config))
    environment = with_constants.environment(with_constants.PATIENT_CONNECTIONS)
    with (
        running_server("--config", str(file), environment=environment) as server,
        Client(server.address, timeout=600) as client,
    ):
        yield client


def checked(folder: Path, given: dict[str, Any], name: str) -> str:
    """Return what `source-check` prints of a user whom it finds, with settings of `ldap`."""
    config = folder / "checked.yaml"
    config.write_text(yaml.safe_dump({"resolvers": {"corp": given | {"type": "ldap"}}}))
    done = subprocess.run(
        server_command("source-check", "--config", str(config), "corp", name),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
