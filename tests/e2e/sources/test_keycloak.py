"""What the resolver finds in a real Keycloak, and what the fake has to be like."""

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner

from queuegate_server.cli.main import command_group
from queuegate_server.cli.users_from import DIRECTORY
from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from tests.e2e.sources import realms
from tests.e2e.sources.conftest import Build, served
from tests.integration.ldap.who_can import SEED, compare, policy_of
from tests.support.change_sink import Sink, following
from tests.support.maven import BUILD_SECONDS
from tests.support.resolvers import lookup_failure
from tests.support.servers.keycloak import Keycloak

pytestmark = [pytest.mark.usefixtures("no_task_left"), pytest.mark.timeout(2 * BUILD_SECONDS)]

USERS, GROUPS = 40, 12
MANY = 60


@pytest.fixture(scope="module")
def corp(keycloak: Keycloak) -> Keycloak:
    """A realm with names that occur twice, that contain slashes, and many groups of one user."""
    same = [realms.group(f"team{number:02}", realms.group("admins")) for number in range(MANY)]
    keycloak.add_realm(
        realms.realm(
            "corp",
            [
                realms.group("eng", realms.group("backend", realms.group("db"))),
                realms.group("sales", realms.group("backend")),
                realms.group("eng/backend"),
                realms.group("ops"),
                realms.group("x~", realms.group("mid", realms.group("leaf")), realms.group("low")),
                *same,
            ],
            [
                realms.user("alice", "/eng/backend/db", "/ops"),
                realms.user("carol", "/sales/backend"),
                realms.user("bob", "/ops", enabled=False),
                realms.user("dave", email="dave@example.com", emailVerified=True),
                realms.user("eve", email="eve@example.com"),
                realms.user("many", *(f"/team{number:02}/admins" for number in range(MANY))),
                realms.user("mallory"),
                realms.user("trudy", "/x~"),
                realms.user("low", "/x~/low"),
                realms.user("deep", "/x~/mid/leaf"),
            ],
        )
    )
    # An import takes a slash for a separator, so the administrator adds this member.
    users = keycloak.admin("GET", "/admin/realms/corp/users?username=mallory&exact=true")
    groups = keycloak.admin("GET", "/admin/realms/corp/groups?search=eng/backend&exact=true")
    path = f"/admin/realms/corp/users/{users[0]['id']}/groups/{groups[0]['id']}"
    keycloak.admin("PUT", path)
    return keycloak


@pytest.fixture
def given(corp: Keycloak, ca: trustme.CA, tmp_path: Path) -> dict[str, Any]:
    return realms.settings(tmp_path, corp, ca, "corp")


@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        ({}, {"/eng/backend/db", "/ops"}),
        ({"parents": True}, {"/eng/backend/db", "/eng/backend", "/eng", "/ops"}),
        ({"group_name": "name"}, {"db", "ops"}),
    ],
)
async def test_groups(resolver: Build, settings: dict[str, Any], groups: set[str]) -> None:
    outcome = await (await resolver(**settings)).resolve("alice")
    assert isinstance(outcome, KnownUser)
    assert set(outcome.groups) == groups


async def test_pages(resolver: Build) -> None:
    """All these groups have the same name."""
    outcome = await (await resolver(page_size=10)).resolve("many")
    assert isinstance(outcome, KnownUser)
    assert set(outcome.groups) == {f"/team{number:02}/admins" for number in range(MANY)}


