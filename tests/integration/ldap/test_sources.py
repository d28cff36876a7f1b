"""Every way to find users and groups, against a real slapd."""

from typing import Any

import pytest

from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from tests.integration.ldap.conftest import Build
from tests.support.resolvers import lookup_failure
from tests.support.rows import rows
from tests.support.servers.ldap_entries import STRANGE, entry, person, posix_group
from tests.support.servers.slapd import POSIX, SUFFIX, Slapd

MEMBER_OF = {"groups_from": "member_of"}
UNIQUE = {
    "group_filter": "(objectClass=groupOfUniqueNames)",
    "member_attribute": "uniqueMember",
}
UIDS = {
    "groups_from": "member_uid",
    "group_base": POSIX,
    "group_filter": "(objectClass=posixGroup)",
    "member_attribute": "memberUid",
}
GID = {"primary_group": "gid_number"}


@pytest.mark.parametrize(
    ("user", "given", "groups"),
    [
        ("alice", MEMBER_OF, {"analytics", "Ops"}),
        ("bob", MEMBER_OF, {"analytics"}),
        ("bob", {**MEMBER_OF, "group_base": None}, {"analytics", "outside"}),
        ("bob", {**MEMBER_OF, "group_base": SUFFIX}, {"analytics", "outside"}),
        ("alice", {}, {"analytics", "Ops"}),
        ("alice", {"name_case": "lower"}, {"analytics", "ops"}),
        ("bob", {}, {"analytics"}),
        ("carol", {}, {"level1"}),
        ("alice", UNIQUE, {"unique"}),
        ("bob", UNIQUE, set()),
        ("alice", {"preset": "389ds"}, {"analytics", "Ops", "unique"}),
        ("bob", {"preset": "389ds", "nested": "walk"}, {"analytics"}),
        ("alice", UIDS, {"devs", "wheel"}),
        ("carol", UIDS, set()),
        ("dave", {}, {*STRANGE, "two"}),
        ("dave", MEMBER_OF, {*STRANGE, "two"}),
        ("dave", {**MEMBER_OF, "group_name_from": "rdn"}, {*STRANGE, "two"}),
        ("dave", {**MEMBER_OF, "group_name_attribute": "ou"}, {"b"}),
        ("o'neil (jr)*", {}, set()),
    ],
)
async def test_groups_of(
    resolver: Build, directory: Slapd, user: str, given: dict[str, Any], groups: set[str]
) -> None:
    opened = await resolver(directory, **given)
    outcome = await opened.resolve(user)
    assert isinstance(outcome, KnownUser), outcome
    assert len(set(outcome.groups)) == len(outcome.groups)
    assert set(outcome.groups) == groups


@pytest.mark.parametrize(
    ("user", "given", "groups"),
    [
        # gidNumber 500 is staff, which lists no members; no group has 599, which is used as it is.
        ("alice", {**UIDS, **GID}, ("staff", "devs", "wheel")),
        ("bob", {**UIDS, **GID}, ("devs",)),
        ("carol", {**UIDS, **GID}, ("599",)),
        ("bob", {"primary_group": "user_name"}, ("bob", "analytics")),
        ("bob", {**GID, "group_base": SUFFIX}, ("devs", "analytics", "outside")),
    ],
)
async def test_primary_group_comes_first(
    resolver: Build, directory: Slapd, user: str, given: dict[str, Any], groups: tuple[str, ...]
) -> None:
    outcome = await (await resolver(directory, **given)).resolve(user)
    assert isinstance(outcome, KnownUser), outcome
    assert outcome.groups[0] == groups[0]
    assert set(outcome.groups) == set(groups)


@pytest.mark.parametrize("groups_from", ["member_of", "member_dn"])
@pytest.mark.parametrize(("depth", "last"), [(1, 2), (2, 3), (5, 6), (50, 7)])
async def test_nested_groups_end_at_the_depth_and_at_cycles(
    resolver: Build,
    directory: Slapd,
    caplog: pytest.LogCaptureFixture,
    groups_from: str,
    depth: int,
    last: int,
) -> None:
    opened = await resolver(directory, groups_from=groups_from, nested="walk", nested_depth=depth)
    outcome = await opened.resolve("carol")
    assert isinstance(outcome, KnownUser), outcome
    assert outcome.groups == tuple(f"level{n}" for n in range(1, last + 1))
    assert opened.statistics.depth_reached == (depth < 6)
    warning = "raise nested_depth for the resolver with user_base ou=people"
    assert (warning in caplog.text) == (depth < 6)
    # One search a level, the direct groups apart; the last one finds nothing new.
    steps = opened.statistics.steps[directory.url, "nested search"]
    assert steps.succeeded == min(depth, 7)


