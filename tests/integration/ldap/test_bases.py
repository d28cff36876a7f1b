"""Row 34: entries that a server returns from outside of the base that was searched."""

from pathlib import Path
from typing import Any, Literal

import pytest
import trustme

from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from queuegate_server.identity.resolvers.ldap.entries import SearchBase
from tests.integration.ldap.conftest import Build
from tests.support.fakes.ldap_server import Answer, Attributes, Search, fake_directory
from tests.support.rows import rows
from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import GROUPS, PEOPLE, SUFFIX, Slapd, running_slapd

MORE = f"ou=more,{SUFFIX}"
PLAIN: dict[str, Any] = {"start_tls": False, "allow_plaintext_bind": True}
ATTRIBUTES: Attributes = {"uid": [b"bob"], "cn": [b"bob"]}
TEAM = (f"cn=team,{GROUPS}", {"cn": [b"team"]})
Scope = Literal["base", "one", "sub"]


@rows
def test_what_a_base_contains(base: str, scope: Scope, dn: str, inside: bool) -> None:
    assert SearchBase(base, scope).contains_entry(dn) is inside


def directory_with(user: str, *groups: tuple[str, Attributes]) -> Any:
    """Return a directory that answers each search for users with one entry, and for groups with
    these.
    """

    def answer(search: Search) -> Answer:
        if search.base in (PEOPLE, "") and "uid=bob" in search.filter:
            return Answer([(user, ATTRIBUTES)])
        return Answer(groups)

    return answer


@rows
async def test_a_user_outside_of_the_base_is_nobody(
    resolver: Build, caplog: pytest.LogCaptureFixture, scope: str, dn: str, found: bool
) -> None:
    async with fake_directory(directory_with(dn, TEAM)) as fake:
        opened = await resolver(fake.url, **PLAIN, user_scope=scope)
        outcome = await opened.resolve("bob")
        assert opened.statistics.outside_base == (not found)
    if found:
        assert outcome == KnownUser(("team",))
    else:
        assert outcome == NoSuchUser("the directory has the user only outside user_base")
        assert "ignoring an entry that the server returned outside of user_base" in caplog.text


async def test_an_entry_outside_makes_nobody_ambiguous(resolver: Build) -> None:
    two = Answer([(f"uid=bob,{dn}", ATTRIBUTES) for dn in (MORE, PEOPLE)])
    async with fake_directory(
        lambda search: two if search.base == PEOPLE else Answer([TEAM])
    ) as fake:
        assert await (await resolver(fake.url, **PLAIN)).resolve("bob") == KnownUser(("team",))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"nested": "walk"},
        {"groups_from": "member_uid", "member_attribute": "memberUid"},
    ],
)
async def test_groups_outside_of_the_base_are_ignored(
    resolver: Build, caplog: pytest.LogCaptureFixture, given: dict[str, Any]
) -> None:
    outside = (f"cn=admins,{MORE}", {"cn": [b"admins"]})
    answer = directory_with(f"uid=bob,{PEOPLE}", outside, TEAM)
    async with fake_directory(answer) as fake:
        opened = await resolver(fake.url, **PLAIN, **given)
        assert await opened.resolve("bob") == KnownUser(("team",))
        assert opened.statistics.outside_base
    assert "outside of group_base: 'cn=admins" in caplog.text


async def test_a_primary_group_outside_of_the_base_gives_no_name(resolver: Build) -> None:
    def answer(search: Search) -> Answer:
        if search.base == PEOPLE:
            return Answer([(f"uid=bob,{PEOPLE}", {**ATTRIBUTES, "gidNumber": [b"7"]})])
        admins = {"cn": [b"admins"], "gidNumber": [b"7"]}
        return Answer([(f"cn=admins,{MORE}", admins)] if "gidNumber=7" in search.filter else [])

    uids = {"groups_from": "member_uid", "member_attribute": "memberUid"}
    for given in ({}, uids):
        async with fake_directory(answer) as fake:
            opened = await resolver(fake.url, **PLAIN, **given, primary_group="gid_number")
            # As without such a group.
            assert await opened.resolve("bob") == KnownUser(("7",))


async def test_a_read_of_another_entry_is_a_failure(resolver: Build) -> None:
    """The name of a group comes from its entry if its DN does not have it."""
    named = f"ou=7,{GROUPS}"

    def answer(search: Search) -> Answer:
        if search.base == PEOPLE:
            shown = {**ATTRIBUTES, "memberOf": [named.encode()]}
            return Answer([(f"uid=bob,{PEOPLE}", shown)])
        return Answer([(read, {"cn": [b"admins"]})])

    for read in (f"OU=7, {GROUPS}", f"ou=8,{GROUPS}"):
        async with fake_directory(answer) as fake:
            opened = await resolver(fake.url, **PLAIN, groups_from="member_of")
            outcome: Outcome = await opened.resolve("bob")
        if read == f"ou=8,{GROUPS}":
            assert isinstance(outcome, LookupFailure)
            assert "answered a read of" in outcome.detail
        else:
            assert outcome == KnownUser(("admins",))


def alias(name: str, target: str) -> str:
    return entries.entry(
        f"uid={name},{PEOPLE}",
        ("objectClass", "alias"),
        ("objectClass", "extensibleObject"),
        ("uid", name),
        ("aliasedObjectName", target),
    )


async def test_aliases_are_not_followed(resolver: Build, own_directory: Slapd) -> None:
    own_directory.add(entries.person("eve", where=MORE) + alias("eve", f"uid=eve,{MORE}"))
    opened = await resolver(own_directory)
    assert isinstance(await opened.resolve("eve"), NoSuchUser)
    assert opened.statistics.outside_base == 0


async def test_a_proxy_that_widens_the_base(
    resolver: Build, ca: trustme.CA, tmp_path: Path
) -> None:
    """slapd's rewriting overlay searches the whole tree and returns entries under their own DNs."""
    widening = "\n".join(
        [
            "overlay rwm",
            "rwm-rewriteEngine on",
            "rwm-rewriteContext searchDN",
            f'rwm-rewriteRule "^{PEOPLE}$" "{SUFFIX}" ":@"',
            f'rwm-rewriteRule "^{GROUPS}$" "{SUFFIX}" ":@"',
        ]
    )
    people = entries.standard() + entries.person("eve", where=MORE)
    with running_slapd(
        tmp_path, ca, people, more_globals="moduleload rwm", more_database=widening
    ) as slapd:
        opened = await resolver(slapd)
        assert isinstance(await opened.resolve("eve"), NoSuchUser)
        assert opened.statistics.outside_base == 1
        # Bob is also in a group elsewhere; one of two twins is elsewhere.
        assert await opened.resolve("bob") == KnownUser(("analytics",))
        assert await opened.resolve("twin") == KnownUser(())
        assert opened.statistics.outside_base == 3
