"""Users, groups, names and members of a tenant, behind a fake of Microsoft Graph."""

import base64
import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509 import Certificate
from cryptography.x509.oid import NameOID

from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.members import CannotListUsers, MemberListing
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from queuegate_server.identity.resolvers.entra.entra_options import CLOUDS, EntraOptions
from queuegate_server.identity.resolvers.entra.entra_resolver import EntraResolver
from tests.integration.rest.conftest import Build
from tests.support.atomic_files import replace
from tests.support.fakes.assertions import PSS, pem, verified
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.graph import (
    API,
    ASSERTION,
    CLIENT,
    SECRET,
    TENANT,
    TOKEN,
    FakeTenant,
    error,
    identity,
    settings,
)
from tests.support.fakes.rest_api import Reply, Request, RestApi, running_api, secret_file
from tests.support.resolvers import lookup_failure
from tests.support.rows import rows

pytestmark = pytest.mark.usefixtures("no_task_left")

ALICE, BOB, CAROL = (f"{name}@example.com" for name in ("alice", "bob", "carol"))


@pytest.fixture
def tenant() -> FakeTenant:
    """alice is in two security groups and a Microsoft 365 group; bob's account is disabled."""
    tenant = FakeTenant()
    tenant.add_group("news", securityEnabled=False)
    tenant.add_group("gpu", onPremisesSyncEnabled=True, onPremisesSamAccountName="GPU-Users")
    tenant.add_user(ALICE, "data", "gpu", "news", onPremisesSamAccountName="alice")
    tenant.add_user(BOB, "data", accountEnabled=False)
    tenant.add_user(CAROL)
    return tenant


@pytest.fixture
def api(tenant: FakeTenant, ca: trustme.CA) -> Iterator[RestApi]:
    with running_api(tenant.answer, ca) as running:
        tenant.url = running.url
        yield running


@pytest.fixture
def kind() -> type[EntraResolver]:
    return EntraResolver


@pytest.fixture
def given(api: RestApi, tmp_path: Path) -> dict[str, Any]:
    return {**settings(api.url), "client_secret_file": secret_file(tmp_path, SECRET)}


@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        ({}, (identity("data"), identity("gpu"))),
        ({"groups": "all"}, (identity("data"), identity("gpu"), identity("news"))),
        ({"group_name": "display_name"}, ("data", "gpu")),
        ({"group_name": "display_name", "groups": "synced"}, ("gpu",)),
        ({"group_name": "sam_account_name"}, ("GPU-Users",)),
        ({"group_name": "sam_account_name", "name_case": "lower"}, ("gpu-users",)),
    ],
)
async def test_groups(resolver: Build, settings: dict[str, Any], groups: tuple[str, ...]) -> None:
    assert await (await resolver(**settings)).resolve(ALICE) == KnownUser(groups)


@pytest.mark.parametrize(
    ("settings", "user"),
    [
        ({"user_suffix": "@example.com"}, "alice"),
        ({"user_name": "sam_account_name"}, "alice"),
        ({"user_match": "casefold"}, "ALICE@example.com"),
    ],
)
async def test_names_of_users(resolver: Build, settings: dict[str, Any], user: str) -> None:
    assert isinstance(await (await resolver(**settings)).resolve(user), KnownUser)


@rows
async def test_who_does_not_exist(resolver: Build, user: str, detail: str) -> None:
    outcome = await (await resolver()).resolve(user)
    assert isinstance(outcome, NoSuchUser), outcome
    assert detail in outcome.detail
    assert outcome.is_final == (detail == "disabled")
    assert outcome.source_asked == (detail not in {"can have this name", "set user_suffix"})


@pytest.mark.parametrize(
    "user", ["o'neil@example.com", "a_b.org#EXT#@example.com", "$x@example.com", "a+b&c=d@x.org"]
)
async def test_names_are_sent_as_one_segment(
    resolver: Build, api: RestApi, tenant: FakeTenant, user: str
) -> None:
    tenant.add_user(user, "data")
    assert await (await resolver()).resolve(user) == KnownUser((identity("data"),))
    (path,) = (path for path in api.paths() if path.startswith(f"{API}/users") and "/t" not in path)
    assert path.count("/") == (2 if user[0] == "$" else 3)
    assert not {"'", "#", "&", "+"} & set(path.removeprefix(f"{API}/users"))


