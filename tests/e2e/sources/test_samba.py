"""Lookups in a real domain controller of Active Directory: Samba."""

import asyncio
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolver import KnownUser, NoSuchUser, Outcome
from tests.e2e.sources.conftest import FOR_ENG, BuildLdap, checked, served
from tests.support.eventually import eventually
from tests.support.resolvers import lookup_failure
from tests.support.servers import samba
from tests.support.servers.ldap_entries import change
from tests.support.servers.queuegate_server import server_command
from tests.support.servers.samba import (
    DISABLED,
    DOMAIN,
    STAFF,
    Samba,
    group,
    group_dn,
    user,
    user_dn,
)

FLAGS_ID = "bf967a68-0de6-11d0-a285-00aa003049e2"
"""The schemaIDGUID of userAccountControl (MS-ADA3 2.341)."""

pytestmark = [pytest.mark.usefixtures("no_task_left"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def entries(controller: Samba) -> None:
    controller.modify(
        "".join(map(user, ("alice", "bob")))
        + group("direct", user_dn("alice"))
        + group("above", group_dn("direct"))
        + group("far above", group_dn("above"))
        + group("around", group_dn("far above"))
        + samba.member("direct", "add", group_dn("around"))
    )


def groups_of(outcome: Outcome) -> set[str]:
    assert isinstance(outcome, KnownUser), outcome
    return set(outcome.groups)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {"direct"}),
        ({"nested": "in_chain"}, {"direct", "above", "far above", "around", "Users"}),
        ({"nested": "walk"}, {"direct", "above", "far above", "around", "Users"}),
        ({"nested": "in_chain", "group_base": STAFF, "primary_group": "none"},
         {"direct", "above", "far above", "around"}),
    ],
)  # fmt: skip
async def test_groups(domain_resolver: BuildLdap, more: dict[str, Any], expected: set[str]) -> None:
    """The primary group comes first, and is in no group's `member`."""
    resolver = await domain_resolver(**more)
    for name in ("alice", "ALICE"):
        outcome = await resolver.resolve(name)
        primary = set() if "primary_group" in more else {"Domain Users"}
        assert groups_of(outcome) == expected | primary
        assert isinstance(outcome, KnownUser)
        assert not primary or outcome.groups[0] == "Domain Users"


@pytest.mark.parametrize("nested", ["off", "in_chain", "walk"])
async def test_another_primary_group(
    controller: Samba, domain_resolver: BuildLdap, nested: str
) -> None:
    """The primary group may be in groups itself, and then no longer lists the user as a member."""
    name = f"primary-{nested}"
    own, above = f"{name}-group", f"{name}-above"
    controller.modify(user(name) + group(own, user_dn(name)) + group(above, group_dn(own)))
    rid = controller.rid(group_dn(own))
    controller.modify(change(user_dn(name), "replace: primaryGroupID", f"primaryGroupID: {rid}"))
    outcome = await (await domain_resolver(nested=nested)).resolve(name)
    assert isinstance(outcome, KnownUser)
    assert outcome.groups[0] == own
    indirect = set() if nested == "off" else {above, "Users"}
    assert set(outcome.groups[1:]) == {"Domain Users"} | indirect


async def test_disabled_and_expired_accounts(controller: Samba, domain_resolver: BuildLdap) -> None:
    now = int((time.time() + 11_644_473_600) * 10_000_000)
    controller.modify(
        user("off", DISABLED)
        + user("past", 0, ("accountExpires", str(now - 10_000_000)))
        + user("future", 0, ("accountExpires", str(now + 10**12)))
        + user("never", 0, ("accountExpires", "0"))
        + group("staff", *map(user_dn, ("off", "past", "future", "never")))
    )
    resolver, kept = await domain_resolver(), await domain_resolver(disabled_users="keep")
    for name in ("off", "past", "future", "never"):
        assert groups_of(await kept.resolve(name)) == {"Domain Users", "staff"}
    for name, attribute in (("off", "userAccountControl"), ("past", "accountExpires")):
        outcome = await resolver.resolve(name)
        assert isinstance(outcome, NoSuchUser)
        assert f"({attribute})" in outcome.detail
    for name in ("future", "never"):
        assert groups_of(await resolver.resolve(name)) == {"Domain Users", "staff"}
    users = set((await resolver.all_users(10_000)).names)
    assert {"future", "never"} <= users
    assert not users & {"off", "past", "krbtgt", "Guest"}
    controller.modify(samba.set_flags("off", 0))
    assert groups_of(await resolver.resolve("off")) == {"Domain Users", "staff"}


