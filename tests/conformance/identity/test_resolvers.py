"""Properties of every resolver. A new one is one more row of CASES.

`tests/e2e/sources` imports these tests, and runs them on real sources.
"""

import asyncio
import functools
import grp
import os
import pwd
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme

from queuegate_server.identity import resolver_types
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Resolver
from tests.support.constants import PROVIDERS, of_provider, take_constants
from tests.support.fakes import graph, keycloak, okta
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.keycloak import FakeRealm, User
from tests.support.fakes.rest_api import PATIENT, ca_file, running_api, secret_file
from tests.support.servers import ldap_entries as entries
from tests.support.servers import slapd

pytestmark = pytest.mark.usefixtures("no_task_left")


class Case(NamedTuple):
    """A type of resolver and what it knows."""

    type: str
    known: dict[str, tuple[str, ...]]
    unknown: tuple[str, ...]
    source: Callable[[Path], AbstractContextManager[Mapping[str, Any]]] = lambda _: nullcontext({})
    """Runs what the resolver asks, given a folder for files, and returns the settings for it."""
    variant: str = ""
    """What distinguishes this case from another one of the same type."""


BY_ATTRIBUTE: dict[str, Any] = {"user_name": "attribute", "user_attribute": "unixName"}


@contextmanager
def _keycloak(folder: Path, **more: Any) -> Iterator[Mapping[str, Any]]:
    realm, ca = FakeRealm(), trustme.CA()
    realm.join("sue", ("eng", "backend"), ("ops",))
    realm.users["sue"].attributes = {"unixName": ["su", "s u:e"]}
    realm.join("tom@example.com", ("ops",))
    realm.users["off"] = User(enabled=False)
    with running_api(realm.answer, ca) as api:
        yield {
            **keycloak.settings(api.url),
            "client_secret_file": secret_file(folder, keycloak.SECRET),
            "ca_file": ca_file(folder, ca),
            **PATIENT,
            **more,
        }


@contextmanager
def _entra(folder: Path) -> Iterator[Mapping[str, Any]]:
    tenant, ca = graph.FakeTenant(), trustme.CA()
    tenant.add_user("sue@example.com", "data", "ops")
    tenant.add_user("off@example.com", "ops", accountEnabled=False)
    with running_api(tenant.answer, ca) as api:
        tenant.url = api.url
        yield {
            **graph.settings(api.url),
            "client_secret_file": secret_file(folder, graph.SECRET),
            "ca_file": ca_file(folder, ca),
            **PATIENT,
        }


@contextmanager
def _okta(folder: Path, **more: Any) -> Iterator[Mapping[str, Any]]:
    organization, ca = okta.FakeOrganization(), trustme.CA()
    organization.add_user("sue@example.com", "data", "ops", unixName="su")
    organization.add_user("off@example.com", "ops", status="SUSPENDED")
    with running_api(organization.answer, ca) as api:
        organization.url = api.url
        yield {
            "url": api.url,
            "token_file": secret_file(folder, okta.TOKEN),
            "ca_file": ca_file(folder, ca),
            **PATIENT,
            **more,
        }


@contextmanager
def _ldap(folder: Path) -> Iterator[Mapping[str, Any]]:
    ca, sue = trustme.CA(), entries.dn("sue")
    ldif = entries.base() + entries.person("sue") + entries.person("tom@example.com")
    ldif += entries.group("data", sue, entries.dn("tom@example.com")) + entries.group("ops", sue)
    with slapd.running_slapd(folder / "slapd", ca, ldif) as server:
        yield {
            "urls": [server.tls_url],
            "ca_file": ca_file(folder, ca),
            "bind_dn": slapd.SERVICE,
            "bind_password_file": secret_file(folder, slapd.PASSWORD),
            "user_base": slapd.PEOPLE,
            "group_base": slapd.GROUPS,
            "connect_timeout": 30,
            "operation_timeout": 30,
            "lookup_timeout": 60,
        }


def _host_users() -> dict[str, tuple[str, ...]]:
    """Return some users of this host, as Python's own modules see them."""
    return {
        account.pw_name: tuple(
            dict.fromkeys(
                _host_group(gid)
                for gid in [account.pw_gid, *os.getgrouplist(account.pw_name, account.pw_gid)]
            )
        )
        for account in pwd.getpwall()[:20]
    }


def _host_group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


