"""Entries that fail lookups do not open the circuit breaker, unlike faults of the directory or of
the settings.
"""

from typing import Any

import pytest

from queuegate_server.identity.guarded_resolver import CircuitState, GuardedResolver
from queuegate_server.identity.options import ResolverOptions
from tests.integration.ldap.conftest import Build
from tests.support.fakes.active_directory import GIVEN as DOMAIN
from tests.support.fakes.active_directory import Domain
from tests.support.fakes.ldap_server import Answer, Search, fake_directory
from tests.support.resolvers import lookup_failure
from tests.support.servers.ldap_entries import change, dn, entry, posix_group
from tests.support.servers.slapd import GROUPS, PEOPLE, SUFFIX, Slapd

UNIQUE = {"unique_group_names": True, "group_base": SUFFIX}


async def state_after(resolver: Any, user: str, detail: str) -> CircuitState:
    """Return the state of a breaker that the first failure opens."""
    guarded = GuardedResolver("corp", resolver, ResolverOptions(lookup_timeout=60))
    guarded.breaker.max_failures = 1
    assert detail in await lookup_failure(guarded, user)
    return guarded.breaker.state


@pytest.mark.parametrize(
    ("user", "given", "detail"),
    [
        ("twin", {"user_base": SUFFIX}, "2 entries match the user"),
        ("alice", {"max_groups": 1}, "more than one entry"),
        ("alice", {"primary_group": "active_directory"}, "no readable primaryGroupID"),
        ("nobody", {"primary_group": "gid_number"}, "no readable gidNumber"),
        ("alice", {"primary_group": "gid_number", "group_base": SUFFIX}, "more than one entry"),
        ("alice", {**UNIQUE, "group_filter": "(cn=analytics)"}, "have the name 'analytics'"),
        ("alice@lab.test", {"user_filter": "(mail={user})"}, "of mail with the option lang-en"),
    ],
)
async def test_data_of_the_user(
    resolver: Build, own_directory: Slapd, user: str, given: dict[str, Any], detail: str
) -> None:
    own_directory.add(
        posix_group("analytics", 600)
        + posix_group("staff again", 500)
        + entry(f"uid=nobody,{PEOPLE}", ("objectClass", "inetOrgPerson"), ("uid", "nobody"),
                ("cn", "nobody"), ("sn", "nobody"))
    )  # fmt: skip
    # Anybody who may edit an address in bob's entry.
    own_directory.modify(change(dn("bob"), "add: mail;lang-en", "mail;lang-en: alice@lab.test"))
    opened = await resolver(own_directory, **given)
    assert await state_after(opened, user, detail) is CircuitState.CLOSED


async def test_a_primary_group_outside_the_base(resolver: Build) -> None:
    domain = Domain()

    def answer(search: Search) -> Answer:
        return Answer() if "objectSid" in search.filter else domain(search)

    async with fake_directory(answer) as fake:
        opened = await resolver(fake.url, **DOMAIN)
        detail = "primary group is not below group_base"
        assert await state_after(opened, "alice", detail) is CircuitState.CLOSED


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"user_base": f"ou=none,{SUFFIX}"}, "the search base does not exist"),
        ({"group_base": f"ou=none,{SUFFIX}"}, "the search base does not exist"),
        ({"nested": "in_chain"}, "not Active Directory"),
        ({"member_attribute": "nobody"}, "no attribute nobody"),
        ({"user_filter": "(sAMAccountName={user})"}, "no attribute sAMAccountName"),
    ],
)
async def test_settings_that_do_not_fit(
    resolver: Build, directory: Slapd, given: dict[str, Any], detail: str
) -> None:
    opened = await resolver(directory, **{"group_base": GROUPS, **given})
    assert await state_after(opened, "alice", detail) is CircuitState.OPEN


async def test_a_name_that_nobody_can_have(resolver: Build) -> None:
    opened = await resolver("ldap://127.0.0.1:1", start_tls=False, allow_plaintext_bind=True)
    guarded = GuardedResolver("corp", opened, ResolverOptions())
    guarded.breaker.max_failures = 2
    for user in ("alice", "bob\0", "bob"):
        await guarded.resolve(user)
    assert guarded.breaker.state is CircuitState.OPEN