async def test_many_groups_in_one_level_are_few_searches(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory, nested="walk")
    outcome = await opened.resolve("dave")
    assert isinstance(outcome, KnownUser)
    assert opened.statistics.steps[directory.url, "nested search"].succeeded == 1


@pytest.mark.parametrize("given", [MEMBER_OF, {}, UIDS])
@pytest.mark.parametrize("user", ["nobody", "alic", "*", "al*", "*)(uid=*", "alice)(uid=alice"])
async def test_no_such_user(
    resolver: Build, directory: Slapd, given: dict[str, Any], user: str
) -> None:
    assert isinstance(await (await resolver(directory, **given)).resolve(user), NoSuchUser)


@pytest.mark.parametrize("user", ["ALICE", " alice", "alice ", "\uff41lice", "alice\u00a0"])
async def test_another_spelling_is_another_user(
    resolver: Build, directory: Slapd, user: str
) -> None:
    exact = await resolver(directory)
    outcome = await exact.resolve(user)
    assert isinstance(outcome, NoSuchUser)
    assert "spells the name differently" in outcome.detail
    assert exact.statistics.other_spelling == 1


async def test_casefold_ignores_case_only(resolver: Build, directory: Slapd) -> None:
    folding = await resolver(directory, user_match="casefold")
    assert await folding.resolve("ALICE") == await folding.resolve("alice")
    assert isinstance(await folding.resolve("\uff41lice"), NoSuchUser)


async def test_two_entries_of_one_name_are_a_failure(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory, user_base=SUFFIX)
    assert "2 entries match the user" in await lookup_failure(opened, "twin")
    assert opened.statistics.ambiguous == 1
    assert isinstance(await (await resolver(directory)).resolve("twin"), KnownUser)


async def test_two_entries_of_one_name_in_units_of_similar_names(
    resolver: Build, own_directory: Slapd
) -> None:
    units = [f"ou=groß,{SUFFIX}", f"ou=gross,{SUFFIX}"]
    for unit in units:
        own_directory.add(entry(unit, ("objectClass", "organizationalUnit")))
        own_directory.add(person("eve", where=unit))
    opened = await resolver(own_directory, user_base=units)
    assert "2 entries match the user" in await lookup_failure(opened, "eve")


async def test_filter_that_matches_too_many_entries_is_a_failure(
    resolver: Build, directory: Slapd
) -> None:
    opened = await resolver(directory, user_filter="(|(uid={user})(objectClass=person))")
    assert "narrow user_base or user_filter" in await lookup_failure(opened, "bob")
    assert opened.statistics.ambiguous == 1


async def test_two_groups_of_one_primary_number_are_a_failure(
    resolver: Build, own_directory: Slapd
) -> None:
    own_directory.add(posix_group("staff2", 500))
    opened = await resolver(own_directory, **MEMBER_OF, group_base=SUFFIX, **GID)
    assert "give this number to only one group" in await lookup_failure(opened, "alice")


@rows
async def test_ways_to_find_a_user(
    resolver: Build, directory: Slapd, given: dict[str, Any]
) -> None:
    outcome = await (await resolver(directory, **given)).resolve("bob")
    assert outcome == KnownUser(("analytics",))


async def test_in_chain_is_refused_where_it_finds_nothing(
    resolver: Build, directory: Slapd
) -> None:
    failure = await lookup_failure(await resolver(directory, nested="in_chain"), "carol")
    assert "not Active Directory" in failure


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"user_base": "ou=nowhere,dc=lab,dc=test"}, "does not exist or is not visible"),
        ({"group_base": "ou=nowhere,dc=lab,dc=test"}, "does not exist or is not visible"),
        ({"user_base": "ou=hidden,dc=lab,dc=test"}, "does not exist or is not visible"),
    ],
)
async def test_a_base_that_is_not_there_is_not_a_missing_user(
    resolver: Build, directory: Slapd, given: dict[str, Any], detail: str
) -> None:
    assert detail in await lookup_failure(await resolver(directory, **given), "alice")


@pytest.mark.parametrize("most", [1, 2])
async def test_more_groups_than_allowed_are_a_failure(
    resolver: Build, directory: Slapd, most: int
) -> None:
    for given in (MEMBER_OF, {}):
        opened = await resolver(directory, max_groups=most, **given)
        outcome = await opened.resolve("alice")
        assert isinstance(outcome, KnownUser if most == 2 else LookupFailure), (given, outcome)


async def test_ways_to_encrypt(resolver: Build, directory: Slapd) -> None:
    for url in (directory.url, directory.tls_url):
        assert await (await resolver(url)).resolve("bob") == KnownUser(("analytics",))
    plain = await resolver(directory, start_tls=False, allow_plaintext_bind=True)
    assert await plain.resolve("bob") == KnownUser(("analytics",))