CASES = (
    Case("none", {"sue": ("sue",), "*": ("*",), "sue\n": ("sue\n",), "é" * 99: ("é" * 99,)}, ()),
    Case("os", _host_users(), ("no-such-user-here", "root\0", "Root ", "\ud800", "r" * 5000)),
    Case(
        "test",
        {
            "testuser1": ("group1000", "group1001"),
            "testuser2": ("100", "group1001", "group1002"),
            "testuser3": ("group1001", "group1002", "group1003", "group1004"),
            "testuser4": ("901", "902"),
        },
        ("sue", "TESTUSER1", " testuser1", "testuser1\n"),
    ),
    Case(
        "ldap",
        {"sue": ("data", "ops"), "tom@example.com": ("data",)},
        ("nobody", "SUE", " sue", "sue\n", "s*e", "sue)(uid=*", "..", "\ud800"),
        _ldap,
    ),
    Case(
        "keycloak",
        {"sue": ("/eng/backend", "/ops"), "tom@example.com": ("/ops",)},
        ("nobody", "SUE", " sue", "sue\n", "off", ".."),
        _keycloak,
    ),
    Case(
        "keycloak",
        dict.fromkeys(("su", "s u:e"), ("/eng/backend", "/ops")),
        ("sue", "SU", " su", "su\n", 's"u', "s\\u", "x unixName:su", ".."),
        functools.partial(_keycloak, **BY_ATTRIBUTE),
        "-by-attribute",
    ),
    Case(
        "entra",
        {"sue@example.com": (graph.identity("data"), graph.identity("ops"))},
        ("nobody@example.com", "sue", "SUE@example.com", " sue@example.com", "off@example.com"),
        _entra,
    ),
    Case(
        "okta",
        {"sue@example.com": ("data", "ops")},
        ("nobody@example.com", "sue", "SUE@example.com", " sue@example.com", "off@example.com"),
        _okta,
    ),
    Case(
        "okta",
        {"su": ("data", "ops")},
        ("sue@example.com", "SU", " su", "su\n", 'x" or profile.unixName eq "su', ".."),
        functools.partial(_okta, **BY_ATTRIBUTE),
        "-by-attribute",
    ),
)
STRANGE = (
    " ", "\0", "a\0b", "\n", "../../etc/passwd", "*", "(uid=*)", "%s", "-1", "0", "\\", "'", '"',
    "x" * 100_000, "é", "用户", "\ud800", "\udcff", "\U0001f600", "\u202e", "root:", "a:b", "a,b",
)  # fmt: skip


@pytest.fixture(params=CASES, ids=lambda case: case.type + case.variant)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def options(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ResolverOptions]:
    with case.source(tmp_path) as given:
        settings = given
        if case.type in PROVIDERS:
            # A busy machine must not decide the outcome.
            asked = {"connect_timeout": 60.0, **given}
            settings = take_constants(asked, of_provider(case.type), monkeypatch)
        yield resolver_types.resolver_type(case.type).Options.model_validate(settings)


def build(case: Case, options: ResolverOptions) -> Resolver:
    return resolver_types.resolver_type(case.type)(options)


@pytest.fixture
async def resolver(case: Case, options: ResolverOptions) -> AsyncIterator[Resolver]:
    built = build(case, options)
    await built.open()
    yield built
    await built.close()


def test_is_built_without_an_event_loop(case: Case, options: ResolverOptions) -> None:
    assert build(case, options) is not None


async def test_knows_its_users(case: Case, resolver: Resolver) -> None:
    assert case.known
    for user, groups in case.known.items():
        assert await resolver.resolve(user) == KnownUser(groups)


async def test_groups_are_distinct_texts(case: Case, resolver: Resolver) -> None:
    for user in case.known:
        outcome = await resolver.resolve(user)
        assert isinstance(outcome, KnownUser)
        assert isinstance(outcome.groups, tuple)
        assert all(type(group) is str and group for group in outcome.groups)
        assert len(set(outcome.groups)) == len(outcome.groups) > 0


async def test_knows_who_does_not_exist(case: Case, resolver: Resolver) -> None:
    for user in case.unknown:
        outcome = await resolver.resolve(user)
        assert isinstance(outcome, NoSuchUser), user
        assert outcome.detail


async def test_any_name_gets_an_outcome(resolver: Resolver) -> None:
    for user in STRANGE:
        outcome = await asyncio.wait_for(resolver.resolve(user), 60)
        assert isinstance(outcome, KnownUser | NoSuchUser | LookupFailure), user


async def test_many_at_once_get_their_own_answers(case: Case, resolver: Resolver) -> None:
    users = [*case.known, *case.unknown] * 10
    outcomes = await asyncio.gather(*(resolver.resolve(user) for user in users))
    for user, outcome in zip(users, outcomes, strict=True):
        expected = case.known.get(user)
        if expected is None:
            assert isinstance(outcome, NoSuchUser)
        else:
            assert outcome == KnownUser(expected)


async def test_a_cancelled_lookup_disturbs_nobody(case: Case, resolver: Resolver) -> None:
    user, groups = next(iter(case.known.items()))
    for _ in range(50):
        task = asyncio.create_task(resolver.resolve(user))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    for _ in range(2_000):
        outcome = await resolver.resolve(user)
        if outcome == KnownUser(groups):
            return
        # The cancelled lookup of this user may take a moment to come back.
        assert isinstance(outcome, LookupFailure)
        await asyncio.sleep(0.01)
    pytest.fail("the user cannot be looked up any more")


async def test_closes_without_having_been_opened(case: Case, options: ResolverOptions) -> None:
    await build(case, options).close()


async def test_behind_cache_and_limits(case: Case, options: ResolverOptions) -> None:
    clock = ManualClock()
    shared = GuardedResolver(case.type, build(case, options), options, clock=clock)
    groups = GroupResolver(shared, GroupCache(CacheOptions(), clock, clock))
    await shared.resolver.open()
    for user, expected in case.known.items():
        for cached in (False, True):
            answer = await groups.resolve(user)
            assert (answer.entry.outcome, answer.cached) == (KnownUser(expected), cached)
    for user in case.unknown:
        assert isinstance((await groups.resolve(user)).entry.outcome, NoSuchUser)
    await groups.close()
    await shared.close()
    # Closed, it answers what it knows, and nothing else for ever so long.
    user = next(iter(case.known))
    assert groups.known(user) is not None
    answer = await asyncio.wait_for(groups.resolve("somebody new"), 60)
    assert isinstance(answer.entry.outcome, LookupFailure)
