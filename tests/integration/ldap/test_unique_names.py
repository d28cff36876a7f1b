"""Names of groups that stand for one group only (unique_group_names), against a real slapd."""

import re
from typing import Any

import pytest

from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolver import KnownUser, LookupFailure, Outcome
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.integration.ldap.conftest import Build
from tests.support.fakes import active_directory
from tests.support.fakes.active_directory import BASE, DOMAIN_USERS, Domain
from tests.support.fakes.ldap_server import Answer, Attributes, Search, fake_directory
from tests.support.resolvers import lookup_failure
from tests.support.rows import rows
from tests.support.servers.ldap_entries import (
    STRANGE,
    delete,
    dn,
    entry,
    group,
    posix_group,
    rename,
)
from tests.support.servers.slapd import GROUPS, POSIX, SUFFIX, Slapd

ELSEWHERE = f"ou=more,{SUFFIX}"
UNIQUE = {"unique_group_names": True, "group_base": SUFFIX}
POSIX_GROUPS = {"preset": "posix", "group_base": POSIX}


def searches(opened: LdapResolver) -> int:
    steps = opened.statistics.steps.items()
    return sum(count.succeeded for (_, step), count in steps if step == "group names")


def assert_ambiguous(outcome: Outcome, name: str) -> None:
    assert isinstance(outcome, LookupFailure), outcome
    assert outcome.source_works
    assert f"several groups have the name {name!r}" in outcome.detail
    assert outcome.source_works
    assert "rename one of them, or narrow group_base" in outcome.detail


@pytest.mark.parametrize(
    ("user", "given", "groups"),
    [
        ("alice", {}, {"analytics", "Ops"}),
        ("bob", {}, {"analytics", "outside"}),
        ("bob", {"group_base": GROUPS}, {"analytics"}),
        ("carol", {"nested": "walk"}, {f"level{number}" for number in range(1, 7)}),
        ("dave", {}, {*STRANGE, "two"}),
        ("dave", {"group_filter": "(cn=two)", "group_name_attribute": "ou"}, {"b"}),
        ("dave", {"groups_from": "member_of", "name_case": "lower"},
         {*map(str.lower, STRANGE), "two"}),
        ("alice", {"more_groups": [POSIX_GROUPS]}, {"analytics", "Ops", "devs", "wheel"}),
        ("alice", {"primary_group": "gid_number"}, {"staff", "analytics", "Ops"}),
        # The check skips groups without an entry.
        ("bob", {"primary_group": "user_name"}, {"bob", "analytics", "outside"}),
        ("carol", {"primary_group": "gid_number"}, {"599", "level1"}),
    ],
)  # fmt: skip
async def test_unique_names(
    resolver: Build, directory: Slapd, user: str, given: dict[str, Any], groups: set[str]
) -> None:
    opened = await resolver(directory, **(UNIQUE | given))
    outcome = await opened.resolve(user)
    assert isinstance(outcome, KnownUser), outcome
    assert set(outcome.groups) == groups


@pytest.mark.parametrize(
    ("other", "given", "name"),
    [
        (group("analytics", dn("bob"), where=ELSEWHERE), {}, "analytics"),
        # The user is in both.
        (group("analytics", dn("alice"), where=ELSEWHERE), {}, "analytics"),
        (group("analytics", dn("bob"), where=ELSEWHERE), {"groups_from": "member_of"}, "analytics"),
        # A name that is not in the DN.
        (group("Ops", dn("bob"), where=ELSEWHERE, rdn="ou=other"), {}, "Ops"),
        (group("ops", dn("bob"), where=ELSEWHERE), {"name_case": "lower"}, "ops"),
        (posix_group("analytics", 600), {"more_groups": [POSIX_GROUPS]}, "analytics"),
        (posix_group("analytics", 600), {"primary_group": "gid_number"}, "analytics"),
        (group("staff", dn("bob"), where=ELSEWHERE), {"primary_group": "gid_number"}, "staff"),
        # Names from DNs and from values, in any spelling.
        (group("analytics", dn("bob"), rdn="ou=z+cn=analytics", where=ELSEWHERE), {}, "analytics"),
        (group("analytics", dn("bob"), rdn="cn=\\61nalytics", where=ELSEWHERE), {}, "analytics"),
        (
            group("\u212aops", dn("bob"), where=ELSEWHERE) + group("kops", dn("alice")),
            {"name_case": "lower"},
            "kops",
        ),
        # Another attribute, of another kind of group.
        (
            entry(
                f"cn=other,{ELSEWHERE}",
                ("objectClass", "groupOfUniqueNames"),
                ("cn", "other"),
                ("ou", "analytics"),
                ("uniqueMember", dn("bob")),
            ),
            {
                "more_groups": [
                    {
                        "group_filter": "(objectClass=groupOfUniqueNames)",
                        "member_attribute": "uniqueMember",
                        "group_name_attribute": "ou",
                    }
                ]
            },
            "analytics",
        ),
    ],
)
async def test_several_groups_of_one_name(
    resolver: Build, own_directory: Slapd, other: str, given: dict[str, Any], name: str
) -> None:
    own_directory.add(other)
    opened = await resolver(own_directory, **(UNIQUE | given))
    assert_ambiguous(await opened.resolve("alice"), name)
    unchecked = await resolver(own_directory, **(UNIQUE | given | {"unique_group_names": False}))
    outcome = await unchecked.resolve("alice")
    assert isinstance(outcome, KnownUser), outcome
    assert name in outcome.groups


