"""A realm of Keycloak behind a fake API, and resolvers for it that are closed at the end."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.identity.resolvers.keycloak.options import KeycloakOptions
from queuegate_server.identity.resolvers.keycloak.resolver import KeycloakResolver
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.keycloak import CLIENT, SECRET, FakeRealm, User
from tests.support.fakes.rest_api import RestApi, running_api

Build = Callable[..., Awaitable[KeycloakResolver]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def ca_file(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(file))
    return file


@pytest.fixture
def realm() -> FakeRealm:
    """alice is in a group at the third level and another one; bob's account is disabled."""
    realm = FakeRealm()
    realm.join("alice", ("eng", "backend", "db"), ("ops",))
    realm.join("carol", ("sales", "backend"))
    realm.users["bob"] = User(enabled=False)
    realm.users["dave"] = User(email="dave@example.com")
    return realm


@pytest.fixture
def api(realm: FakeRealm, ca: trustme.CA) -> Iterator[RestApi]:
    with running_api(realm.answer, ca) as running:
        yield running


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def options(api: RestApi, ca_file: Path, secret_file: Path) -> Callable[..., KeycloakOptions]:
    """Build options for the fake; arguments override them."""

    def build(**more: Any) -> KeycloakOptions:
        given = {
            "url": api.url,
            "ca_file": ca_file,
            "realm": "corp",
            "client_id": CLIENT,
            "client_secret_file": secret_file,
            # A busy machine must not decide the outcome.
            "connect_timeout": 30,
            "request_timeout": 30,
            "lookup_timeout": 60,
        }
        return KeycloakOptions.model_validate(given | more)

    return build


@pytest.fixture
async def resolver(
    options: Callable[..., KeycloakOptions], clock: ManualClock
) -> AsyncIterator[Build]:
    """Build and open resolvers, whose clock stands still; they are closed at the end."""
    opened: list[KeycloakResolver] = []

    async def build(**more: Any) -> KeycloakResolver:
        built = KeycloakResolver(options(**more), clock)
        await built.open()
        opened.append(built)
        return built

    yield build
    for built in opened:
        await built.close()
