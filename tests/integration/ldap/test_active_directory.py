"""Active Directory only, against a small fake server."""

import pytest

from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from tests.integration.ldap.conftest import Build
from tests.support.fakes.active_directory import ALICE, BASE, GIVEN, Domain
from tests.support.fakes.ldap_server import Answer, Search, fake_directory
from tests.support.resolvers import lookup_failure


@pytest.mark.parametrize("groups", [0, 3, 1500, 1501, 4000])
async def test_ranges_are_followed_to_their_end(resolver: Build, groups: int) -> None:
    domain = Domain(groups)
    async with fake_directory(domain) as fake:
        opened = await resolver(fake.url, **GIVEN)
        outcome = await opened.resolve("alice")
        assert outcome == KnownUser(("Domain Users", *domain.names))


@pytest.mark.parametrize("groups", [4000])
async def test_a_range_that_ends_too_soon_is_a_failure(resolver: Build, groups: int) -> None:
    domain = Domain(groups)
    domain.stop_after = 1500
    async with fake_directory(domain) as fake:
        opened = await resolver(fake.url, **GIVEN)
        failure = await lookup_failure(opened, "alice", source_works=True)
        assert "only part of memberOf" in failure


async def test_ranges_have_the_bound_of_groups(resolver: Build) -> None:
    async with fake_directory(Domain(4000)) as fake:
        outcome = await (await resolver(fake.url, **GIVEN, max_groups=2000)).resolve("alice")
        assert isinstance(outcome, LookupFailure)
        assert len(fake.searches) < 5


async def test_in_chain_asks_for_the_user_and_the_primary_group(resolver: Build) -> None:
    domain = Domain()
    domain.chain = ("direct", "above", "far above")
    async with fake_directory(domain) as fake:
        opened = await resolver(fake.url, **GIVEN, nested="in_chain")
        for _ in range(2):
            outcome = await opened.resolve("alice")
            assert outcome == KnownUser(("Domain Users", "direct", "above", "far above"))
        # Whether it is Active Directory is asked once a connection.
        assert sum(search.base == "" for search in fake.searches) == 1


async def test_in_chain_needs_the_capability(resolver: Build) -> None:
    domain = Domain()
    domain.root = {"supportedCapabilities": [b"1.2"]}
    async with fake_directory(domain) as fake:
        outcome = await (await resolver(fake.url, **GIVEN, nested="in_chain")).resolve("alice")
        assert isinstance(outcome, LookupFailure)


async def test_names_without_case(resolver: Build) -> None:
    async with fake_directory(Domain(1)) as fake:
        opened = await resolver(fake.url, **GIVEN, name_case="lower")
        assert await opened.resolve("alice") == KnownUser(("domain users", "g0"))
        exact = await resolver(fake.url, **(GIVEN | {"user_match": "exact"}))
        assert isinstance(await exact.resolve("alice"), NoSuchUser)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("80090308: LdapErr: DSID-0C090446, data 532, v4563", "the password has expired"),
        ("80090308: LdapErr: DSID-0C090446, data 775, v4563", "the account is locked"),
        ("80090308: LdapErr: DSID-0C090446, data 52e, v4563", "wrong password"),
    ],
)
async def test_reason_of_a_refused_bind(resolver: Build, text: str, reason: str) -> None:
    async with fake_directory(Domain()) as fake:
        fake.bind_code, fake.bind_text = 49, text
        assert reason in await lookup_failure(await resolver(fake.url, **GIVEN), "alice")


@pytest.mark.parametrize("groups", [1100])
async def test_names_of_very_many_groups_are_read_in_batches(resolver: Build, groups: int) -> None:
    def answer(search: Search) -> Answer:
        if search.scope != 0:
            attributes = {"sAMAccountName": [b"alice"], "memberOf": dns}
            return Answer([(ALICE, attributes)])
        number = search.base.partition(",")[0].removeprefix("CN=g")
        return Answer([(search.base, {"displayName": [f"group {number}".encode()]})])

    dns = [f"CN=g{number},OU=Groups,{BASE}".encode() for number in range(groups)]
    more = {"primary_group": "none", "group_name_attribute": "displayName"}
    async with fake_directory(answer) as fake:
        opened = await resolver(fake.url, **(GIVEN | more))
        outcome = await opened.resolve("alice")
        assert outcome == KnownUser(tuple(f"group {number}" for number in range(groups)))
        # Nothing waits in the queue, so it may be as short as it can be.
        tight = await resolver(fake.url, **(GIVEN | more), max_in_flight=1, max_queued=0)
        assert await tight.resolve("alice") == outcome
