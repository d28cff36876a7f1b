"""Groups of several kinds in one directory, against a real slapd."""

from typing import Any

import pytest

from queuegate_server.identity.resolver import KnownUser
from tests.integration.ldap.conftest import Build
from tests.integration.ldap.test_sources import GID, MEMBER_OF, UIDS, UNIQUE
from tests.support.resolvers import lookup_failure
from tests.support.servers.ldap_entries import entry, group, group_dn, unique_group
from tests.support.servers.slapd import GROUPS, POSIX, SUFFIX, Slapd

LISTED = {"preset": "posix", "group_base": POSIX}


@pytest.mark.parametrize(
    ("user", "given", "groups"),
    [
        ("alice", {"more_groups": [LISTED]}, {"analytics", "Ops", "devs", "wheel"}),
        ("bob", {"more_groups": [LISTED]}, {"analytics", "devs"}),
        ("carol", {"more_groups": [LISTED]}, {"level1"}),
        ("alice", {"more_groups": [UNIQUE, LISTED]},
         {"analytics", "Ops", "unique", "devs", "wheel"}),
        ("alice", {**MEMBER_OF, "more_groups": [UNIQUE]}, {"analytics", "Ops", "unique"}),
        # Without a base of its own a kind has that of the first one.
        ("bob", {"group_base": SUFFIX, "more_groups": [{"preset": "posix"}]},
         {"analytics", "outside", "devs"}),
        ("bob", {**MEMBER_OF, "group_base": None, "more_groups": [LISTED]},
         {"analytics", "outside", "devs"}),
        ("bob", {**UIDS, "more_groups": [{"group_base": GROUPS}]}, {"devs", "analytics"}),
        ("bob", {**UIDS, "more_groups": [{**MEMBER_OF, "group_base": GROUPS}]},
         {"devs", "analytics"}),
        # A group that two kinds find is one group.
        ("alice", {"more_groups": [MEMBER_OF, {}]}, {"analytics", "Ops"}),
        ("alice", {"name_case": "lower", "more_groups": [LISTED]},
         {"analytics", "ops", "devs", "wheel"}),
        # Each kind names its groups in its own way.
        ("dave", {"group_filter": "(cn=two)", "more_groups": [
            {"group_filter": "(cn=two)", "group_name_attribute": "ou"}]}, {"two"}),
        ("dave", {"group_filter": "(cn=x)", "more_groups": [
            {"group_filter": "(cn=two)", "group_name_attribute": "ou"}]}, {"b"}),
    ],
)  # fmt: skip
async def test_groups_of_several_kinds(
    resolver: Build, directory: Slapd, user: str, given: dict[str, Any], groups: set[str]
) -> None:
    outcome = await (await resolver(directory, **given)).resolve(user)
    assert isinstance(outcome, KnownUser), outcome
    assert len(set(outcome.groups)) == len(outcome.groups)
    assert set(outcome.groups) == groups


@pytest.mark.parametrize(
    ("user", "given", "groups"),
    [
        ("alice", {"group_base": SUFFIX, **GID}, {"staff", "analytics", "Ops", "devs", "wheel"}),
        ("alice", {**UIDS, **GID, "more_groups": [{"group_base": GROUPS}]},
         {"staff", "analytics", "Ops", "devs", "wheel"}),
        ("carol", {"group_base": SUFFIX, **GID}, {"599", "level1"}),
        ("bob", {"primary_group": "user_name"}, {"bob", "analytics", "devs"}),
    ],
)  # fmt: skip
async def test_the_primary_group_comes_first(
    resolver: Build, directory: Slapd, user: str, given: dict[str, Any], groups: set[str]
) -> None:
    opened = await resolver(directory, **{"more_groups": [LISTED], **given})
    outcome = await opened.resolve(user)
    assert isinstance(outcome, KnownUser), outcome
    assert outcome.groups[0] in ("staff", "599", "bob")
    assert set(outcome.groups) == groups


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ({}, {"level1"}),
        ({"nested": "walk"}, {f"level{number}" for number in range(1, 7)}),
        ({"more_groups": [UNIQUE]}, {"level1"}),
        # level2 is in a unique group, that in a group of names, and that in a unique group.
        ({"more_groups": [UNIQUE], "nested": "walk"},
         {*(f"level{number}" for number in range(1, 7)), "u1", "n1", "u2"}),
        ({"more_groups": [UNIQUE, LISTED], "nested": "walk", "nested_depth": 2},
         {"level1", "level2", "level3", "u1"}),
        ({**MEMBER_OF, "more_groups": [UNIQUE], "nested": "walk", "nested_depth": 4},
         {*(f"level{number}" for number in range(1, 6)), "u1", "n1", "u2"}),
    ],
)  # fmt: skip
async def test_a_group_may_be_in_one_of_another_kind(
    resolver: Build, own_directory: Slapd, given: dict[str, Any], groups: set[str]
) -> None:
    own_directory.add(
        unique_group("u1", group_dn("level2"))
        + group("n1", group_dn("u1"))
        + unique_group("u2", group_dn("n1"), group_dn("u2"))
    )
    opened = await resolver(own_directory, **{"nested_depth": 5, **given})
    outcome = await opened.resolve("carol")
    assert isinstance(outcome, KnownUser), outcome
    assert set(outcome.groups) == groups


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"more_groups": [LISTED], "max_groups": 3}, "more than 3 groups"),
        ({"more_groups": [{**LISTED, "group_base": f"ou=nowhere,{SUFFIX}"}]},
         "does not exist or is not visible"),
        ({"more_groups": [LISTED, UNIQUE], "nested": "in_chain"}, "not Active Directory"),
    ],
)  # fmt: skip
async def test_a_part_of_the_groups_is_a_failure(
    resolver: Build, directory: Slapd, given: dict[str, Any], detail: str
) -> None:
    assert detail in await lookup_failure(await resolver(directory, **given), "alice")


async def test_names_without_text_are_left_out(resolver: Build, own_directory: Slapd) -> None:
    own_directory.add(
        entry(
            f"gidNumber=77,{POSIX}",
            ("objectClass", "posixGroup"),
            ("cn", "a\tb"),
            ("gidNumber", "77"),
            ("memberUid", "bob"),
        )
    )
    opened = await resolver(own_directory, more_groups=[LISTED])
    assert await opened.resolve("bob") == KnownUser(("analytics", "devs"))
    assert opened.statistics.skipped_names == 1
