"""Users, groups, names and members of an organization, behind a fake of Okta's API."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.members import CannotListUsers, MemberListing
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from queuegate_server.identity.resolvers.okta.okta_options import OktaOptions
from queuegate_server.identity.resolvers.okta.okta_resolver import OktaResolver
from tests.integration.rest.conftest import Build
from tests.support.atomic_files import replace
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.okta import TOKEN, FakeOrganization, error
from tests.support.fakes.rest_api import Reply, RestApi, running_api, secret_file
from tests.support.resolvers import lookup_failure
from tests.support.rows import rows

pytestmark = pytest.mark.usefixtures("no_task_left")

ALICE, BOB = "alice@example.com", "bob@example.com"


@pytest.fixture
def organization() -> FakeOrganization:
    """alice is in three groups, one of them of an application; bob's account is suspended."""
    organization = FakeOrganization()
    organization.add_group("everyone", "Everyone", "BUILT_IN")
    organization.add_group("imported", "gpu", "APP_GROUP")
    organization.add_user(ALICE, "everyone", "data", "imported")
    organization.add_user(BOB, "everyone", status="SUSPENDED")
    return organization


@pytest.fixture
def api(organization: FakeOrganization, ca: trustme.CA) -> Iterator[RestApi]:
    with running_api(organization.answer, ca) as running:
        organization.url = running.url
        yield running


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    return Path(secret_file(tmp_path, TOKEN))


@pytest.fixture
def kind() -> type[OktaResolver]:
    return OktaResolver


@pytest.fixture
def given(api: RestApi, token_file: Path) -> dict[str, Any]:
    return {"url": api.url, "token_file": token_file}


@rows
async def test_groups(resolver: Build, settings: dict[str, Any], groups: tuple[str, ...]) -> None:
    assert await (await resolver(**settings)).resolve(ALICE) == KnownUser(groups)


@rows
async def test_who_does_not_exist(resolver: Build, user: str, detail: str) -> None:
    outcome = await (await resolver()).resolve(user)
    assert isinstance(outcome, NoSuchUser), outcome
    assert detail in outcome.detail
    assert outcome.is_final == (detail == "disabled")


ATTRIBUTE = {"user_name": "attribute", "user_attribute": "unixName"}


async def test_users_by_attribute(resolver: Build, organization: FakeOrganization) -> None:
    organization.add_user("erin@example.com", "data", unixName="erin")
    organization.add_user("frank@example.com", unixName='f"\\ or a/b?:')
    organization.add_user("gina@example.com", unixName="gina", status="SUSPENDED")
    organization.add_user("mallory@example.com", unixName="ERIN")
    organization.add_user("nobody@example.com", "data", unixName=None)
    asked = await resolver(**ATTRIBUTE)
    assert await asked.resolve("erin") == KnownUser(("data",))
    assert await asked.resolve('f"\\ or a/b?:') == KnownUser(())
    for name, detail in (
        (ALICE, "no such user"),
        ("00u0", "no such user"),
        ('x" or status eq "ACTIVE', "no such user"),
        ("Erin", "spells the name differently"),
        ("gina", "disabled"),
    ):
        outcome = await asked.resolve(name)
        assert isinstance(outcome, NoSuchUser), name
        assert detail in outcome.detail
    folding = await resolver(**ATTRIBUTE, user_match="casefold")
    organization.add_user("harry@example.com", unixName="erin", status="DEPROVISIONED")
    for resolves in (folding, asked):
        failure = await lookup_failure(resolves, "erin")
        assert "several users have this unixName (make it unique" in failure


async def test_people_by_attribute(resolver: Build, organization: FakeOrganization) -> None:
    organization.add_user("erin@example.com", "data", unixName="erin")
    organization.add_user("nobody@example.com", "data", unixName=None)
    asked = await resolver(**ATTRIBUTE)
    listing = MemberListing(["data"])
    await asked.members(listing)
    assert list(listing.groups["data"].users) == ["erin"]
    assert list(await asked.all_users(100)) == ["erin"]


