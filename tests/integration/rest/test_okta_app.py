"""A service app of Okta authenticates with its private key. No organization was asked."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding

from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.resolvers.okta.okta_options import OktaOptions
from tests.integration.rest.conftest import Build
from tests.integration.rest.test_okta import ALICE, api, given, kind, organization, token_file
from tests.support.atomic_files import replace
from tests.support.fakes.assertions import key_in, pem, verified
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.okta import ACCESS_TOKEN, CLIENT, FakeOrganization
from tests.support.fakes.rest_api import Reply, RestApi
from tests.support.resolvers import lookup_failure

pytestmark = pytest.mark.usefixtures("no_task_left")

__all__ = ["api", "given", "kind", "organization", "token_file"]

GROUPS = KnownUser(("Everyone", "data", "gpu"))


class Application:
    """A service app in Okta, with the keys that are registered for it."""

    def __init__(self, organization: FakeOrganization, file: Path) -> None:
        self.file = file
        self.key = key_in(file)
        self.key_id: str | None = None
        self.settings = {"token_file": None, "client_id": CLIENT, "private_key_file": file}
        self.token_url = f"{organization.url}/oauth2/v1/token"
        self.seen: set[str] = set()

    def accepts(self, assertion: str) -> bool:
        try:
            header, claims = verified(assertion, self.key, padding.PKCS1v15())
        except InvalidSignature:
            return False
        expected = {"alg": "RS256", "typ": "JWT"} | ({"kid": self.key_id} if self.key_id else {})
        assert claims["iss"] == claims["sub"] == CLIENT
        assert claims["aud"] == self.token_url
        assert claims["iat"] <= time.time() <= claims["exp"] <= time.time() + 3600
        assert claims["jti"] not in self.seen
        self.seen.add(claims["jti"])
        return header == expected


@pytest.fixture
def app(api: RestApi, organization: FakeOrganization, tmp_path: Path) -> Application:
    assert api.url == organization.url
    app = Application(organization, tmp_path / "key.pem")
    organization.accepts = app.accepts
    return app


async def test_groups(resolver: Build, app: Application, api: RestApi) -> None:
    asked = await resolver(**app.settings)
    assert await asked.resolve(ALICE) == GROUPS
    first, *others = api.requests
    assert first.form["grant_type"] == "client_credentials"
    assert first.form["scope"] == "okta.users.read okta.groups.read"
    assert {each.headers["Authorization"] for each in others} == {f"Bearer {ACCESS_TOKEN}"}


async def test_keys_are_read_for_each_token(
    resolver: Build, app: Application, clock: ManualClock
) -> None:
    app.key_id = "key-1"
    asked = await resolver(**app.settings, key_id="key-1")
    assert await asked.resolve(ALICE) == GROUPS
    clock.advance(4000)
    app.key = key_in(app.file)
    assert await asked.resolve(ALICE) == GROUPS
    clock.advance(4000)
    replace(app.file, "no key")
    failure = await lookup_failure(asked, ALICE)
    assert "private_key_file cannot be used: the file does not contain" in failure


async def test_a_rejected_key_is_not_used_again_until_it_changes(
    resolver: Build, app: Application, api: RestApi
) -> None:
    content = app.file.read_text()
    key_in(app.file)
    asked = await resolver(**app.settings)
    for _ in range(3):
        failure = await lookup_failure(asked, ALICE)
        assert "invalid_client: The client_assertion JWT kid is invalid" in failure
    assert len(api.requests) == 1
    replace(app.file, content)
    assert await asked.resolve(ALICE) == GROUPS


async def test_a_token_that_is_revoked(resolver: Build, app: Application, api: RestApi) -> None:
    asked = await resolver(**app.settings)
    assert await asked.resolve(ALICE) == GROUPS
    replies = iter([Reply(401, {"errorCode": "E0000011"})])
    api.fault = lambda request: next(replies, None) if "/users/" in request.path else None
    assert await asked.resolve(ALICE) == GROUPS
    assert api.paths().count("/oauth2/v1/token") == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"requires_dpop": True}, "turn off Require Demonstrating Proof of Possession"),
        ({"grants": frozenset({"okta.users.read"})}, "grant the client the scopes"),
    ],
    ids=["DPoP", "scopes"],
)
async def test_applications_that_are_not_set_up(
    resolver: Build,
    app: Application,
    api: RestApi,
    organization: FakeOrganization,
    change: dict[str, Any],
    message: str,
) -> None:
    for name, value in change.items():
        setattr(organization, name, value)
    asked = await resolver(**app.settings)
    for _ in range(3):
        assert message in await lookup_failure(asked, ALICE)
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"token_file": None, "private_key_file": None, "client_id": None}, "set either"),
        ({"client_id": None}, "set both or neither"),
        ({"key_id": "a key"}, "is not an ID"),
        ({"client_id": ""}, "is not an ID"),
        ({"private_key_file": __file__}, "does not contain a private key"),
    ],
    ids=str,
)
def test_settings_that_cannot_work(
    options: Callable[..., OktaOptions], app: Application, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        options(**({**app.settings, "key_id": "k"} | settings))


def test_settings_that_do_not_fit_a_token(
    options: Callable[..., OktaOptions], app: Application, token_file: Path
) -> None:
    assert app.settings["private_key_file"]
    for more, message in (
        (app.settings | {"token_file": token_file}, "set either"),
        ({"client_id": CLIENT}, "set both or neither"),
        ({"key_id": "k"}, "key_id needs private_key_file"),
    ):
        with pytest.raises(ValueError, match=message):
            options(**more)


def test_a_key_of_another_kind(options: Callable[..., OktaOptions], app: Application) -> None:
    replace(app.file, pem(ec.generate_private_key(ec.SECP256R1())))
    with pytest.raises(ValueError, match="not an RSA key"):
        options(**app.settings)
