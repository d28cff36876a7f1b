"""`changes: dirsync` with a real domain controller of Active Directory."""

from typing import Any

import pytest

from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.e2e.sources.conftest import BuildLdap
from tests.support.change_sink import ALL, Sink, following, why_not_followed
from tests.support.servers import samba
from tests.support.servers.ldap_entries import change, delete, rename
from tests.support.servers.samba import (
    DISABLED,
    DOMAIN,
    PASSWORD,
    STAFF,
    SUFFIX,
    Samba,
    group,
    group_dn,
    member,
    user,
    user_dn,
)

pytestmark = [pytest.mark.usefixtures("no_task_left"), pytest.mark.timeout(600)]

GROUPS = ("club", "old", "moving", "deleted", "upper", "lower")
FOLLOW = {
    "user_match": "exact",
    "changes": "dirsync",
    "changes_interval": 0.2,
    "repeat_after": 0,
    "group_base": STAFF,
    "user_base": STAFF,
    "primary_group": "none",
}


@pytest.fixture(scope="module", autouse=True)
def entries(controller: Samba) -> None:
    controller.modify(
        "".join(map(user, ("ann", "ben", "cid", "late", "paused", "gone")))
        + "".join(group(each, user_dn("ann")) for each in GROUPS)
        + user("unable", DISABLED)
        + samba.set_password("unable", PASSWORD)
    )
    controller.allow_following(samba.SERVICE)


async def groups_of(resolver: LdapResolver, name: str) -> set[str]:
    outcome = await resolver.resolve(name)
    assert isinstance(outcome, KnownUser), outcome
    return set(outcome.groups)


async def test_members_that_join_and_leave(controller: Samba, domain_resolver: BuildLdap) -> None:
    resolver = await domain_resolver(**FOLLOW)
    sink = Sink()
    async with following(resolver, sink):
        assert sink.reports == []
        controller.modify(member("club", "add", user_dn("ben")))
        await sink.until("ben")
        assert await groups_of(resolver, "ben") == {"club"}
        controller.modify(
            member("club", "delete", user_dn("ben")) + member("club", "add", user_dn("cid"))
        )
        await sink.until("ben", "cid")
        assert await groups_of(resolver, "ben") == set()
        controller.modify(group("new", user_dn("cid")))
        await sink.until("cid")
        assert await groups_of(resolver, "cid") == {"club", "new"}


@pytest.mark.parametrize(
    "ldif",
    [
        rename(group_dn("old"), "CN=renamed"),
        rename(group_dn("moving"), "CN=moving", below=f"CN=Users,{SUFFIX}"),
        member("upper", "add", group_dn("lower")),
    ],
    ids=["renamed", "moved", "nested"],
)
async def test_other_changes_concern_everybody(
    controller: Samba, domain_resolver: BuildLdap, ldif: str
) -> None:
    sink = Sink()
    async with following(await domain_resolver(**FOLLOW), sink):
        controller.modify(ldif)
        await sink.until_all()


async def test_users(controller: Samba, domain_resolver: BuildLdap) -> None:
    resolver = await domain_resolver(**FOLLOW, changes_of_users=True)
    sink = Sink()
    async with following(resolver, sink):
        controller.modify(samba.set_flags("paused", DISABLED))
        await sink.until("paused")
        assert isinstance(await resolver.resolve("paused"), NoSuchUser)
        controller.modify(samba.set_flags("paused", 0))
        await sink.until("paused")
        assert isinstance(await resolver.resolve("paused"), KnownUser)
        lines = ("replace: accountExpires", "accountExpires: 1")
        controller.modify(change(user_dn("paused"), *lines))
        await sink.until("paused")
        assert isinstance(await resolver.resolve("paused"), NoSuchUser)
        controller.modify(user("dan"))
        await sink.until("dan")
        lines = ("replace: sAMAccountName", "sAMAccountName: dean")
        controller.modify(change(user_dn("dan"), *lines))
        await sink.until_all()


async def test_deleted_groups_and_users(controller: Samba, domain_resolver: BuildLdap) -> None:
    """Samba, unlike Active Directory, shows them to administrators only."""
    resolver = await domain_resolver(**FOLLOW, changes_of_users=True, as_admin=True)
    async with following(resolver, sink := Sink()):
        for dn in (group_dn("deleted"), user_dn("gone")):
            controller.modify(delete(dn))
            await sink.until_all()


async def test_the_primary_group_of_a_user(controller: Samba, domain_resolver: BuildLdap) -> None:
    controller.modify(user("prim") + group("primary", user_dn("prim")))
    sink = Sink()
    # The domain controller changes members of both groups as well, which are not below this base.
    given = FOLLOW | {"primary_group": "active_directory", "group_base": f"CN=Builtin,{SUFFIX}"}
    async with following(await domain_resolver(**given, changes_of_users=True), sink):
        rid = controller.rid(group_dn("primary"))
        controller.modify(
            change(user_dn("prim"), "replace: primaryGroupID", f"primaryGroupID: {rid}")
        )
        await sink.until("prim")


async def test_attributes_of_posix_accounts(controller: Samba, domain_resolver: BuildLdap) -> None:
    controller.modify(user("posix"))
    given = FOLLOW | {"primary_group": "gid_number", "changes_of_users": True}
    async with following(await domain_resolver(**given), sink := Sink()):
        for attribute in ("gidNumber", "shadowExpire"):
            lines = (f"replace: {attribute}", f"{attribute}: 7")
            controller.modify(change(user_dn("posix"), *lines))
            await sink.until("posix")


@pytest.mark.parametrize("more", [{"user_match": "casefold"}, {"nested": "in_chain"}])
async def test_vague_settings_concern_everybody(
    controller: Samba, domain_resolver: BuildLdap, more: dict[str, Any]
) -> None:
    name = next(iter(more))
    controller.modify(user(name) + group(f"of {name}"))
    sink = Sink()
    async with following(await domain_resolver(**FOLLOW | more), sink):
        controller.modify(member(f"of {name}", "add", user_dn(name)))
        await sink.until_all()


async def test_a_follower_continues_where_another_one_ended(
    controller: Samba, domain_resolver: BuildLdap
) -> None:
    follower = await domain_resolver(**FOLLOW)
    first = Sink()
    async with following(follower, first):
        pass
    controller.modify(group("later", user_dn("late")))
    second = Sink(first.position)
    async with following(follower, second):
        await second.until("late")
    third = Sink(b"junk")
    async with following(follower, third):
        assert third.reports == [ALL]


async def test_an_account_without_the_right(domain_resolver: BuildLdap) -> None:
    """It can look users up, and its follower says which right is missing."""
    resolver = await domain_resolver(**FOLLOW, bind_dn=f"unable@{DOMAIN}")
    assert isinstance(await resolver.resolve("ann"), KnownUser)
    assert "Replicating Directory Changes" in await why_not_followed(resolver)


async def test_a_global_catalog(controller: Samba, domain_resolver: BuildLdap) -> None:
    resolver = await domain_resolver(**FOLLOW, urls=[f"{controller.url}:3269"])
    async with following(resolver, sink := Sink()):
        controller.modify(user("global") + group("catalog", user_dn("global")))
        await sink.until("global")