@rows
async def test_groups_whose_dns_are_similar(
    resolver: Build, own_directory: Slapd, rdns: tuple[str, str]
) -> None:
    """Directories do not agree on which spellings of a DN are equal, so each is another group."""
    for rdn, member in zip(rdns, ("alice", "bob"), strict=True):
        dn_below, rdn_of_group = ELSEWHERE, rdn
        if rdn.startswith("ou="):
            dn_below, rdn_of_group = f"{rdn},{ELSEWHERE}", "cn=T"
            own_directory.add(entry(dn_below, ("objectClass", "organizationalUnit")))
        own_directory.add(posix_group("T", 7, member, where=dn_below, rdn=rdn_of_group))
    opened = await resolver(own_directory, **UNIQUE, more_groups=[{"preset": "posix"}])
    for user in ("alice", "bob"):
        assert_ambiguous(await opened.resolve(user), "T")
    listing = MemberListing(["T"])
    await opened.members(listing)
    assert listing.groups["T"].missing == "several groups have this name"


async def test_names_that_are_similar(resolver: Build, own_directory: Slapd) -> None:
    """ACLs tell them apart."""
    similar = {"straße", "strasse", "STRASSE", "\u00e9", "e\u0301"}
    for number, name in enumerate(sorted(similar)):
        unit = f"ou={number},{ELSEWHERE}"
        own_directory.add(entry(unit, ("objectClass", "organizationalUnit")))
        own_directory.add(group(name, dn("twin"), where=unit))
    own_directory.add(group("grüße", dn("twin")) + group("grüsse", dn("twin")))
    opened = await resolver(own_directory, **UNIQUE)
    outcome = await opened.resolve("twin")
    assert isinstance(outcome, KnownUser), outcome
    assert set(outcome.groups) == similar | {"grüße", "grüsse"}


async def test_other_groups_that_the_filter_excludes(resolver: Build, own_directory: Slapd) -> None:
    own_directory.add(posix_group("data", 700, "alice") + posix_group("old", 701, "alice"))
    own_directory.add(posix_group("data", 702, "bob", where=ELSEWHERE))
    given = {"preset": "posix", "group_filter": "(&(objectClass=posixGroup)(!(gidNumber=702)))"}
    opened = await resolver(own_directory, **UNIQUE, **given)
    outcome = await opened.resolve("alice")
    assert isinstance(outcome, KnownUser), outcome
    assert set(outcome.groups) == {"staff", "devs", "wheel", "data", "old"}


async def test_another_group_whose_name_has_an_option(
    resolver: Build, own_directory: Slapd
) -> None:
    lines = ("objectClass", "groupOfNames"), ("member", dn("bob")), ("cn;lang-en", "analytics")
    own_directory.add(entry(f"ou=only,{ELSEWHERE}", *lines, ("ou", "only")))
    opened = await resolver(own_directory, **UNIQUE)
    failure = await lookup_failure(opened, "alice")
    assert "sent values of cn with the option lang-en" in failure
    assert f"in the entry 'ou=only,{ELSEWHERE}' without options" in failure
    own_directory.modify(delete(f"ou=only,{ELSEWHERE}"))
    # This one has a name of its own.
    own_directory.add(entry(f"cn=other,{ELSEWHERE}", *lines, ("cn", "other")))
    outcome = await opened.resolve("alice")
    assert isinstance(outcome, KnownUser), outcome


async def test_a_stale_spelling_in_member_of(resolver: Build, own_directory: Slapd) -> None:
    """OpenLDAP's overlay does not follow a change of case."""
    own_directory.modify(rename(f"cn=Ops,{GROUPS}", "cn=OPS"))
    opened = await resolver(own_directory, **UNIQUE, groups_from="member_of")
    failure = await lookup_failure(opened, "alice")
    assert "the user's entry calls a group 'Ops', and the group's entry 'OPS'" in failure
    assert "compute memberOf again" in failure