async def test_a_filter_cannot_be_escaped_from(resolver: Build, tenant: FakeTenant) -> None:
    asked = await resolver(user_name="sam_account_name")
    assert isinstance(await asked.resolve("x' or accountEnabled eq 'true"), NoSuchUser)
    tenant.add_user("o@example.com", onPremisesSamAccountName="o'neil")
    assert await asked.resolve("o'neil") == KnownUser(())
    tenant.add_user("p@example.com", onPremisesSamAccountName="o'neil")
    assert "several users" in await lookup_failure(asked, "o'neil")


async def test_many_groups_come_in_pages(resolver: Build, tenant: FakeTenant) -> None:
    names = [f"g{number}" for number in range(45)]
    tenant.add_user("erin@example.com", *names)
    asked = await resolver(page_size=10)
    found = KnownUser(tuple(identity(name) for name in names))
    assert await asked.resolve("erin@example.com") == found
    by_name = await resolver(page_size=10, group_name="display_name")
    assert await by_name.resolve("erin@example.com") == KnownUser(tuple(names))
    failure = await lookup_failure(await resolver(page_size=10, max_groups=44), "erin@example.com")
    assert "more than 44 groups" in failure


@rows
async def test_a_link_to_the_next_page(
    resolver: Build, api: RestApi, tenant: FakeTenant, link: Any
) -> None:
    """It leads to the same server, and to a page that was not read yet."""
    same = ""

    def fault(request: Request) -> Reply | None:
        nonlocal same
        if "transitiveMemberOf" not in request.path:
            return None
        query = "&".join(f"{key}={value}" for key, value in request.query.items())
        same = f"{api.url}{request.path}?{query.replace(',', '%2C')}"
        target = link.format(url=api.url, same=same) if isinstance(link, str) else link
        return Reply(200, {"value": [], "@odata.nextLink": target})

    api.fault = fault
    failure = await lookup_failure(await resolver(), ALICE)
    assert "another server" in failure or "do not end" in failure


@pytest.mark.parametrize(
    "reply",
    [
        error(404, "Request_BadRequest"),
        error(403, "Authorization_RequestDenied"),
        error(400, "Request_UnsupportedQuery"),
        error(504, "UnknownError"),
        Reply(404, b"<html>", {"Content-Type": "text/html"}),
        Reply(200, b"<html>", {"Content-Type": "text/html"}),
        Reply(200, {"value": None}),
        Reply(200, {"value": [{"id": "x", "securityEnabled": None}]}),
        Reply(200, {"value": [{"securityEnabled": True}]}),
        Reply(200, {"value": [1]}),
        Reply(200, {}),
        Reply(200, []),
        Reply(200, b'{"value": [', cut=5),
    ],
    ids=str,
)
@pytest.mark.parametrize("step", ["user", "groups"])
async def test_a_faulty_answer(resolver: Build, api: RestApi, reply: Reply, step: str) -> None:
    api.fault = lambda request: (
        reply
        if API in request.path and ("transitiveMemberOf" in request.path) == (step == "groups")
        else None
    )
    outcome = await (await resolver()).resolve(ALICE)
    assert isinstance(outcome, LookupFailure), outcome


async def test_an_account_whose_state_is_hidden(resolver: Build, tenant: FakeTenant) -> None:
    tenant.users[identity(ALICE)]["accountEnabled"] = None
    assert "User.Read.All" in await lookup_failure(await resolver(), ALICE)


async def test_names_that_are_not_unique(resolver: Build, tenant: FakeTenant) -> None:
    asked = await resolver(group_name="display_name")
    assert await asked.resolve(ALICE) == KnownUser(("data", "gpu"))
    # Known to be unique, but not for this group, even if the name differs only in its kind.
    tenant.add_group("another", displayName="gpu")
    tenant.add_user("mallory@example.com", "another")
    outcome = await asked.resolve("mallory@example.com")
    assert isinstance(outcome, LookupFailure)
    assert "several groups have the name 'gpu'" in outcome.detail
    assert outcome.source_works
    # Case makes no other group where it is ignored.
    tenant.add_group("upper", displayName="DATA")
    tenant.add_user("trudy@example.com", "upper")
    assert await asked.resolve("trudy@example.com") == KnownUser(("DATA",))
    lower = await resolver(group_name="display_name", name_case="lower")
    assert isinstance(await lower.resolve("trudy@example.com"), LookupFailure)


