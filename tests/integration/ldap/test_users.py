"""All users of a directory: exactly those whom a lookup finds."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from queuegate_server.identity.members import CannotListUsers, MemberListing
from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from tests.integration.ldap.conftest import Build
from tests.support.fakes.active_directory import GIVEN, ROOT, ad_user
from tests.support.fakes.filters import Entries
from tests.support.fakes.ldap_server import Attributes, fake_directory
from tests.support.resolvers import lookup_failure
from tests.support.servers.slapd import PEOPLE, SUFFIX, Slapd

NAMES = ("alice", "bob", "carol", "dave", "o'neil (jr)*", "ALICE", "nobody")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"user_base": SUFFIX},
        {"user_base": f"ou=more,{SUFFIX}"},
        {"user_scope": "one"},
        {"user_filter": "(|(uid={user})(cn={user}))"},
        {"user_filter": "(&(uid={user})(!(uid=bob)))"},
    ],
)
async def test_users_are_those_whom_a_lookup_finds(
    resolver: Build, directory: Slapd, given: dict[str, Any]
) -> None:
    opened = await resolver(directory, **given)
    users = (await opened.all_users(1000)).names
    assert len(users) == len({*users})
    for user in (*NAMES, *users):
        # A user with two entries is found, and cannot be looked up.
        assert isinstance(await opened.resolve(user), NoSuchUser) is (user not in users), user


async def test_more_users_than_may_be_listed(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory)
    count = len((await opened.all_users(1000)).names)
    assert len((await opened.all_users(count)).names) == count
    with pytest.raises(CannotListUsers, match=f"more than {count - 1} entries"):
        await opened.all_users(count - 1)


async def test_a_directory_that_is_down(resolver: Build, own_directory: Slapd) -> None:
    opened = await resolver(own_directory)
    own_directory.kill()
    with pytest.raises(CannotListUsers):
        await opened.all_users(1000)


async def test_a_server_that_answers_in_pages(resolver: Build) -> None:
    everything = dict([*(ad_user(number) for number in range(350)), ("", dict(ROOT))])
    async with fake_directory(Entries(everything, page=150)) as fake:
        opened = await resolver(fake.url, **GIVEN)
        assert {*(await opened.all_users(350)).names} == {f"u{number}" for number in range(350)}
        with pytest.raises(CannotListUsers, match="more than 349 entries"):
            await opened.all_users(349)


async def test_names_that_may_only_be_searched(resolver: Build) -> None:
    class SearchOnly(Entries):
        def _shown(self, entry: Attributes, attributes: tuple[str, ...]) -> Any:
            return [
                (name, values)
                for name, values in super()._shown(entry, attributes)
                if values != [b"u1"]
            ]

    async with fake_directory(SearchOnly(dict([ad_user(0), ad_user(1), ("", ROOT)]))) as fake:
        opened = await resolver(fake.url, **GIVEN)
        names, missing = await opened.all_users(10)
    assert names == ["u0"]
    assert re.search(r"lacks 1, .*User 1.* has no readable sAMAccountName", missing)


async def test_users_below_several_bases(resolver: Build, directory: Slapd) -> None:
    more = f"ou=more,{SUFFIX}"
    both = await resolver(directory, user_base=[PEOPLE, more])
    assert await both.resolve("bob") == KnownUser(("analytics",))
    assert "2 entries match the user" in await lookup_failure(both, "twin")
    only_more = await resolver(directory, user_base=[more])
    assert await only_more.resolve("twin") == KnownUser(())
    assert isinstance(await only_more.resolve("bob"), NoSuchUser)
    assert set((await both.all_users(100)).names) >= {"alice", "bob", "twin"}
    listing = MemberListing(["analytics"])
    await both.members(listing)
    assert set(listing.groups["analytics"].users) == {"alice", "bob"}
    assert listing.groups["analytics"].missing == ""


async def test_bases_may_overlap(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory, user_base=[SUFFIX, PEOPLE])
    assert await opened.resolve("bob") == KnownUser(("analytics",))
    names = (await opened.all_users(100)).names
    assert len(names) == len(set(names))


async def test_one_base_that_does_not_exist_fails_the_lookup(
    resolver: Build, directory: Slapd
) -> None:
    opened = await resolver(directory, user_base=[PEOPLE, f"ou=nowhere,{SUFFIX}"])
    assert "the search base does not exist" in await lookup_failure(opened, "bob")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "at least 1 item"),
        ([PEOPLE, PEOPLE], "is listed twice"),
        ([PEOPLE, "people"], "is not a DN"),
        ([PEOPLE] * 17, "at most 16 items"),
    ],
)
def test_wrong_bases(options: Any, given: list[str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        options("ldaps://a", user_base=given)
