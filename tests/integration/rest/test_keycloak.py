"""Users, groups, names and members of a realm."""

from typing import Any

import pytest

from queuegate_server.identity.members import CannotListUsers, MemberListing
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from tests.integration.rest.conftest import Build
from tests.support.fakes.keycloak import FakeRealm, User
from tests.support.fakes.rest_api import Reply, Request, RestApi
from tests.support.resolvers import lookup_failure
from tests.support.rows import rows

pytestmark = pytest.mark.usefixtures("no_task_left")


@rows
async def test_groups(
    resolver: Build, settings: dict[str, object], groups: tuple[str, ...]
) -> None:
    asked = await resolver(**settings)
    assert await asked.resolve("alice") == KnownUser(groups)


@pytest.mark.parametrize(
    ("user", "detail"),
    [
        ("nobody", "no such user"),
        ("bob", "disabled"),
        ("ALICE", "spells the name differently"),
        ("..", "can have this name"),
        ("a\0b", "can have this name"),
        ("\ud800", "can have this name"),
        ("x" * 257, "can have this name"),
        ("../groups", "no such user"),
        ("alice'#/?&username=alice", "no such user"),
    ],
)
async def test_who_does_not_exist(resolver: Build, user: str, detail: str) -> None:
    outcome = await (await resolver()).resolve(user)
    assert isinstance(outcome, NoSuchUser), outcome
    assert detail in outcome.detail
    assert outcome.is_final == (detail == "disabled")


async def test_names_are_sent_as_one_parameter(resolver: Build, api: RestApi) -> None:
    asked = await resolver()
    name = "a/../b'#%2F&max=9999 é"
    assert isinstance(await asked.resolve(name), NoSuchUser)
    (request,) = (each for each in api.requests if "username" in each.query)
    assert request.path == "/admin/realms/corp/users"
    assert request.query["username"] == name
    assert request.query["max"] == "3"


async def test_many_groups_come_in_pages(resolver: Build, realm: FakeRealm) -> None:
    names = [f"g{number:03}" for number in range(100)]
    realm.join("erin", *((name,) for name in names))
    asked = await resolver(page_size=10)
    assert await asked.resolve("erin") == KnownUser(tuple(f"/{name}" for name in names))
    few = await resolver(page_size=10, max_groups=99)
    assert "more than 99 groups (raise max_groups)" in await lookup_failure(few, "erin")


async def test_a_list_that_changes_while_it_is_read(
    resolver: Build, realm: FakeRealm, api: RestApi
) -> None:
    """With a group removed from the first page, one is in neither page."""
    realm.join("erin", *((f"g{number:03}",) for number in range(30)))

    def leave(request: Request) -> None:
        if request.query.get("first") == "9":
            del realm.groups["g000",]

    api.fault = leave
    asked = await resolver(page_size=10)
    failure = await lookup_failure(asked, "erin", source_works=True)
    assert "changed while it was being read" in failure


async def test_a_user_who_is_deleted_meanwhile(resolver: Build, api: RestApi) -> None:
    api.fault = lambda request: (
        Reply(404, {"error": "User not found"}) if request.path.endswith("/groups") else None
    )
    assert isinstance(await (await resolver()).resolve("alice"), NoSuchUser)


async def test_a_client_that_may_not_see_users(resolver: Build, realm: FakeRealm) -> None:
    """Keycloak shows it no users, rather than an error."""
    realm.shows_users = False
    assert "view-users" in await lookup_failure(await resolver(), "alice")


async def test_a_control_character_in_the_name_of_a_group(
    resolver: Build, realm: FakeRealm
) -> None:
    realm.join("mallory", ("a\nb",))
    failure = await lookup_failure(await resolver(), "mallory")
    assert r"the name '/a\nb' contains control characters" in failure


async def test_a_slash_in_the_name_of_a_group(resolver: Build, realm: FakeRealm) -> None:
    """It must not pass for a group inside another one."""
    realm.join("mallory", ("eng/backend",))
    for settings in ({}, {"group_name": "name", "parents": True}):
        failure = await lookup_failure(await resolver(**settings), "mallory")
        assert "the name 'eng/backend' contains a slash" in failure
    by_name = await resolver(group_name="name")
    assert await by_name.resolve("mallory") == KnownUser(("eng/backend",))
    realm.escapes = True
    asked = await resolver(parents=True)
    assert await asked.resolve("mallory") == KnownUser(("/eng~/backend",))
    listing = MemberListing(["/eng/backend", "/eng~/backend"])
    await asked.members(listing)
    assert [list(group.users) for group in listing.groups.values()] == [["alice"], ["mallory"]]