@pytest.mark.parametrize(
    ("counts", "other"),
    [
        ("synced", {"securityEnabled": False}),
        ("synced", {"onPremisesSyncEnabled": False}),
        ("security", {"securityEnabled": False, "onPremisesSyncEnabled": True}),
    ],
    ids=str,
)
async def test_a_group_that_cannot_grant_anything_takes_no_name(
    resolver: Build, tenant: FakeTenant, counts: str, other: dict[str, Any]
) -> None:
    asked = await resolver(group_name="display_name", groups=counts)
    tenant.add_group("real", displayName="Data Engineers", onPremisesSyncEnabled=True)
    tenant.add_group("fake", displayName="Data Engineers", **other)
    tenant.add_user("ann@example.com", "real")
    tenant.add_user("mallory@example.com", "fake")
    assert await asked.resolve("ann@example.com") == KnownUser(("Data Engineers",))
    assert await asked.resolve("mallory@example.com") == KnownUser(())
    both = await resolver(group_name="display_name", groups="all")
    assert "several groups" in await lookup_failure(both, "ann@example.com")


async def test_a_group_without_visible_properties_takes_no_name(
    resolver: Build, tenant: FakeTenant
) -> None:
    asked = await resolver(group_name="display_name")
    tenant.add_group("real", displayName="Data Engineers")
    tenant.add_group("unknown", displayName="Data Engineers", securityEnabled=None)
    tenant.add_user("ann@example.com", "real")
    tenant.add_user("mallory@example.com", "unknown")
    assert await asked.resolve("ann@example.com") == KnownUser(("Data Engineers",))
    failure = await lookup_failure(asked, "mallory@example.com")
    assert "has no permission to see the properties of a group" in failure


async def test_display_names_are_warned_of(
    resolver: Build, caplog: pytest.LogCaptureFixture
) -> None:
    await resolver(group_name="display_name")
    assert "choose their display names" in caplog.text
    caplog.clear()
    await resolver(group_name="display_name", groups="synced")
    assert not caplog.records


async def test_a_federated_token(resolver: Build, tmp_path: Path, clock: ManualClock) -> None:
    """It is read again, because Kubernetes replaces it every hour."""
    file = tmp_path / "federated"
    file.write_text("expired-token")
    asked = await resolver(client_secret_file=None, federated_token_file=file)
    assert "invalid_client: AADSTS7000215" in await lookup_failure(asked, CAROL)
    replace(file, ASSERTION)
    assert await asked.resolve(CAROL) == KnownUser(())


def certificate_of(path: Path, key: Any = None, *, with_key: bool = True) -> Certificate:
    """Write a certificate and a key, by default its own, to a file."""
    own = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "queuegate")])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder(name, name, own.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(own, hashes.SHA256())
    )
    certificate = built.public_bytes(serialization.Encoding.PEM).decode()
    replace(path, certificate + (pem(key or own) if with_key else ""))
    return built


async def test_a_certificate(
    resolver: Build, tenant: FakeTenant, tmp_path: Path, clock: ManualClock
) -> None:
    """It signs an assertion of the documented form for each token, and is read again."""
    file = tmp_path / "certificate.pem"
    certificate = certificate_of(file)

    def accepts(assertion: str) -> bool:
        public = certificate.public_key()
        assert isinstance(public, rsa.RSAPublicKey)
        header, given = verified(assertion, public, PSS)
        der = certificate.public_bytes(serialization.Encoding.DER)
        thumbprint = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
        assert header == {"alg": "PS256", "typ": "JWT", "x5t#S256": thumbprint}
        assert given["iss"] == given["sub"] == CLIENT
        assert given["aud"] == f"{tenant.url}/{TENANT}/oauth2/v2.0/token"
        assert given["iat"] <= time.time() <= given["exp"] <= time.time() + 600
        return True

    tenant.accepts = accepts
    asked = await resolver(client_secret_file=None, certificate_file=file)
    assert await asked.resolve(CAROL) == KnownUser(())
    clock.advance(4000)
    certificate = certificate_of(file)
    assert await asked.resolve(CAROL) == KnownUser(())
    clock.advance(4000)
    replace(file, "no certificate")
    failure = await lookup_failure(asked, CAROL)
    assert "certificate_file cannot be used: the file does not contain" in failure