async def test_an_attribute_that_is_no_text(resolver: Build, api: RestApi) -> None:
    user = {"id": "00u0", "status": "ACTIVE", "profile": {"login": ALICE, "unixName": ["al"]}}
    api.fault = lambda request: Reply(200, [user]) if "search" in request.query else None
    assert "no usable unixName" in await lookup_failure(await resolver(**ATTRIBUTE), "al")


@rows
async def test_states_of_accounts(
    resolver: Build, organization: FakeOrganization, status: str, is_known: bool
) -> None:
    organization.add_user("erin@example.com", "data", status=status)
    outcome = await (await resolver()).resolve("erin@example.com")
    assert outcome == KnownUser(("data",)) if is_known else isinstance(outcome, NoSuchUser)


async def test_a_state_that_is_unknown(resolver: Build, organization: FakeOrganization) -> None:
    organization.add_user("erin@example.com", status="ASLEEP")
    failure = await lookup_failure(await resolver(), "erin@example.com", source_works=True)
    assert "state of the account" in failure


@pytest.mark.parametrize("user", ["o'neil@example.com", "a#b&c@example.com", 'a/b"\\?@example.com'])
async def test_names_are_sent_as_one_part(
    resolver: Build, api: RestApi, organization: FakeOrganization, user: str
) -> None:
    organization.add_user(user, "data")
    assert await (await resolver()).resolve(user) == KnownUser(("data",))
    first = api.requests[0]
    assert first.path.count("/") == (3 if "/" in user else 4)
    assert not {"'", "#", "&"} & set(first.path)


async def test_many_groups_come_in_pages(resolver: Build, organization: FakeOrganization) -> None:
    names = [f"g{number}" for number in range(45)]
    organization.add_user("erin@example.com", *names)
    organization.pages_of_groups = 10
    assert await (await resolver(page_size=10)).resolve("erin@example.com") == KnownUser(
        tuple(names)
    )
    outcome = await (await resolver(max_groups=44)).resolve("erin@example.com")
    assert isinstance(outcome, LookupFailure)


async def test_a_link_to_another_server(resolver: Build, api: RestApi) -> None:
    for target in ("https://elsewhere.example/api/v1/x", f"{api.url}/oauth2/x"):
        reply = Reply(200, [], {"Link": f'<{target}>; rel="next"'})
        api.fault = lambda request, reply=reply: (  # type: ignore[misc]
            reply if request.path.endswith("/groups") else None
        )
        assert "another server" in await lookup_failure(await resolver(), ALICE)


@pytest.mark.parametrize(
    "reply",
    [
        error(404, "E0000022"),
        error(403, "E0000006"),
        error(500, "E0000009"),
        Reply(404, b"<html>", {"Content-Type": "text/html"}),
        Reply(200, {"id": "x"}),
        Reply(200, [{"id": "x", "type": "OKTA_GROUP"}]),
        Reply(200, [{"id": "x", "profile": {"name": "y"}}]),
        Reply(200, [1]),
        Reply(200, b'[{"id"', cut=3),
    ],
    ids=str,
)
@pytest.mark.parametrize("step", ["user", "groups"])
async def test_a_faulty_answer(resolver: Build, api: RestApi, reply: Reply, step: str) -> None:
    api.fault = lambda request: (
        reply if request.path.endswith("/groups") == (step == "groups") else None
    )
    outcome = await (await resolver()).resolve(ALICE)
    assert isinstance(outcome, LookupFailure), outcome


async def test_names_that_are_not_unique(resolver: Build, organization: FakeOrganization) -> None:
    asked = await resolver()
    assert isinstance(await asked.resolve(ALICE), KnownUser)
    organization.add_group("another", "data", "APP_GROUP")
    organization.add_user("mallory@example.com", "another")
    outcome = await asked.resolve("mallory@example.com")
    assert isinstance(outcome, LookupFailure)
    assert "several groups have the name 'data'" in outcome.detail
    assert outcome.source_works
    by_id = await resolver(group_name="id")
    assert await by_id.resolve("mallory@example.com") == KnownUser(("00ganother",))


