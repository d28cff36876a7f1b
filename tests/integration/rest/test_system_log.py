"""`changes: system_log` with a fake of Okta. No organization was asked."""

import dataclasses
import json
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.identity.resolver import NoSuchUser
from queuegate_server.identity.resolvers.okta.system_log import (
    FILTER,
    OVERLAP_SECONDS,
    affected_by,
)
from queuegate_server.identity.rest.answer_limits import MAX_AFFECTED, MAX_LOG_PAGES
from queuegate_server.identity.rest.change_queries import AffectedIds
from tests.integration.rest.conftest import Build
from tests.integration.rest.test_okta import (
    ALICE,
    BOB,
    api,
    given,
    kind,
    organization,
    token_file,
)
from tests.support.change_sink import ALL, Sink, following, why_not_followed
from tests.support.fakes.assertions import key_in
from tests.support.fakes.okta import ACCESS_TOKEN, CLIENT, FakeOrganization, error
from tests.support.fakes.rest_api import Reply, Request, RestApi
from tests.support.rows import rows

pytestmark = pytest.mark.usefixtures("no_task_left")

__all__ = ["api", "given", "kind", "organization", "token_file"]

SETTINGS = {"changes": "system_log", "changes_interval": 1, "page_size": 10}
EVERYBODY = AffectedIds(is_all=True)
GROUP = {"type": "UserGroup", "id": "00gdata"}
ADD, REMOVE = "group.user_membership.add", "group.user_membership.remove"


def user(key: str) -> dict[str, Any]:
    return {"type": "User", "id": key, "alternateId": "somebody@example.com"}


ALICES, BOBS, NOBODYS = user("00u0"), user("00u1"), user("00unobody")


@pytest.fixture
def follower(resolver: Build) -> Build:
    """Build resolvers that follow the organization's changes."""
    return lambda **more: resolver(**(SETTINGS | more))


@rows
def test_who_is_affected(event: dict[str, Any], affected: tuple[str, ...] | None) -> None:
    expected = EVERYBODY if affected is None else AffectedIds(affected)
    assert affected_by([event]) == expected


async def test_members_and_users(follower: Build, organization: FakeOrganization) -> None:
    sink = Sink()
    organization.record(ADD, ALICES, GROUP)
    async with following(await follower(user_suffix="@example.com"), sink):
        assert sink.reports == []
        organization.record("user.session.start", ALICES)
        organization.record(REMOVE, BOBS, GROUP)
        await sink.until("bob")  # whose account is suspended
        await sink.until("bob")  # the repetition
        organization.record("user.lifecycle.suspend", ALICES)
        await sink.until("alice")


async def test_the_old_name_of_a_renamed_user(
    follower: Build, organization: FakeOrganization
) -> None:
    sink = Sink()
    asked = await follower(user_suffix="@example.com")
    async with following(asked, sink):
        await asked.resolve("alice")
        organization.users["00u0"]["profile"]["login"] = "alicia@example.com"
        organization.record("user.account.update_profile", ALICES)
        await sink.until("alice", "alicia")


async def test_an_event_that_is_stored_late(
    follower: Build, organization: FakeOrganization
) -> None:
    """Its time is long before that of the newest event that has been read."""
    sink = Sink()
    organization.record(ADD, ALICES, published="2026-01-02T00:00:00.000Z")
    async with following(await follower(), sink):
        organization.record(ADD, BOBS, published="2026-01-01T00:00:00.000Z")
        await sink.until(BOB)


async def test_the_first_request(
    follower: Build, api: RestApi, organization: FakeOrganization
) -> None:
    """It begins at the present, and asks only for events that can change groups."""
    organization.record(ADD, ALICES, stored=time.time() - OVERLAP_SECONDS - 60)
    async with following(await follower(), Sink()):
        (first,) = [each for each in api.requests if "since" in each.query]
        assert first.query["filter"] == FILTER
        assert first.query["limit"] == "10"
        organization.record(ADD, BOBS)


@pytest.mark.parametrize("hours", [-24, 1, 24])
async def test_our_clock_is_wrong(
    follower: Build, api: RestApi, organization: FakeOrganization, hours: int
) -> None:
    """It begins at Okta's present: it would skip events if our clock were fast."""
    theirs = time.time() - 3600 * hours

    def elsewhere(request: Request) -> Reply | None:
        reply = organization.answer(request)
        return dataclasses.replace(reply, headers={**reply.headers, "Date": formatdate(theirs)})

    api.fault = elsewhere
    organization.record(ADD, BOBS, stored=theirs - OVERLAP_SECONDS - 60)
    sink = Sink()
    async with following(await follower(), sink):
        organization.record(ADD, ALICES, stored=theirs + 1)
        await sink.until(ALICE)


async def test_changes_come_in_pages(follower: Build, organization: FakeOrganization) -> None:
    sink = Sink()
    async with following(await follower(), sink):
        for _ in range(25):
            organization.record(ADD, ALICES)
        organization.record(ADD, BOBS)
        await sink.until(ALICE, BOB)


@pytest.mark.parametrize(
    "change",
    [
        lambda organization: organization.record("group.profile.update", GROUP),
        lambda organization: organization.record(ADD, NOBODYS),
        lambda organization: setattr(organization, "keeps_links", False),
        lambda organization: [
            organization.record(ADD, ALICES) for _ in range(MAX_LOG_PAGES * 10 + 1)
        ],
        lambda organization: [
            organization.record(ADD, user(f"00u{number}")) for number in range(MAX_AFFECTED + 1)
        ],
    ],
    ids=[
        "a group is renamed",
        "a user is gone",
        "links are forgotten",
        "many pages",
        "many users",
    ],
)
async def test_other_changes_concern_everybody(
    follower: Build, organization: FakeOrganization, change: Callable[[FakeOrganization], None]
) -> None:
    sink = Sink()
    async with following(await follower(page_size=10), sink):
        change(organization)
        await sink.until_all()
        organization.keeps_links = True
        while BOB not in sink.names():
            organization.record(ADD, BOBS)
            await sink.change()