def test_certificates_that_cannot_be_used(
    options: Callable[..., EntraOptions], tmp_path: Path
) -> None:
    file = tmp_path / "certificate.pem"
    certificate_of(file, with_key=False)
    with pytest.raises(ValueError, match="does not contain a certificate and its key"):
        options(client_secret_file=None, certificate_file=file)
    for key in (rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())):
        certificate_of(file, key)
        with pytest.raises(ValueError, match="not the RSA key of the certificate"):
            options(client_secret_file=None, certificate_file=file)


@rows
def test_settings_that_cannot_work(
    options: Callable[..., EntraOptions], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        options(**settings)


def test_a_suffix_that_the_names_do_not_have(options: Callable[..., EntraOptions]) -> None:
    for name, keys in (("upn", set()), ("sam_account_name", {"user_suffix"})):
        built = options(user_name=name, user_suffix="@example.com")
        assert built.contradictions().keys() & {"user_suffix"} == keys


def test_clouds(options: Callable[..., EntraOptions]) -> None:
    for name, addresses in CLOUDS.items():
        built = options(cloud=name, login_url=None, graph_url=None)
        assert built.addresses == addresses


async def test_members(resolver: Build, tenant: FakeTenant) -> None:
    data, news = identity("data"), identity("news")
    listing = MemberListing([data, news, identity("nowhere"), "data"])
    await (await resolver()).members(listing)
    # The account of bob is disabled; news is no security group.
    assert [list(group.users) for group in listing.groups.values()] == [[ALICE], [], [], []]
    assert not any(group.missing for group in listing.groups.values())
    named = MemberListing(["data", "gpu"])
    await (await resolver(group_name="display_name", user_suffix="@example.com")).members(named)
    assert [list(group.users) for group in named.groups.values()] == [["alice"], ["alice"]]
    tenant.add_group("another", displayName="gpu")
    again = MemberListing(["gpu"])
    await (await resolver(group_name="display_name")).members(again)
    assert again.groups["gpu"].missing == "several groups have this name"


async def test_all_users(resolver: Build, tenant: FakeTenant) -> None:
    for number in range(30):
        tenant.add_user(f"u{number}@example.com")
    asked = await resolver(page_size=10)
    assert len(await asked.all_users(100)) == 32
    with pytest.raises(CannotListUsers, match="more than 20 users"):
        await asked.all_users(20)


async def test_ten_thousand_users_while_requests_are_limited(
    resolver: Build, api: RestApi, tenant: FakeTenant, clock: ManualClock
) -> None:
    """Nobody is unknown, known users are answered, and the provider is spared."""
    known = [f"k{number}@example.com" for number in range(20)]
    for user in known:
        tenant.add_user(user, "data")
    asked = await resolver()
    guarded = GuardedResolver("corp", asked, asked.options, clock=clock)
    options = CacheOptions(positive_ttl=1, max_stale=3600)
    groups = GroupResolver(guarded, GroupCache(options, clock, clock))
    for user in known:
        await groups.resolve(user)
    clock.advance(2)
    count = len(api.requests)
    api.fault = lambda request: (
        Reply(429, {"error": {"code": "TooManyRequests"}}, {"Retry-After": "60"})
        if API in request.path
        else None
    )
    for number in range(10_000):
        answer = await groups.resolve(f"n{number}@example.com")
        assert isinstance(answer.entry.outcome, LookupFailure)
    for user in known:
        answer = await groups.resolve(user)
        assert answer.entry.outcome == KnownUser((identity("data"),))
    assert len(api.requests) - count == 1
    api.fault = lambda _: None
    clock.advance(61)
    answer = await groups.resolve("n0@example.com")
    assert isinstance(answer.entry.outcome, NoSuchUser)
    await groups.close()


async def test_no_secret_is_logged(
    resolver: Build, api: RestApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked = await resolver()
    echo = {"error": "invalid_request", "error_description": f"AADSTS: {SECRET}"}
    api.fault = lambda request: Reply(400, echo) if API not in request.path else None
    guarded = GuardedResolver("corp", asked, asked.options)
    failure = await lookup_failure(guarded, ALICE)
    api.fault = lambda _: None
    await guarded.resolve(ALICE)
    for text in (failure, caplog.text, repr(vars(asked)), asked.options.model_dump_json()):
        assert SECRET not in text
        assert TOKEN not in text
