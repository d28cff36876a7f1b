"""The members of groups: exactly the users whose lookup has the group."""

from collections.abc import Sequence
from typing import Any

import pytest

from queuegate_server.identity.members import ListingLimit, MemberListing
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.integration.ldap.conftest import Build
from tests.support.fakes.active_directory import GIVEN, IN_CHAIN, ROOT, ad_group, ad_user
from tests.support.fakes.filters import Entries
from tests.support.fakes.ldap_server import Attributes, fake_directory
from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import GROUPS, POSIX, SUFFIX, Slapd

USERS = ("alice", "bob", "carol", "dave", "twin", "o'neil (jr)*", "ALICE", "nobody")
NAMES = (
    *("analytics", "Ops", "ops", "unique", "two", "outside", "staff", "devs", "wheel", "ghost"),
    *(f"level{number}" for number in range(1, 8)),
    *entries.STRANGE,
    *("alice", "500", "501", "599", "100"),
)


async def listed(resolver: LdapResolver, names: Sequence[str]) -> MemberListing:
    listing = MemberListing(names)
    await resolver.members(listing)
    return listing


OPTIONS: dict[str, dict[str, Any]] = {
    "member": {},
    "walk": {"nested": "walk"},
    "walk one level": {"nested": "walk", "nested_depth": 1},
    "walk two levels": {"nested": "walk", "nested_depth": 2},
    "unique member": {"preset": "389ds"},
    "memberOf": {"groups_from": "member_of"},
    "memberOf and walk": {"groups_from": "member_of", "nested": "walk"},
    "posix": {"preset": "posix", "group_base": POSIX},
    "gidNumber": {"primary_group": "gid_number", "group_base": SUFFIX},
    "gidNumber without a group": {"primary_group": "gid_number"},
    "as in YuniKorn": {
        "groups_from": "member_of",
        "group_name_from": "rdn",
        "primary_group": "user_name",
    },
    "lower case": {"name_case": "lower"},
    "from the root": {"user_base": SUFFIX, "group_base": SUFFIX, "nested": "walk"},
    "two kinds": {
        "nested": "walk",
        "more_groups": [{"preset": "posix", "group_base": POSIX}, {"preset": "389ds"}],
    },
    "users of any case": {"user_match": "casefold", "nested": "walk"},
    "two names": {"user_filter": "(|(uid={user})(cn={user}))"},
}


@pytest.mark.parametrize("given", OPTIONS.values(), ids=OPTIONS.keys())
async def test_members_are_the_users_with_the_group(
    resolver: Build, directory: Slapd, given: dict[str, Any]
) -> None:
    opened = await resolver(directory, **given)
    groups_of: dict[str, tuple[str, ...]] = {}
    for user in USERS:
        outcome = await opened.resolve(user)
        groups_of[user] = outcome.groups if isinstance(outcome, KnownUser) else ()
    if given.get("user_match") == "casefold":
        # The list has the directory's spelling.
        del groups_of["ALICE"]
    listing = await listed(opened, NAMES)
    for name, group in listing.groups.items():
        assert group.missing == "", name
        expected = {user for user, groups in groups_of.items() if name in groups}
        assert expected <= group.users.keys(), name
        # A list may have more: a user with two entries has no groups, a name may have no entry,
        # and a number does not count where a group has it.
        if not name.isdecimal():
            assert group.users.keys() - expected <= {"twin", name} - {"alice"}, name


async def test_groups_between_are_named(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory, nested="walk", nested_depth=7)
    listing = await listed(opened, ["level1", "level2", "level4"])
    assert {name: group.users["carol"] for name, group in listing.groups.items()} == {
        "level1": (),
        "level2": ("level1",),
        "level4": ("level3", "level2", "level1"),
    }


async def test_groups_need_a_base(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory, groups_from="member_of", group_base=None)
    listing = await listed(opened, ["analytics"])
    assert "group_base" in listing.groups["analytics"].missing


@pytest.mark.parametrize(
    ("bounds", "why"),
    [({"max_members": 1}, "more than 1 members"), ({"max_searches": 4}, "more than 4 searches")],
)
async def test_cost_is_bounded(
    resolver: Build, directory: Slapd, bounds: dict[str, int], why: str
) -> None:
    opened = await resolver(directory)
    listing = MemberListing(["Ops", "analytics"], **bounds)
    with pytest.raises(ListingLimit, match=why):
        await opened.members(listing)
    assert listing.pending == ["analytics"]


