"""`changes: dirsync` with a fake that speaks the control of Active Directory."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from queuegate_server.identity.resolvers.ldap import pending
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from queuegate_server.identity.resolvers.ldap.sync_changes import MAX_AFFECTED
from tests.integration.ldap.conftest import Build
from tests.support.change_sink import ALL, Sink, following, why_not_followed
from tests.support.constants import LDAP, take_constants
from tests.support.fakes.dirsync import (
    BASE,
    GROUPS,
    UNWILLING_TO_PERFORM,
    USERS,
    ChangingDomain,
    group_dn,
    user_dn,
)
from tests.support.fakes.ldap_server import fake_directory
from tests.support.resolvers import Open
from tests.support.rows import rows

GROUP = [b"group"]
USER = [b"user"]
MANY = [f"user{number}" for number in range(MAX_AFFECTED + 1)]
Change = Callable[[ChangingDomain], None]


@pytest.fixture
def domain() -> ChangingDomain:
    domain = ChangingDomain("ann", "bob", "cid")
    for number in range(5):
        members = [user_dn("ann").encode()]
        domain.change(group_dn(f"g{number}"), kind=GROUP, added=members, objectClass=GROUP)
    return domain


@pytest.fixture
async def url(domain: ChangingDomain) -> AsyncIterator[str]:
    async with fake_directory(domain) as fake:
        yield fake.url


@pytest.fixture
def resolver(url: str, opened: Open, monkeypatch: pytest.MonkeyPatch) -> Build:
    async def build(**more: Any) -> LdapResolver:
        given = {
            "preset": "active_directory",
            "urls": [url],
            "start_tls": False,
            "bind": "anonymous",
            "user_base": USERS,
            "group_base": GROUPS,
            "user_match": "exact",
            "changes": "dirsync",
            "changes_interval": 0.1,
            "repeat_after": 0,
            "connect_timeout": 30,
            "operation_timeout": 30,
            "lookup_timeout": 60,
        }
        options = take_constants(given | more, LDAP, monkeypatch)
        return await opened(LdapResolver(LdapOptions.model_validate(options)))

    return build


async def test_members_that_join_and_leave(domain: ChangingDomain, resolver: Build) -> None:
    sink = Sink()
    async with following(await resolver(), sink):
        assert sink.reports == []
        domain.change(group_dn("g1"), kind=GROUP, added=[user_dn("bob").encode()])
        await sink.until("bob")
        bob, cid = user_dn("bob").encode(), user_dn("cid").encode()
        domain.change(group_dn("g1"), kind=GROUP, removed=[bob], added=[cid])
        await sink.until("bob", "cid")
        domain.change(group_dn("new"), kind=GROUP, objectClass=GROUP, name=[b"new"], added=[cid])
        await sink.until("cid")


@pytest.mark.parametrize(
    "change",
    [
        lambda domain: domain.change(group_dn("g1"), kind=GROUP, name=[b"other"]),
        lambda domain: domain.change(f"CN=g1,OU=Other,{BASE}", kind=GROUP, name=[b"g1"]),
        lambda domain: domain.change(group_dn("g1"), kind=GROUP, cn=[b"other"]),
        lambda domain: domain.change(
            f"CN=g1\\0ADEL:1,CN=Deleted Objects,{BASE}", kind=GROUP, isDeleted=[b"TRUE"]
        ),
        lambda domain: domain.change(group_dn("g1"), kind=GROUP, added=[group_dn("g2").encode()]),
        lambda domain: domain.change(group_dn("g1"), kind=GROUP, added=[user_dn("zoe").encode()]),
        lambda domain: domain.change(group_dn("g1"), kind=GROUP, added=[b"no DN"]),
        lambda domain: domain.change(
            group_dn("g1"),
            kind=GROUP,
            added=[user_dn(name).encode() for name in MANY],
        ),
    ],
    ids=["renamed", "moved", "named", "deleted", "nested", "unknown", "unreadable", "many"],
)
async def test_other_changes_concern_everybody(
    domain: ChangingDomain, resolver: Build, change: Change
) -> None:
    sink = Sink()
    async with following(await resolver(), sink):
        change(domain)
        await sink.until_all()


async def test_names_in_any_case_concern_everybody(domain: ChangingDomain, resolver: Build) -> None:
    sink = Sink()
    async with following(await resolver(user_match="casefold"), sink):
        domain.change(group_dn("g1"), kind=GROUP, added=[user_dn("bob").encode()])
        await sink.until_all()


async def test_groups_elsewhere_and_users_do_not_count(
    domain: ChangingDomain, resolver: Build
) -> None:
    sink = Sink()
    async with following(await resolver(), sink):
        domain.change(f"CN=x,OU=Other,{BASE}", kind=GROUP, added=[user_dn("bob").encode()])
        domain.change(user_dn("bob"), kind=USER, userAccountControl=[b"514"])
        domain.change(group_dn("g1"), kind=GROUP, added=[user_dn("cid").encode()])
        await sink.until("cid")


async def test_users(domain: ChangingDomain, resolver: Build) -> None:
    sink = Sink()
    async with following(await resolver(changes_of_users=True), sink):
        domain.change(user_dn("bob"), kind=USER, userAccountControl=[b"514"])
        await sink.until("bob")
        new = {"objectClass": USER, "sAMAccountName": [b"dan"]}
        domain.change(user_dn("dan"), kind=USER, **new)
        await sink.until("dan")
        domain.change(user_dn("dan"), kind=USER, sAMAccountName=[b"dean"])
        await sink.until_all()
        domain.change(f"CN=dan,OU=Other,{BASE}", kind=USER, name=[b"dan"])
        await sink.until_all()
        domain.change(f"CN=x,CN=Deleted Objects,{BASE}", kind=USER, isDeleted=[b"TRUE"])
        await sink.until_all()
        for name in MANY:
            domain.change(
                user_dn(name), kind=USER, objectClass=USER, sAMAccountName=[name.encode()]
            )
        await sink.until_all()


@rows
async def test_what_lookups_read_of_users_is_followed(
    domain: ChangingDomain, resolver: Build, settings: dict[str, str], attribute: str
) -> None:
    sink = Sink()
    async with following(await resolver(changes_of_users=True, **settings), sink):
        domain.change(user_dn("bob"), kind=USER, **{attribute: [b"7"]})
        await sink.until("bob")


async def test_a_follower_continues_where_another_one_ended(
    domain: ChangingDomain, resolver: Build
) -> None:
    follower = await resolver()
    first = Sink()
    async with following(follower, first):
        pass
    domain.change(group_dn("g1"), kind=GROUP, added=[user_dn("bob").encode()])
    second = Sink(first.position)
    async with following(follower, second):
        await second.until("bob")
    domain.epoch += 1
    third = Sink(second.position)
    async with following(follower, third):
        assert third.reports == [ALL]
    fourth = Sink(b"junk")
    async with following(follower, fourth):
        assert fourth.reports == [ALL]


async def test_a_change_is_repeated(domain: ChangingDomain, resolver: Build) -> None:
    sink = Sink()
    async with following(await resolver(repeat_after=0.3), sink):
        domain.change(group_dn("g1"), kind=GROUP, added=[user_dn("bob").encode()])
        await sink.until("bob")
        await sink.until("bob")


@pytest.mark.parametrize("code", [50, UNWILLING_TO_PERFORM, 12])
async def test_a_refusal_is_a_fault(domain: ChangingDomain, resolver: Build, code: int) -> None:
    domain.code = code
    assert "Replicating Directory Changes" in await why_not_followed(await resolver())


async def test_a_group_that_is_too_large_is_a_fault(
    domain: ChangingDomain, resolver: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No right would help."""
    monkeypatch.setattr(pending, "_MAX_VALUES", 1)
    domain.change(group_dn("g1"), kind=GROUP, added=[user_dn("bob").encode()] * 5000)
    failure = await why_not_followed(await resolver())
    assert "too many entries, attributes and values" in failure
    assert failure.endswith("(split the group)")


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ({"supportedControl": [b"1.2.3"]}, "does not support the DirSync control"),
        ({"namingContexts": [b"DC=elsewhere"]}, "no naming context"),
    ],
)
async def test_a_server_that_cannot_report(
    domain: ChangingDomain,
    resolver: Build,
    root: dict[str, list[bytes]],
    message: str,
) -> None:
    domain.root = root
    assert message in await why_not_followed(await resolver())


async def test_each_poll_confirms_that_nothing_is_missing(
    domain: ChangingDomain, resolver: Build
) -> None:
    sink = Sink()
    async with following(await resolver(), sink):
        for _ in range(3):
            await sink.until_reached()
        assert domain.polls >= sink.count
    assert sink.reports == []
