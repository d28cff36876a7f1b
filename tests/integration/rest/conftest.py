"""Resolvers for a fake API, which are closed at the end.

The API is a realm of Keycloak; tests of another provider have their own `api`, `kind` and `given`.
"""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.identity.resolvers.keycloak.keycloak_resolver import KeycloakResolver
from queuegate_server.identity.rest.rest_resolver import RestResolver
from tests.support.constants import of_provider, take_constants
from tests.support.fakes import rest_api
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.keycloak import SECRET, FakeRealm, User, settings
from tests.support.fakes.rest_api import PATIENT, RestApi, running_api
from tests.support.resolvers import Open

Build = Callable[..., Awaitable[RestResolver[Any]]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def ca_file(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(rest_api.ca_file(tmp_path_factory.mktemp("ca"), ca))


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
    return Path(rest_api.secret_file(tmp_path, f"{SECRET}\n"))


@pytest.fixture
def kind() -> Any:
    """The type of the resolvers."""
    return KeycloakResolver


@pytest.fixture
def given(api: RestApi, secret_file: Path) -> dict[str, Any]:
    """The settings without which no resolver can ask the fake."""
    return {**settings(api.url), "client_secret_file": secret_file}


@pytest.fixture
def options(
    kind: Any, given: dict[str, Any], ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Build options for the fake; arguments override them, and change constants."""
    constants = of_provider(kind.__name__.removesuffix("Resolver").lower())

    def build(**more: Any) -> Any:
        # A busy machine must not decide the outcome.
        asked = {"ca_file": ca_file, **PATIENT, **given, **more}
        return kind.Options.model_validate(take_constants(asked, constants, monkeypatch))

    return build


@pytest.fixture
def resolver(kind: Any, options: Callable[..., Any], clock: ManualClock, opened: Open) -> Build:
    """Build and open resolvers, whose clock stands still; they are closed at the end."""

    async def build(**more: Any) -> RestResolver[Any]:
        built: RestResolver[Any] = kind(options(**more), clock)
        return await opened(built)

    return build