async def test_a_group_that_cannot_be_listed_is_incomplete(
    resolver: Build, own_directory: Slapd
) -> None:
    opened = await resolver(own_directory)
    assert (await listed(opened, ["Ops"])).groups["Ops"].missing == ""
    own_directory.kill()
    group = (await listed(opened, ["Ops"])).groups["Ops"]
    assert group.missing
    assert not group.users


async def test_another_server_lists_the_rest(
    resolver: Build, own_directory: Slapd, directory: Slapd
) -> None:
    opened = await resolver(own_directory, urls=[own_directory.url, directory.url])
    for _ in range(2):
        group = (await listed(opened, ["analytics"])).groups["analytics"]
        assert (set(group.users), group.missing) == ({"alice", "bob"}, "")
        own_directory.kill()


async def test_names_are_escaped(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory)
    listing = await listed(opened, ["*", "a*", "analytics)(cn=*", "\\2a", "\0"])
    for name, group in listing.groups.items():
        assert (group.users, group.missing) == ({}, ""), name


@pytest.mark.parametrize("nested", ["off", "walk", "in_chain"])
async def test_active_directory(resolver: Build, nested: str) -> None:
    """Ranges of members, primary groups, and groups in groups."""
    users = [ad_user(number, "big") for number in range(350)]
    big = ad_group("big", 1201, *(dn for dn, _ in users))
    domain_users = ad_group("Domain Users", 513)
    above = ad_group("above", 1202, big[0], domain_users[0])
    everything = dict([*users, big, domain_users, above, ("", dict(ROOT))])
    async with fake_directory(Entries(everything, page=150)) as fake:
        opened = await resolver(fake.url, **GIVEN, nested=nested)
        listing = await listed(opened, ["big", "Domain Users", "above"])
        names = {f"u{number}" for number in range(350)}
        found = {name: group.users for name, group in listing.groups.items()}
        assert [group.missing for group in listing.groups.values()] == ["", "", ""]
        assert found["big"].keys() == names
        assert found["Domain Users"].keys() == names
        assert found["above"].keys() == (set() if nested == "off" else names)
        assert set(found["above"].values()) <= {("big",), ("Domain Users",)}
        ranged = [search for search in fake.searches if "member;range" in str(search.attributes)]
        assert bool(ranged) is (nested != "off")
        assert not any(IN_CHAIN in search.filter for search in fake.searches)


async def test_a_range_that_ends_too_soon_is_incomplete(resolver: Build) -> None:
    users = [ad_user(number) for number in range(4)]
    group = ad_group("big", 1201, *(dn for dn, _ in users))

    class Truncated(Entries):
        def _shown(self, entry: Attributes, attributes: tuple[str, ...]) -> Any:
            shown = dict(super()._shown(entry, attributes))
            return [(name, values) for name, values in shown.items() if ";range=2" not in name]

    async with fake_directory(Truncated(dict([*users, group, ("", ROOT)]), page=2)) as fake:
        opened = await resolver(fake.url, **GIVEN, nested="in_chain")
        assert "only part of member" in (await listed(opened, ["big"])).groups["big"].missing


async def test_members_that_may_only_be_searched_are_missing(resolver: Build) -> None:
    class SearchOnly(Entries):
        def _shown(self, entry: Attributes, attributes: tuple[str, ...]) -> Any:
            return [
                (name, values)
                for name, values in super()._shown(entry, attributes)
                if name != "member"
            ]

    full, empty = ad_group("full", 1201, ad_user(1)[0]), ad_group("empty", 1202)
    async with fake_directory(SearchOnly(dict([ad_user(1), full, empty, ("", ROOT)]))) as fake:
        opened = await resolver(fake.url, **GIVEN, nested="in_chain")
        listing = await listed(opened, ["full", "empty"])
    assert "has no permission to read member" in listing.groups["full"].missing
    assert listing.groups["empty"].missing == ""


async def test_members_outside_of_the_base_are_no_users(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory, user_base=f"ou=more,{SUFFIX}", group_base=GROUPS)
    assert (await listed(opened, ["analytics"])).groups["analytics"].users == {}