async def test_flags_that_may_not_be_read(
    controller: Samba, domain_resolver: BuildLdap, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The account is kept; `source-check` and, after 20 users, the log warn of it."""
    controller.modify(user("veiled", DISABLED) + group("veils", user_dn("veiled")))
    assert isinstance(await (await domain_resolver()).resolve("veiled"), NoSuchUser)
    controller.hide(user_dn("veiled"), FLAGS_ID)
    resolver = await domain_resolver()
    warning = (
        "none of 20 users has a value of userAccountControl; the bind account has no permission"
    )
    for count in range(1, 26):
        assert groups_of(await resolver.resolve("veiled")) == {"Domain Users", "veils"}
        assert caplog.text.count(warning) == (count >= 20)
    settings = samba.settings(tmp_path, controller)
    outputs = []
    for name in ("veiled", "bob"):
        outputs.append(await asyncio.to_thread(checked, tmp_path, settings, name))
        assert f"resolver corp (ldap), user '{name}'" in outputs[-1]
    assert "warning: no value of userAccountControl of the user is visible" in outputs[0]
    assert "warning:" not in outputs[1]


async def test_members(controller: Samba, domain_resolver: BuildLdap) -> None:
    """The lists of members contain everybody whom a lookup finds in the group."""
    controller.modify(
        "".join(map(user, ("m1", "m2")))
        + group("inner", user_dn("m1"))
        + group("outer", user_dn("m2"), group_dn("inner"))
    )
    listing = MemberListing(["outer", "Domain Users"])
    await (await domain_resolver(nested="in_chain")).members(listing)
    assert listing.groups["outer"].users == {"m2": (), "m1": ("inner",)}
    assert {"m1", "m2"} <= listing.groups["Domain Users"].users.keys()
    assert listing.groups["outer"].missing == listing.groups["Domain Users"].missing == ""


async def test_start_tls(controller: Samba, domain_resolver: BuildLdap) -> None:
    resolver = await domain_resolver(urls=[controller.start_tls_url])
    assert groups_of(await resolver.resolve("alice")) == {"direct", "Domain Users"}


async def test_a_global_catalog(controller: Samba, domain_resolver: BuildLdap) -> None:
    """That of the only domain has all of its groups."""
    resolver = await domain_resolver(urls=[f"{controller.url}:3269"], nested="in_chain")
    assert groups_of(await resolver.resolve("alice")) >= {"direct", "above", "far above"}


async def test_a_bind_without_encryption(controller: Samba, domain_resolver: BuildLdap) -> None:
    resolver = await domain_resolver(
        urls=[controller.start_tls_url], start_tls=False, allow_plaintext_bind=True
    )
    assert "bind" in (await lookup_failure(resolver, "alice")).lower()


async def test_reason_of_a_refused_bind(
    controller: Samba, domain_resolver: BuildLdap, tmp_path: Path
) -> None:
    controller.modify(user("svc", DISABLED) + samba.set_password("svc", samba.PASSWORD))
    given = {"bind_dn": f"svc@{DOMAIN}"}
    assert isinstance(await (await domain_resolver(**given)).resolve("alice"), KnownUser)
    wrong = tmp_path / "wrong"
    wrong.write_text("an0ther Pass#1")
    resolver = await domain_resolver(**given, bind_password_file=str(wrong))
    assert "wrong password" in await lookup_failure(resolver, "alice")
    controller.modify(samba.set_flags("svc", DISABLED))
    resolver = await domain_resolver(**given)
    assert "the account is disabled" in await lookup_failure(resolver, "alice")


@pytest.mark.parametrize("starts_tls", [True, False])
def test_servers_from_the_domain_s_dns(controller: Samba, tmp_path: Path, starts_tls: bool) -> None:
    """Active Directory publishes `_ldap._tcp` only, so LDAPS needs `urls`."""
    given = samba.settings(tmp_path, controller) | {
        "urls": [], "discover": DOMAIN, "start_tls": starts_tls, "type": "ldap",
    }  # fmt: skip
    config = tmp_path / "queuegate.yaml"
    config.write_text(yaml.safe_dump({"resolvers": {"corp": given}}))
    command = server_command("source-check", "--config", str(config), "corp", "alice")
    done = subprocess.run(
        controller.inside(*command), capture_output=True, text=True, check=False, timeout=300
    )
    output = done.stdout + done.stderr
    if starts_tls:
        assert done.returncode == 0, output
        assert f"ldap://dc1.{DOMAIN}:389" in output
        assert "groups (2): Domain Users, direct" in output
    else:
        assert done.returncode == 1
        assert "no servers for _ldaps._tcp" in output


def test_a_server_denies_whom_the_domain_has_disabled(controller: Samba, tmp_path: Path) -> None:
    controller.modify(user("staff1") + user("staff2") + group("eng", user_dn("staff1")))
    given = samba.settings(tmp_path, controller) | {"changes": "dirsync"}
    controller.allow_following(samba.SERVICE)
    with served(
        tmp_path, FOR_ENG, type="ldap", nested="in_chain", changes_of_users=True, **given
    ) as client:
        assert client.check("staff1", "root").allowed
        assert not client.check("staff2", "root").allowed
        controller.modify(samba.member("eng", "add", user_dn("staff2")))
        eventually(lambda: client.check("staff2", "root").allowed, expected=True)
        assert [user.user for user in next(client.list_users("root")).users] == ["staff1", "staff2"]
        controller.modify(samba.set_flags("staff1", DISABLED))
        eventually(lambda: client.check("staff1", "root").allowed, expected=False)
        assert [user.user for user in next(client.list_users("root")).users] == ["staff2"]
        explanation = client.explain("staff1", "root")
        assert "the user's account is disabled (userAccountControl)" in str(explanation)
