"""`changes: syncrepl` with a real 389 Directory Server, set up like that of FreeIPA."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.e2e.sources.conftest import FOR_ENG, BuildLdap, served
from tests.support.change_sink import ALL, Sink, following
from tests.support.eventually import eventually
from tests.support.servers import dirsrv
from tests.support.servers.dirsrv import (
    ACCOUNTS,
    SUFFIX,
    Dirsrv,
    group,
    group_dn,
    member,
    replicate,
    running_dirsrv,
    user,
    user_dn,
)
from tests.support.servers.ldap_entries import change, delete, entry, rename

pytestmark = [pytest.mark.usefixtures("no_task_left"), pytest.mark.timeout(300)]


DELETED = f"cn=deleted users,cn=accounts,cn=provisioning,{SUFFIX}"
"""Where FreeIPA moves users whom it preserves; the bind account may not read them."""
USERS = ("alice", "bob", "carol", "dave", "kept", "lonely", "locked", "staff")
ENTRIES = (
    "".join(map(user, USERS))
    + group("data", user_dn("alice"))
    + group("project", group_dn("data"))
    + group("former", user_dn("kept"), user_dn("bob"))
    + group("other", user_dn("dave"))
    + group("eng", user_dn("staff"))
    + "".join(
        entry(dn, ("objectClass", "nsContainer"), ("cn", dn.partition(",")[0][3:]))
        for dn in (f"cn=provisioning,{SUFFIX}", f"cn=accounts,cn=provisioning,{SUFFIX}")
    )
    + entry(
        DELETED,
        ("objectClass", "nsContainer"),
        ("cn", "deleted users"),
        ("aci", '(targetattr = "*")(version 3.0; acl "n"; deny (all) userdn = "ldap:///all";)'),
    )
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dirsrv]:
    """A server whose entries each test changes for itself."""
    with running_dirsrv(tmp_path_factory.mktemp("dirsrv"), ENTRIES) as server:
        yield server


async def groups_of(resolver: LdapResolver, name: str) -> set[str]:
    outcome = await resolver.resolve(name)
    assert isinstance(outcome, KnownUser), outcome
    return set(outcome.groups)


async def test_members_that_join_and_leave(source: Dirsrv, ldap_resolver: BuildLdap) -> None:
    """Once a change is reported, the next lookup shows it, although groups come from memberOf."""
    resolver = await ldap_resolver(source)
    sink = Sink()
    async with following(resolver, sink):
        assert sink.reports == []
        assert await groups_of(resolver, "alice") == {"data", "project"}
        source.modify(member("data", "add", user_dn("carol")))
        await sink.until("carol")
        assert await groups_of(resolver, "carol") == {"data", "project"}
        source.modify(member("data", "delete", user_dn("carol")))
        await sink.until("carol")
        assert await groups_of(resolver, "carol") == set()
        # A member who leaves and returns is reported twice.
        source.modify(
            member("other", "add", user_dn("bob")) + member("other", "delete", user_dn("bob"))
        )
        await sink.until("bob")


async def test_groups_that_appear_change_their_name_and_disappear(
    source: Dirsrv, ldap_resolver: BuildLdap
) -> None:
    sink = Sink()
    async with following(await ldap_resolver(source), sink):
        # dave is a member himself, and alice of a group in it.
        source.modify(group("new", user_dn("dave"), group_dn("data")))
        await sink.until("alice", "dave")
        source.modify(rename(group_dn("new"), "cn=newer"))
        await sink.until("alice", "dave")
        source.modify(change(group_dn("newer"), "delete: objectClass", "objectClass: ipaUserGroup"))
        await sink.until("alice", "dave")
        source.modify(change(group_dn("newer"), "add: objectClass", "objectClass: ipaUserGroup"))
        await sink.until("alice", "dave")
        source.modify(rename(group_dn("newer"), "cn=newer", below=ACCOUNTS))
        await sink.until("alice", "dave")
        source.modify(rename(f"cn=newer,{ACCOUNTS}", "cn=newer", below=dirsrv.GROUPS))
        await sink.until("alice", "dave")
        source.modify(delete(group_dn("newer")))
        await sink.until("alice", "dave")


async def test_users(source: Dirsrv, ldap_resolver: BuildLdap) -> None:
    sink = Sink()
    unlocked = "(&(objectClass=posixAccount)(!(nsAccountLock=TRUE))(uid={user}))"
    resolver = await ldap_resolver(source, changes_of_users=True, user_filter=unlocked)
    async with following(resolver, sink):
        source.modify(user("erin"))
        await sink.until("erin")
        source.modify(rename(user_dn("erin"), "uid=eve"))
        await sink.until("erin", "eve")
        source.modify(delete(user_dn("eve")))
        await sink.until("eve")
        for verb, value in (("add", "TRUE"), ("delete", "TRUE")):
            lines = (f"{verb}: nsAccountLock", f"nsAccountLock: {value}")
            source.modify(change(user_dn("locked"), *lines))
            await sink.until("locked")


async def test_a_preserved_user(source: Dirsrv, ldap_resolver: BuildLdap) -> None:
    """Whether the user is in a group or not."""
    sink = Sink()
    async with following(await ldap_resolver(source, changes_of_users=True), sink):
        for name in ("lonely", "kept"):
            source.modify(rename(user_dn(name), f"uid={name}", below=DELETED))
            await sink.until(name)


async def test_changes_on_another_server(tmp_path: Path, ldap_resolver: BuildLdap) -> None:
    """FreeIPA replicates changes among its servers."""
    with (
        running_dirsrv(tmp_path / "first", ENTRIES) as first,
        running_dirsrv(tmp_path / "second", "") as second,
    ):
        replicate(first, second)
        resolver = await ldap_resolver(second, changes_of_users=True)
        sink = Sink()
        async with following(resolver, sink):
            # A group and its member, whose memberOf changes, may be reported one after the other.
            for name, ldif in (
                ("carol", member("data", "add", user_dn("carol"))),
                ("alice", member("data", "delete", user_dn("alice"))),
                ("dave", rename(group_dn("other"), "cn=others")),
                ("erin", user("erin")),
                ("bob", delete(user_dn("bob"))),
            ):
                assert name not in sink.names()
                first.modify(ldif)
                while name not in sink.names():
                    await sink.change()
        assert ALL not in sink.reports


def test_a_server_denies_who_has_left(source: Dirsrv, tmp_path: Path) -> None:
    settings = dirsrv.settings(tmp_path, source)
    with served(tmp_path, FOR_ENG, type="ldap", **settings) as client:
        assert client.check("staff", "root").allowed
        source.modify(member("eng", "delete", user_dn("staff")))
        eventually(lambda: client.check("staff", "root").allowed, expected=False)
