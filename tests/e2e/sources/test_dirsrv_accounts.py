"""Users and groups as the tool of 389 Directory Server makes them, and accounts that it locks."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.e2e.sources.conftest import FOR_ENG, BuildLdap, checked, served
from tests.support.change_sink import Sink, following
from tests.support.eventually import eventually
from tests.support.servers import dirsrv
from tests.support.servers.dirsrv import SUFFIX, Dirsrv, group, running_dirsrv, user, user_dn
from tests.support.servers.ldap_entries import change, entry

pytestmark = [pytest.mark.usefixtures("no_task_left"), pytest.mark.timeout(300)]

PEOPLE = f"ou=people,{SUFFIX}"
GROUPS = f"ou=groups,{SUFFIX}"
TOOL = {"preset": "389ds", "user_base": PEOPLE, "group_base": GROUPS}
"""The settings for what `dsidm` makes."""
CLASSIC = f"uid=classic,{PEOPLE}"
IPA_USERS = ("ann", "past", "future", "eve")
HIDES = '(targetattr = "{}")(version 3.0; acl "hide"; deny (all) userdn = "ldap:///all";)'
WARNING = "  warning: no value of {} of the user is visible"
BOTH = ("nsAccountLock", "krbPrincipalExpiration")
EXPIRY = "%Y%m%d%H%M%SZ"


def made(name: str) -> str:
    return f"uid={name},{PEOPLE}"


def expiring(name: str, seconds: float) -> str:
    """Return the change after which an account of FreeIPA expires in so many seconds."""
    text = time.strftime(EXPIRY, time.gmtime(time.time() + seconds))
    return change(
        user_dn(name),
        "add: objectClass",
        "objectClass: krbPrincipalAux",
        "-",
        "add: krbPrincipalExpiration",
        f"krbPrincipalExpiration: {text}",
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dirsrv]:
    """A server with users and groups made by `dsidm`, and others as FreeIPA has them."""
    units = "".join(
        entry(f"ou={each},{SUFFIX}", ("objectClass", "organizationalUnit"))
        for each in ("people", "groups")
    )
    classic = entry(
        CLASSIC,
        ("objectClass", "inetOrgPerson"),
        *((each, "classic") for each in ("uid", "cn", "sn")),
    )
    ipa = "".join(map(user, IPA_USERS)) + group("data", *map(user_dn, IPA_USERS))
    folder = tmp_path_factory.mktemp("dirsrv")
    with running_dirsrv(folder, units + classic + ipa) as server:
        for number, name in enumerate(("alice", "bob", "carol")):
            server.manage(
                "user", "create", "--uid", name, "--cn", name, "--displayName", name,
                "--uidNumber", str(1000 + number), "--gidNumber", "1000", "--homeDirectory", "/",
            )  # fmt: skip
        server.manage("group", "create", "--cn", "eng")
        server.manage("posixgroup", "create", "--cn", "staff", "--gidNumber", "1000")
        for name in (made("alice"), made("bob"), CLASSIC):
            server.manage("group", "add_member", "eng", name)
        # Releases before 3 have no command for this kind of group.
        server.modify(
            entry(
                f"cn=ops,{GROUPS}",
                ("objectClass", "groupOfUniqueNames"),
                ("cn", "ops"),
                ("uniqueMember", made("alice")),
            )
        )
        server.modify(expiring("eve", 86_400))
        server.modify(change(f"cn=staff,{GROUPS}", "add: member", f"member: {made('alice')}"))
        yield server


async def until(outcome: type[KnownUser | NoSuchUser], resolver: LdapResolver, name: str) -> None:
    """Wait for the outcome of a lookup: the server answers before it applies an ACI or a role."""
    async with asyncio.timeout(120):
        while not isinstance(  # noqa: ASYNC110 - the server tells nobody
            await resolver.resolve(name), outcome
        ):
            await asyncio.sleep(0.1)


async def test_what_the_tool_makes_is_found(source: Dirsrv, ldap_resolver: BuildLdap) -> None:
    resolver = await ldap_resolver(source, **TOOL)
    assert await resolver.resolve("alice") == KnownUser(("eng", "staff", "ops"))
    assert await resolver.resolve("classic") == KnownUser(("eng",))
    assert await resolver.resolve("carol") == KnownUser(())
    assert set((await resolver.all_users(10)).names) == {"alice", "bob", "carol", "classic"}
    listing = MemberListing(["eng", "ops", "staff"])
    await resolver.members(listing)
    found = {name: set(listed.users) for name, listed in listing.groups.items()}
    assert found == {"eng": {"alice", "bob", "classic"}, "ops": {"alice"}, "staff": {"alice"}}


async def test_an_account_that_the_tool_locks(source: Dirsrv, ldap_resolver: BuildLdap) -> None:
    resolver = await ldap_resolver(source, **TOOL, changes_of_users=True)
    kept = await ldap_resolver(source, **TOOL, disabled_users="keep")
    async with following(resolver, sink := Sink()):
        source.manage("account", "lock", made("bob"))
        await sink.until("bob")
        outcome = await resolver.resolve("bob")
        assert isinstance(outcome, NoSuchUser)
        assert outcome.detail == "the user's account is disabled (nsAccountLock)"
        assert await kept.resolve("bob") == KnownUser(("eng",))
        assert "bob" not in (await resolver.all_users(10)).names
        source.manage("account", "unlock", made("bob"))
        await sink.until("bob")
        assert await resolver.resolve("bob") == KnownUser(("eng",))


async def test_an_account_whose_role_is_locked(source: Dirsrv, ldap_resolver: BuildLdap) -> None:
    """The server computes nsAccountLock for the members of the role."""
    source.manage("role", "create-managed", "--cn", "left")
    role = f"cn=left,{SUFFIX}"
    source.modify(change(made("carol"), "add: nsRoleDN", f"nsRoleDN: {role}"))
    resolver = await ldap_resolver(source, **TOOL)
    assert isinstance(await resolver.resolve("carol"), KnownUser)
    source.manage("role", "lock", role)
    await until(NoSuchUser, resolver, "carol")
    assert isinstance(await resolver.resolve("alice"), KnownUser)
    source.manage("role", "unlock", role)
    await until(KnownUser, resolver, "carol")


async def test_an_account_of_freeipa_that_expires(source: Dirsrv, ldap_resolver: BuildLdap) -> None:
    resolver = await ldap_resolver(source, changes_of_users=True)
    async with following(resolver, sink := Sink()):
        for name, seconds in (("past", -60), ("future", 86_400)):
            source.modify(expiring(name, seconds))
            await sink.until(name)
    outcome = await resolver.resolve("past")
    assert isinstance(outcome, NoSuchUser)
    assert outcome.detail == "the user's account has expired (krbPrincipalExpiration)"
    assert await resolver.resolve("future") == KnownUser(("data",))


@pytest.mark.parametrize(
    ("preset", "hidden"), [("389ds", BOTH), ("freeipa", BOTH), ("freeipa", BOTH[:1])]
)
async def test_a_lock_that_may_not_be_read(
    source: Dirsrv, ldap_resolver: BuildLdap, tmp_path: Path, preset: str, hidden: tuple[str, ...]
) -> None:
    """Nobody becomes unknown because of a right that the bind account lacks; a warning says so.

    That a value of another attribute is visible, such as when eve expires, hides nothing.
    """
    name, more = ("alice", TOOL) if preset == "389ds" else ("ann", {})
    dn = made(name) if preset == "389ds" else user_dn(name)
    source.modify(change(dn, "replace: nsAccountLock", "nsAccountLock: true"))
    resolver = await ldap_resolver(source, **more)
    assert isinstance(await resolver.resolve(name), NoSuchUser)
    settings = dirsrv.settings(tmp_path, source) | more
    hides = HIDES.format(" || ".join(hidden))
    warning = WARNING.format(" or ".join(hidden))
    source.modify(change(SUFFIX, "add: aci", f"aci: {hides}"))
    try:
        await until(KnownUser, resolver, name)
        assert warning in await asyncio.to_thread(checked, tmp_path, settings, name)
    finally:
        source.modify(change(SUFFIX, "delete: aci", f"aci: {hides}"))
    await until(NoSuchUser, resolver, name)
    # What is not hidden gives no warning, whether the account has a value or not.
    other = "bob" if preset == "389ds" else "eve"
    assert "warning:" not in await asyncio.to_thread(checked, tmp_path, settings, other)
    source.modify(change(dn, "delete: nsAccountLock"))
    assert isinstance(await resolver.resolve(name), KnownUser)


def test_a_server_denies_who_is_locked(source: Dirsrv, tmp_path: Path) -> None:
    settings: dict[str, Any] = dirsrv.settings(tmp_path, source) | TOOL
    with served(tmp_path, FOR_ENG, type="ldap", changes_of_users=True, **settings) as client:
        assert client.check("classic", "root").allowed
        source.manage("account", "lock", CLASSIC)
        eventually(lambda: client.check("classic", "root").allowed, expected=False)
        assert "classic" not in [user.user for user in next(client.list_users("root")).users]
        assert "is disabled (nsAccountLock)" in str(client.explain("classic", "root"))
        source.manage("account", "unlock", CLASSIC)
        eventually(lambda: client.check("classic", "root").allowed, expected=True)