async def test_a_group_that_cannot_grant_anything_takes_no_name(
    resolver: Build, organization: FakeOrganization
) -> None:
    """Each domain of an Active Directory has a group of this name."""
    for domain in ("corp", "lab"):
        organization.add_group(f"{domain}users", "Domain Users", "APP_GROUP")
    organization.add_group("real", "Domain Users")
    organization.add_user("ann@example.com", "real")
    organization.add_user("mallory@example.com", "labusers")
    asked = await resolver(groups="okta")
    assert await asked.resolve("ann@example.com") == KnownUser(("Domain Users",))
    assert await asked.resolve("mallory@example.com") == KnownUser(())
    assert "several groups" in await lookup_failure(await resolver(), "ann@example.com")


async def test_limits_are_respected_before_they_are_exceeded(
    resolver: Build, api: RestApi, organization: FakeOrganization, clock: ManualClock
) -> None:
    """The last answer within a limit says until when the provider must be spared."""
    asked = await resolver()
    reset = str(int(time.time()) + 30)
    api.fault = lambda request: (
        Reply(
            200,
            organization.answer(request).body,
            {"X-Rate-Limit-Remaining": "0", "X-Rate-Limit-Reset": reset},
        )
        if request.path.endswith("/groups") and "search" in request.query
        else None
    )
    assert isinstance(await asked.resolve(ALICE), KnownUser)
    count = len(api.requests)
    outcome = await asked.resolve(BOB)
    assert isinstance(outcome, LookupFailure)
    assert outcome.too_many
    assert len(api.requests) == count
    clock.advance(40)
    assert isinstance(await asked.resolve(BOB), NoSuchUser)


async def test_a_rejected_token_is_not_sent_again_until_it_changes(
    resolver: Build,
    api: RestApi,
    organization: FakeOrganization,
    token_file: Path,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    organization.token = "the-next-token"
    asked = await resolver()
    guarded = GuardedResolver("corp", asked, asked.options, clock=clock)
    for _ in range(5):
        assert "rejected the token in token_file" in await lookup_failure(guarded, ALICE)
    assert len(api.requests) == 1
    clock.advance(61)
    await asked.resolve(ALICE)
    assert len(api.requests) == 2
    replace(token_file, "the-next-token\n")
    assert isinstance(await asked.resolve(ALICE), KnownUser)
    # A file that changes is read again, even if nothing was rejected.
    organization.token = "the-third-token"
    replace(token_file, "the-third-token")
    clock.advance(2)
    assert isinstance(await asked.resolve(ALICE), KnownUser)
    replace(token_file, "")
    clock.advance(2)
    assert "token_file cannot be used" in await lookup_failure(asked, ALICE)
    for text in (caplog.text, repr(vars(asked)), asked.options.model_dump_json()):
        assert TOKEN not in text


@rows
def test_settings_that_cannot_work(
    options: Callable[..., OktaOptions], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        options(**settings)


async def test_members(resolver: Build, organization: FakeOrganization) -> None:
    for number in range(30):
        organization.add_user(f"u{number}@example.com", "many")
    asked = await resolver(page_size=10, user_suffix="@example.com")
    listing = MemberListing(["data", "Everyone", "nowhere", "many"])
    await asked.members(listing)
    assert [list(group.users) for group in listing.groups.values()] == [
        ["alice"],
        ["alice"],  # bob's account is suspended
        [],
        [f"u{number}" for number in range(30)],
    ]
    assert not any(group.missing for group in listing.groups.values())
    organization.add_group("another", "data")
    again = MemberListing(["data"])
    await asked.members(again)
    assert again.groups["data"].missing == "several groups have this name"
    by_id = MemberListing(["00gdata", "00gnowhere", "../users"])
    await (await resolver(group_name="id")).members(by_id)
    assert [list(group.users) for group in by_id.groups.values()] == [[ALICE], [], []]


async def test_all_users(resolver: Build, organization: FakeOrganization) -> None:
    for number in range(30):
        organization.add_user(f"u{number}@example.com")
    asked = await resolver(page_size=10)
    assert len(await asked.all_users(100)) == 31
    with pytest.raises(CannotListUsers, match="more than 20 users"):
        await asked.all_users(20)