async def test_other_names_do_not_matter(resolver: Build, own_directory: Slapd) -> None:
    """Other case, second values of cn, entries of other classes, and groups outside the base."""
    own_directory.add(
        group("ANALYTICS", dn("bob"), where=ELSEWHERE)
        + group("first", dn("bob"), where=ELSEWHERE).rstrip("\n") + "\ncn: ops\n\n"
        + entry(f"cn=analytics,ou=machines,{SUFFIX}",
                ("objectClass", "device"), ("cn", "analytics"))
    )  # fmt: skip
    opened = await resolver(own_directory, **UNIQUE)
    outcome = await opened.resolve("alice")
    assert isinstance(outcome, KnownUser), outcome
    assert set(outcome.groups) == {"analytics", "Ops"}
    own_directory.add(group("analytics", dn("bob"), where=ELSEWHERE, rdn="ou=other"))
    narrow = await resolver(own_directory, **(UNIQUE | {"group_base": GROUPS}))
    assert isinstance(await narrow.resolve("alice"), KnownUser)


async def test_names_are_checked_once_a_minute(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory, **UNIQUE)
    await opened.resolve("alice")
    assert searches(opened) == 1
    await opened.resolve("alice")
    assert searches(opened) == 1
    await opened.resolve("bob")  # "outside" is new
    assert searches(opened) == 2


async def test_a_name_that_another_group_took_over(resolver: Build, own_directory: Slapd) -> None:
    """A checked name counts only for the group for which it was checked."""
    opened = await resolver(own_directory, **UNIQUE)
    await opened.resolve("alice")
    own_directory.add(group("analytics", dn("dave"), where=ELSEWHERE))
    assert_ambiguous(await opened.resolve("dave"), "analytics")
    own_directory.modify(rename(f"cn=analytics,{GROUPS}", "cn=former"))
    outcome = await opened.resolve("dave")
    assert isinstance(outcome, KnownUser)
    assert "analytics" in outcome.groups


async def test_a_search_that_misses_the_users_group(resolver: Build, directory: Slapd) -> None:
    """With memberOf, group_filter may exclude groups that count, which nothing could check."""
    given = {"groups_from": "member_of", "group_filter": "(objectClass=groupOfUniqueNames)"}
    opened = await resolver(directory, **(UNIQUE | given))
    failure = await lookup_failure(opened, "bob")
    assert "a search for the name 'analytics' does not find the group" in failure
    assert "let group_filter match all groups" in failure


@pytest.mark.parametrize("more", [{}, {"max_in_flight": 1, "max_queued": 0}])
async def test_very_many_names(resolver: Build, more: dict[str, Any]) -> None:
    """All names of one lookup, some of which another group has, against a fake."""
    domain = Domain(1200)
    others: list[tuple[str, Attributes]] = []

    def answer(search: Search) -> Answer:
        names = re.findall(r"\(cn=([^)]+)\)", search.filter)
        if not names:
            return domain(search)
        entries = [(active_directory.dn(name), {"cn": [name.encode()]}) for name in names]
        if "Domain Users" in names:
            entries[names.index("Domain Users")] = (DOMAIN_USERS, {"cn": [b"Domain Users"]})
        return Answer(entries + [each for each in others if each[1]["cn"][0].decode() in names])

    async with fake_directory(answer) as fake:
        opened = await resolver(fake.url, **active_directory.GIVEN, **more, unique_group_names=True)
        outcome = await opened.resolve("alice")
        assert outcome == KnownUser(("Domain Users", *domain.names))
        others.append((f"CN=g1100,OU=Others,{BASE}", {"cn": [b"g1100"]}))
        # The check is used for a minute, except by a new resolver.
        assert await opened.resolve("alice") == outcome
        new = await resolver(fake.url, **active_directory.GIVEN, **more, unique_group_names=True)
        assert_ambiguous(await new.resolve("alice"), "g1100")


async def test_members_of_several_groups_of_one_name(resolver: Build, own_directory: Slapd) -> None:
    own_directory.add(group("analytics", dn("carol"), where=ELSEWHERE))
    opened = await resolver(own_directory, **UNIQUE, primary_group="gid_number")
    listing = MemberListing(["analytics", "Ops"])
    await opened.members(listing)
    assert listing.groups["analytics"].missing == "several groups have this name"
    assert not listing.groups["analytics"].users
    assert listing.groups["Ops"].missing == ""
    assert set(listing.groups["Ops"].users) == {"alice"}