async def test_a_tilde_at_the_end_of_a_name(resolver: Build, realm: FakeRealm) -> None:
    """Keycloak writes a slash in a name as `~/`."""
    realm.join("mallory", ("x~", "backend"))
    for settings in ({}, {"group_name": "name", "parents": True}):
        failure = await lookup_failure(await resolver(**settings), "mallory")
        assert "the name of the group above 'backend' ends with '~'" in failure
        assert "(rename the group above)" in failure
    realm.join("trudy", ("y~",))
    assert await (await resolver()).resolve("trudy") == KnownUser(("/y~",))
    # Further above, only the groups themselves tell what their names are.
    realm.join("judy", ("x~", "mid", "low"))
    realm.join("jane", ("x", "a/b", "inner", "leaf"))
    for above in ({}, {"parents": True}, {"group_name": "name", "parents": True}):
        failure = await lookup_failure(await resolver(**above), "judy")
        assert "the name of the group above 'mid' ends with '~'" in failure
    assert await (await resolver(group_name="name")).resolve("trudy") == KnownUser(("y~",))
    realm.escapes = True
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"/x/a~/b/inner/leaf"}),
        ({"parents": True}, {"/x/a~/b/inner/leaf", "/x/a~/b/inner", "/x/a~/b", "/x"}),
        ({"group_name": "name"}, {"leaf"}),
        ({"group_name": "name", "parents": True}, {"leaf", "inner", "a/b", "x"}),
    ]
    for more, groups in cases:
        outcome = await (await resolver(**more)).resolve("jane")
        assert isinstance(outcome, KnownUser)
        assert {*outcome.groups} == groups


async def test_names_that_are_not_unique(resolver: Build, realm: FakeRealm) -> None:
    asked = await resolver(group_name="name")
    outcome = await asked.resolve("carol")
    assert isinstance(outcome, LookupFailure)
    assert "several groups have the name 'backend'" in outcome.detail
    assert outcome.source_works
    # A name that was unique is checked again for another group.
    assert await asked.resolve("alice") == KnownUser(("db", "ops"))
    realm.join("mallory", ("sales", "ops"))
    outcome = await asked.resolve("mallory")
    assert isinstance(outcome, LookupFailure)
    # Groups above count as well.
    outcome = await (await resolver(group_name="name", parents=True)).resolve("alice")
    assert isinstance(outcome, LookupFailure)


async def test_users_by_email(resolver: Build, realm: FakeRealm) -> None:
    asked = await resolver(user_name="email", user_suffix="@example.com")
    assert await asked.resolve("dave") == KnownUser(())
    assert isinstance(await asked.resolve("alice"), NoSuchUser)
    realm.users["dave"].verified = False
    assert await asked.resolve("dave") == NoSuchUser("the user's email address is not verified")
    realm.users["eve"] = User(email="dave@example.com")
    assert "several users" in await lookup_failure(asked, "dave")


@pytest.fixture
def named(realm: FakeRealm) -> FakeRealm:
    """A realm whose users have the attribute unixName, except erin."""
    for user, *names in (
        ("alice", "al", "ally"),
        ("bob", "bo"),
        ("carol", "Carl X:1"),
        ("dave", 'd"v', "d\\v"),
    ):
        realm.users[user].attributes = {"unixName": names, "other": ["al"]}
    realm.users["erin"] = User(attributes={"other": ["al"]})
    return realm


ATTRIBUTE = {"user_name": "attribute", "user_attribute": "unixName"}


async def test_users_by_attribute(resolver: Build, named: FakeRealm, api: RestApi) -> None:
    asked = await resolver(**ATTRIBUTE)
    for name in ("al", "ally"):
        assert await asked.resolve(name) == KnownUser(("/eng/backend/db", "/ops"))
    assert await asked.resolve("Carl X:1") == KnownUser(("/sales/backend",))
    for name, detail in (
        ("alice", "no such user"),
        ("AL", "spells the name differently"),
        ("carl x:1", "spells the name differently"),
        ("bo", "disabled"),
        ('d"v', "quotes or backslashes"),
        ("d\\v", "quotes or backslashes"),
        ('x" other:"al', "quotes or backslashes"),
        ("x other:al", "no such user"),
    ):
        outcome = await asked.resolve(name)
        assert isinstance(outcome, NoSuchUser), name
        assert detail in outcome.detail
    assert sum("profile" in request.path for request in api.requests) == 1
    folding = await resolver(**ATTRIBUTE, user_match="casefold")
    assert isinstance(await folding.resolve("AL"), KnownUser)
    suffixed = await resolver(**ATTRIBUTE, user_suffix=":1")
    assert isinstance(await suffixed.resolve("Carl X"), KnownUser)


