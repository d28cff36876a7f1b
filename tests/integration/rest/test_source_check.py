"""`queuegate-server source-check`: its output for an administrator, for resolvers of all types."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from queuegate_server.cli.source_check import source_check
from queuegate_server.identity.resolver import ChangeSink
from queuegate_server.identity.resolvers.keycloak.keycloak_options import KeycloakOptions
from queuegate_server.identity.resolvers.keycloak.realm import Realm
from tests.integration.rest.conftest import Build
from tests.support.fakes.keycloak import SECRET, TOKEN, FakeRealm
from tests.support.fakes.rest_api import Reply, RestApi
from tests.support.rows import rows


@pytest.fixture
def config(options: Callable[..., KeycloakOptions], tmp_path: Path) -> Path:
    """Settings with a resolver of each type that needs no server of its own."""
    corp: dict[str, Any] = options().model_dump(mode="json", exclude_unset=True)
    file = tmp_path / "queuegate.yaml"
    resolvers = {
        "corp": {"type": "keycloak", **corp},
        "accounts": {"type": "os"},
        "static": {"type": "test"},
        "all": {"type": "chain", "resolvers": ["static", "corp"]},
    }
    file.write_text(yaml.safe_dump({"resolvers": resolvers}))
    return file


def run(config: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(source_check, ["--config", str(config), *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert SECRET not in done.output
    assert TOKEN not in done.output
    return done.exit_code, done.output


def test_every_request_is_shown(config: Path) -> None:
    status, output = run(config, "corp", "alice")
    assert status == 0
    lines = output.splitlines()
    assert lines[0] == "resolver corp (keycloak), user 'alice'"
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["ok", "token"],
        ["ok", "user"],
        ["ok", "groups"],
    ]
    assert lines[4] == "  groups (2): /eng/backend/db, /ops"


def test_whether_changes_can_be_followed(config: Path, realm: FakeRealm) -> None:
    asks = ("--set", "resolvers.corp.changes=admin_events")
    status, output = run(config, *asks, "corp", "alice")
    assert status == 0, output
    assert output.endswith("  changes: can be followed\n")
    realm.records = False
    status, output = run(config, *asks, "corp", "alice")
    assert status == 1
    assert "changes: cannot be followed: the realm does not record admin events" in output


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (KeyError(SECRET), "the resolver failed: KeyError"),
        (None, "the resolver stopped without an error"),
    ],
    ids=["fails", "stops"],
)
def test_a_resolver_that_does_not_follow(
    config: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception | None, message: str
) -> None:
    async def follow(realm: Realm, sink: ChangeSink) -> None:
        if fault is not None:
            raise fault

    monkeypatch.setattr(Realm, "follow", follow)
    asks = ("--set", "resolvers.corp.changes=admin_events")
    status, output = run(config, *asks, "corp", "alice")
    assert status == 1
    assert output.endswith(f"changes: cannot be followed: {message}\n")


def test_a_user_by_attribute(config: Path, realm: FakeRealm) -> None:
    realm.users["alice"].attributes = {"unixName": ["al"]}
    asks: list[str] = []
    for setting in ("user_name=attribute", "user_attribute=unixName"):
        asks += ["--set", f"resolvers.corp.{setting}"]
    status, output = run(config, *asks, "corp", "al")
    assert status == 0, output
    assert "ok    user profile" in output
    assert "groups (2): /eng/backend/db, /ops" in output
    realm.profile = {"unmanagedAttributePolicy": "ENABLED"}
    status, output = run(config, *asks, "corp", "al")
    assert status == 1
    assert "users may edit their own unixName" in output


@rows
def test_a_user_of_a_federation(
    config: Path, realm: FakeRealm, settings: dict[str, str] | None, notes: tuple[str, ...]
) -> None:
    realm.users["alice"].federation = "ldap-1"
    realm.federations = None if settings is None else {"ldap-1": settings}
    status, output = run(config, "corp", "alice")
    assert status == 0, output
    assert "FAIL" not in output
    for note in (*notes, "  note: the user comes from"):
        assert note in output
    assert "federation" not in run(config, "corp", "carol")[1]


async def test_notes_are_about_the_given_user(resolver: Build, realm: FakeRealm) -> None:
    """The note concerns the user of this lookup, not users of other lookups."""
    realm.users["alice"].federation = "ldap-1"
    asked = await resolver()
    for other in ("carol", "nobody", "..", "x" * 257):
        await asked.resolve("alice")
        assert len(await asked.notes("alice")) == 1
        assert await asked.notes(other) == ()
        await asked.resolve(other)
        assert await asked.notes(other) == ()
    await asked.resolve("alice")
    del realm.users["alice"]
    await asked.resolve("alice")
    assert await asked.notes("alice") == ()


def test_an_unknown_user(config: Path) -> None:
    status, output = run(config, "corp", "nobody")
    assert status == 1
    assert "no such user: the provider has no such user" in output


def test_a_fault_comes_with_advice(config: Path, api: RestApi) -> None:
    api.fault = lambda request: (
        Reply(403, {"error": "HTTP 403 Forbidden"}) if request.path.endswith("/users") else None
    )
    status, output = run(config, "corp", "alice")
    assert status == 1
    assert "FAIL  user" in output
    assert (
        "HTTP 403 Forbidden (403)\n        advice: grant the client the view-users role" in output
    )
    assert "lookup failed: user: HTTP 403 Forbidden" in output


def test_a_secret_that_others_may_read(
    config: Path, secret_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret_file.chmod(0o644)
    assert run(config, "corp", "alice")[0] == 0
    assert f"any account on this machine can read or change {secret_file}: remove" in caplog.text


def test_a_lookup_that_takes_too_long(config: Path, api: RestApi) -> None:
    api.fault = lambda _: Reply(hangs=True)
    status, output = run(config, "--set", "resolvers.corp.lookup_timeout=300ms", "corp", "alice")
    assert status == 1
    assert "abandoned, because the lookup took too long" in output
    assert "lookup failed: no answer within 0.3 s (lookup_timeout)" in output


def test_names_in_the_directory_cannot_steer_the_terminal(config: Path, api: RestApi) -> None:
    api.fault = lambda request: (
        Reply(500, {"error": "a\x1b[31mb"}) if request.path.endswith("/users") else None
    )
    status, output = run(config, "corp", "a\x1b[31mb")
    assert status == 1
    assert "\x1b" not in output


@rows
def test_every_type(config: Path, name: str, user: str, status: int, text: str) -> None:
    found, output = run(config, name, user)
    assert found == status, output
    assert text in output


def test_a_chain_with_a_fault(config: Path, api: RestApi) -> None:
    """The user may be in the resolver that fails."""
    api.fault = lambda _: Reply(500, {})
    status, output = run(config, "all", "testuser1")
    assert status == 1
    assert "groups (2)" in output
    assert "lookup failed" in output