async def test_faults(resolver: Build, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong secret of the client")
    wrong.chmod(0o600)
    for settings, detail in (
        ({"client_id": "only-query-users"}, "view-users role of realm-management, because"),
        (
            {"client_id": "only-query-groups"},
            "user: HTTP 403 Forbidden (403) (grant the client the",
        ),
        ({"client_id": "only-query-groups"}, "the view-users role of realm-management"),
        ({"client_id": "narrow"}, "leave Full scope allowed on"),
        ({"client_secret_file": wrong}, "unauthorized_client"),
        ({"realm": "nowhere"}, "Realm does not exist"),
        ({"client_id": "nobody"}, "invalid_client"),
    ):
        failure = await lookup_failure(await resolver(**settings), "alice")
        assert detail in failure
        assert "wrong secret" not in failure


@pytest.mark.parametrize("client", [realms.CLIENT, "scoped"])
async def test_view_users_is_enough(resolver: Build, client: str) -> None:
    """It includes query-groups, also in a scope."""
    assert realms.RIGHTS == ("view-users",)
    asked = await resolver(client_id=client, group_name="name")
    assert await asked.resolve("alice") == KnownUser(("db", "ops"))
    listing = MemberListing(["db"])
    await asked.members(listing)
    assert dict(listing.groups["db"].users) == {"alice": ()}


async def test_a_tilde_at_the_end_of_a_name(resolver: Build) -> None:
    """Keycloak writes a slash in a name as `~/`, if it is set up to do so."""
    assert await (await resolver()).resolve("trudy") == KnownUser(("/x~",))
    for settings in ({}, {"parents": True}, {"group_name": "name", "parents": True}):
        asked = await resolver(**settings)
        for user, inside in (("low", "low"), ("deep", "mid")):
            failure = await lookup_failure(asked, user)
            assert f"the name of the group above '{inside}' ends with '~'" in failure
    assert await (await resolver(group_name="name")).resolve("deep") == KnownUser(("leaf",))


async def test_names(resolver: Build) -> None:
    by_name = await resolver(group_name="name")
    assert "several groups have the name 'backend'" in await lookup_failure(by_name, "carol")
    assert await by_name.resolve("mallory") == KnownUser(("eng/backend",))
    assert "slash" in await lookup_failure(await resolver(), "mallory")
    by_email = await resolver(user_name="email", user_suffix="@example.com")
    assert await by_email.resolve("dave") == KnownUser(())
    assert isinstance(await by_email.resolve("eve"), NoSuchUser)  # not verified


@pytest.fixture
def named(corp: Keycloak) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A realm whose users have an attribute. The function changes the realm's user profile."""
    users = [
        realms.user(name, "/ops", attributes={"unixName": names})
        for name, names in (
            ("ann", ["al", "ally"]),
            ("ben", ["AL"]),
            ("cid", ["same"]),
            ("dan", ["same"]),
            ("eve", ["a b:c"]),
            ("fay", ["x\\y"]),
        )
    ]
    realm = realms.realm(
        "named",
        [realms.group("ops")],
        [*users, realms.user("gus", "/ops")],
        (*realms.RIGHTS, "view-events"),
    )
    corp.add_realm(realm | {"adminEventsEnabled": True})
    profile = corp.admin("GET", "/admin/realms/named/users/profile")

    def change(more: Mapping[str, Any]) -> None:
        attributes = [*profile["attributes"], *more.get("attributes", ())]
        body = {**profile, **more, "attributes": attributes}
        corp.admin("PUT", "/admin/realms/named/users/profile", body)

    yield change
    corp.admin("DELETE", "/admin/realms/named")


def declared(**permissions: list[str]) -> Mapping[str, Any]:
    attribute = {"name": "unixName", "multivalued": True, "permissions": permissions}
    return {"attributes": [attribute]}


async def test_users_by_attribute(
    resolver: Build, named: Callable[[Mapping[str, Any]], None], corp: Keycloak
) -> None:
    settings = {"realm": "named", "user_name": "attribute", "user_attribute": "unixName"}
    for profile, detail in (
        ({}, "does not show"),
        (declared(), "does not show"),
        (declared(view=["user"], edit=["user"]), "users may edit"),
        ({"unmanagedAttributePolicy": "ENABLED"}, "users may edit"),
        ({"unmanagedAttributePolicy": "ADMIN_VIEW"}, ""),
        ({"unmanagedAttributePolicy": "ADMIN_EDIT"}, ""),
        (declared(view=["admin"]), ""),
        (declared(view=["admin"], edit=["admin"]), ""),
    ):
        named(profile)
        outcome = await (await resolver(**settings)).resolve("al")
        if detail:
            assert isinstance(outcome, LookupFailure), profile
            assert detail in outcome.detail
        else:
            assert outcome == KnownUser(("/ops",)), profile
    asked = await resolver(**settings, changes="admin_events", changes_interval=0.2)
    for name in ("ally", "AL", "a b:c"):
        assert await asked.resolve(name) == KnownUser(("/ops",))
    for name in ("ann", "Ally", "all", "x\\y", "a b:c username:ann", "b:c", 'x" username:"ann'):
        assert isinstance(await asked.resolve(name), NoSuchUser), name
    folding = await resolver(**settings, user_match="casefold")
    for asks, name in ((asked, "same"), (folding, "al")):
        assert "several users" in await lookup_failure(asks, name)
    listing = MemberListing(["/ops"])
    await asked.members(listing)
    names = {"al", "ally", "AL", "same", "a b:c"}
    assert set(listing.groups["/ops"].users) == names
    assert set(await asked.all_users(100)) == names
    sink = Sink()
    async with following(asked, sink):
        [user] = corp.admin("GET", "/admin/realms/named/users?username=ann&exact=true")
        corp.admin("PUT", f"/admin/realms/named/users/{user['id']}", {**user, "enabled": False})
        await sink.until("al", "ally")


async def test_members(resolver: Build) -> None:
    listing = MemberListing(["/ops", "/eng/backend", "/eng", "/nowhere"])
    await (await resolver(parents=True, page_size=10)).members(listing)
    assert {name: dict(group.users) for name, group in listing.groups.items()} == {
        "/ops": {"alice": ()},
        "/eng/backend": {"alice": ("/eng/backend/db",)},
        "/eng": {"alice": ("/eng/backend", "/eng/backend/db")},
        "/nowhere": {},
    }
    assert not any(group.missing for group in listing.groups.values())


async def test_all_users(resolver: Build) -> None:
    names = await (await resolver(page_size=10)).all_users(1000)
    assert set(names) == {
        *("alice", "carol", "dave", "eve", "many", "mallory", "trudy", "low", "deep")
    }


def test_who_can_equals_checking_everybody(
    keycloak: Keycloak, ca: trustme.CA, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    # Half of the groups are inside others.
    halves = GROUPS // 2
    paths = [f"/g{number}" for number in range(halves)]
    paths += [f"/g{number - halves}/g{number}" for number in range(halves, GROUPS)]
    keycloak.add_realm(
        realms.realm(
            "people",
            [
                realms.group(f"g{number}", realms.group(f"g{number + halves}"))
                for number in range(halves)
            ],
            [realms.user(f"u{number}", *rng.sample(paths, 2)) for number in range(USERS)],
        )
    )
    policy, queues = policy_of(USERS, GROUPS, 14, rng)
    settings = realms.settings(tmp_path, keycloak, ca, "people")
    names = {"group_name": "name", "parents": True}
    with served(tmp_path, policy, type="keycloak", **settings, **names) as client:
        found, _ = compare(client, USERS, queues)
    assert found > 100
    # The same people are found for a change that lets everybody in.
    new = tmp_path / "new.yaml"
    new.write_text(policy.replace("adminacl: u0", 'adminacl: "*"'))
    command = ["diff", "--people", "--config", str(tmp_path / "queuegate.yaml")]
    command += ["--users-from", DIRECTORY, str(tmp_path / "queues.yaml"), str(new)]
    done = CliRunner().invoke(command_group(), command)
    assert done.exit_code == 1, done.output
    assert f"{USERS} users" in done.output or "everyone" in done.output, done.output