async def test_an_attribute_that_several_users_share(resolver: Build, named: FakeRealm) -> None:
    asked = await resolver(**ATTRIBUTE)
    folding = await resolver(**ATTRIBUTE, user_match="casefold")
    named.users["mallory"] = User(attributes={"unixName": ["AL", "bo"]})
    assert isinstance(await asked.resolve("al"), KnownUser)
    for resolves, name in ((folding, "al"), (asked, "bo")):
        failure = await lookup_failure(resolves, name)
        assert "several users have this unixName (make it unique" in failure
    for number in range(100):
        named.users[f"m{number}"] = User(attributes={"unixName": ["aL"]})
    assert isinstance(await asked.resolve("al"), LookupFailure)


@rows
async def test_an_attribute_must_be_shown_and_protected(
    resolver: Build, named: FakeRealm, profile: dict[str, object], message: str
) -> None:
    named.profile = profile
    asked = await resolver(**ATTRIBUTE)
    outcome = await asked.resolve("al")
    listing = MemberListing(["/ops"])
    await asked.members(listing)
    if not message:
        assert isinstance(outcome, KnownUser)
        assert list(listing.groups["/ops"].users) == ["al", "ally"]
        return
    assert isinstance(outcome, LookupFailure)
    assert message in outcome.detail
    assert message in listing.groups["/ops"].missing
    with pytest.raises(CannotListUsers, match=message):
        await asked.all_users(100)


async def test_an_attribute_that_an_answer_leaves_out(resolver: Build, api: RestApi) -> None:
    user = {"id": "id-of-alice", "username": "alice", "enabled": True}
    api.fault = lambda request: Reply(200, [user]) if "q" in request.query else None
    assert "does not show the unixName" in await lookup_failure(await resolver(**ATTRIBUTE), "al")


async def test_all_users_by_attribute(resolver: Build, named: FakeRealm) -> None:
    names = await (await resolver(**ATTRIBUTE)).all_users(100)
    assert set(names) == {"al", "ally", "Carl X:1"}


async def test_another_spelling_that_is_accepted(resolver: Build) -> None:
    asked = await resolver(user_match="casefold")
    assert await asked.resolve("ALICE") == KnownUser(("/eng/backend/db", "/ops"))


async def test_members_without_the_right_to_see_groups(resolver: Build, realm: FakeRealm) -> None:
    """Keycloak then finds no groups, which must not pass for groups without members."""
    asked = await resolver()
    assert isinstance(await asked.resolve("nobody"), NoSuchUser)  # users are shown
    realm.shows_users = False
    listing = MemberListing(["/eng/backend/db"])
    await asked.members(listing)
    missing = listing.groups["/eng/backend/db"].missing
    assert missing.startswith("the realm shows the client no users")


async def test_members(resolver: Build) -> None:
    asked = await resolver(page_size=10)
    listing = MemberListing(["/eng", "/eng/backend/db", "/nowhere", "no path", "/ops"])
    await asked.members(listing)
    assert {name: list(group.users) for name, group in listing.groups.items()} == {
        "/eng": [],
        "/eng/backend/db": ["alice"],
        "/nowhere": [],
        "no path": [],
        "/ops": ["alice"],
    }
    assert not any(group.missing for group in listing.groups.values())
    above = MemberListing(["/eng"])
    await (await resolver(parents=True)).members(above)
    assert above.groups["/eng"].users == {"alice": ("/eng/backend", "/eng/backend/db")}
    named = MemberListing(["db", "backend"])
    await (await resolver(group_name="name")).members(named)
    assert list(named.groups["db"].users) == ["alice"]
    assert named.groups["backend"].missing == "several groups have this name"


async def test_all_users(resolver: Build, realm: FakeRealm) -> None:
    for number in range(30):
        realm.users[f"u{number}"] = User()
    asked = await resolver(page_size=10)
    names = await asked.all_users(100)
    assert len(names) == 33
    assert "bob" not in names  # disabled
    with pytest.raises(CannotListUsers, match="more than 20 users"):
        await asked.all_users(20)