async def test_names_are_those_of_callers(follower: Build, organization: FakeOrganization) -> None:
    sink = Sink()
    organization.users["00u1"]["profile"]["unixName"] = "bob"
    names = {"user_name": "attribute", "user_attribute": "unixName"}
    async with following(await follower(**names), sink):
        organization.record(ADD, ALICES)  # has no such name
        organization.record(ADD, BOBS)
        await sink.until("bob")


async def test_names_in_any_case_concern_everybody(
    follower: Build, organization: FakeOrganization
) -> None:
    sink = Sink()
    async with following(await follower(user_match="casefold"), sink):
        organization.record(ADD, ALICES)
        await sink.until_all()


async def test_the_next_follower_continues(follower: Build, organization: FakeOrganization) -> None:
    first = Sink()
    async with following(await follower(), first):
        pass
    organization.record(ADD, ALICES)
    second = Sink(first.position)
    async with following(await follower(), second):
        await second.until(ALICE)
    organization.keeps_links = False
    third = Sink(second.position)
    async with following(await follower(), third):
        await third.until_all()


@pytest.mark.parametrize(
    "position",
    [
        b"",
        b"7",
        b"{}",
        b"[]",
        b"\xff",
        json.dumps([FILTER, "https://evil.example/api/v1/logs?after=1"]).encode(),
        json.dumps([FILTER, None]).encode(),
        json.dumps(["eventType pr", "URL/api/v1/logs?after=1"]).encode(),
        json.dumps([FILTER, "URL/api/v1/users"]).encode(),
    ],
    ids=str,
)
async def test_a_position_that_cannot_be_used(
    follower: Build, api: RestApi, position: bytes
) -> None:
    sink = Sink(position.replace(b"URL", api.url.encode()))
    async with following(await follower(), sink):
        await sink.until_all()
        await sink.until_all()  # the repetition, after which the position counts
    known, link = json.loads(sink.position or b"")
    assert known == FILTER
    assert link.startswith(f"{api.url}/api/v1/logs?")


def events(reply: Reply) -> Callable[[Request], Reply | None]:
    return lambda request: reply if request.path.endswith("/logs") else None


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (error(403, "E0000006"), "grant the client a role that may read the System Log"),
        (error(400, "E0000053"), "E0000053"),
        (error(500, "E0000009"), "E0000009"),
        (error(429, "E0000047"), "throttling"),
        (Reply(200, {}), "no list of objects"),
        (Reply(200, [7]), "no list of objects"),
        (Reply(200, []), "no link to further events"),
        (
            Reply(200, [], {"Link": '<https://evil.example/api/v1/logs?after=1>; rel="next"'}),
            "another server",
        ),
    ],
    ids=str,
)
async def test_faults(follower: Build, api: RestApi, reply: Reply, message: str) -> None:
    api.fault = events(reply)
    assert message in await why_not_followed(await follower())


async def test_pages_without_an_end(follower: Build, api: RestApi) -> None:
    """A poll reads only some of them, and the next one continues."""
    link = f'<{api.url}/api/v1/logs?after=1>; rel="next"'
    api.fault = events(Reply(200, [{"eventType": ADD, "target": [ALICES]}], {"Link": link}))
    sink = Sink()
    async with following(await follower(changes_interval=60), sink):
        assert len(api.requests) == 1
    second = Sink(sink.position)
    async with following(await follower(changes_interval=60), second):
        assert second.reports == [ALL]
        assert len(api.requests) == 1 + MAX_LOG_PAGES


async def test_a_limit_on_events_does_not_stop_lookups(follower: Build, api: RestApi) -> None:
    """Other clients, such as a SIEM, use the same limit up."""
    reset = {"X-Rate-Limit-Remaining": "0", "X-Rate-Limit-Reset": str(int(time.time()) + 30)}
    api.fault = events(Reply(429, {}, reset))
    asked = await follower()
    for _ in range(3):
        assert "throttling" in await why_not_followed(asked)
    assert len(api.requests) == 1
    assert isinstance(await asked.resolve(BOB), NoSuchUser)


async def test_lookups_of_a_service_app_do_not_need_the_scope_of_the_log(
    follower: Build, api: RestApi, organization: FakeOrganization, tmp_path: Path
) -> None:
    key_in(tmp_path / "key.pem")
    organization.accepts = lambda _: True
    app = {"token_file": None, "client_id": CLIENT, "private_key_file": tmp_path / "key.pem"}
    asked = await follower(**app)
    for _ in range(3):
        assert "grant the client the scopes" in await why_not_followed(asked)
    assert isinstance(await asked.resolve(BOB), NoSuchUser)
    scopes = [each.form["scope"] for each in api.requests if each.form]
    assert scopes == ["okta.logs.read", "okta.users.read okta.groups.read"]
    organization.grants |= {"okta.logs.read"}
    async with following(await follower(**app), Sink()):
        assert api.requests[-1].headers["Authorization"] == f"Bearer {ACCESS_TOKEN}"


async def test_off_by_default(resolver: Build) -> None:
    assert (await resolver()).changes is None
