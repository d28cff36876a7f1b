"""`changes: delta` with a fake of Microsoft Graph. No tenant was asked."""

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from queuegate_server.identity.resolvers.entra.delta import NEW_FOR, DeltaChanges, NewGroups
from queuegate_server.identity.rest.answer_limits import MAX_DELTA_PAGES
from tests.integration.rest.conftest import Build
from tests.integration.rest.test_entra import ALICE, BOB, api, given, kind, tenant
from tests.support.change_sink import Sink, following, why_not_followed
from tests.support.fakes.graph import (
    API,
    FakeTenant,
    error,
    identity,
)
from tests.support.fakes.rest_api import Reply, Request, RestApi

pytestmark = pytest.mark.usefixtures("no_task_left")

__all__ = ["api", "given", "kind", "tenant"]

SETTINGS = {"changes": "delta", "changes_interval": 1, "repeat_after": 0}
USER, GROUP = "#microsoft.graph.user", "#microsoft.graph.group"
FOREIGN = json.dumps(dict.fromkeys(("users", "groups"), "https://evil.example/v1.0/x")).encode()
GONE: dict[str, Any] = {"@removed": {"reason": "deleted"}}


def member(name: str, kind: str = USER, **more: Any) -> dict[str, Any]:
    return {"@odata.type": kind, "id": identity(name), **more}


def changed_group(*members: Any, **more: Any) -> dict[str, Any]:
    return {"id": identity("data"), "members@delta": list(members), **more}


def created(at: datetime) -> dict[str, Any]:
    return {"createdDateTime": at.isoformat().replace("+00:00", "Z"), "securityEnabled": True}


NOW = datetime(2026, 1, 2, tzinfo=UTC)
NEW = created(NOW - timedelta(minutes=5))


def followed_for(time: timedelta) -> NewGroups:
    """Return which groups are new in a tenant that has been followed for a time."""
    groups = NewGroups()
    groups.note_answer(NOW - time)
    return groups


@pytest.fixture
def follower(resolver: Build) -> Build:
    """Build resolvers that follow the tenant's changes."""
    return lambda **more: resolver(**(SETTINGS | more))


@pytest.mark.parametrize(
    ("kind", "item", "users"),
    [
        ("groups", changed_group(member(ALICE), member(BOB, **GONE)), {ALICE, BOB}),
        ("groups", changed_group(), set()),
        ("groups", changed_group(member("x", "#microsoft.graph.device")), set()),
        ("groups", changed_group(member("nested", GROUP)), None),
        ("groups", changed_group(member("nested", GROUP, **GONE)), None),
        ("groups", changed_group({"id": identity(ALICE)}), None),
        ("groups", changed_group({"@odata.type": USER}), None),
        ("groups", changed_group("text"), None),
        ("groups", changed_group(displayName="renamed"), None),
        ("groups", changed_group(securityEnabled=False), None),
        ("groups", changed_group(member(ALICE), **NEW), {ALICE}),
        ("groups", changed_group(**NEW), set()),
        ("groups", changed_group(member("nested", GROUP), **NEW), None),
        ("groups", changed_group(**NEW, **GONE), None),
        ("groups", changed_group(member(ALICE), **created(NOW - NEW_FOR)), None),
        ("groups", changed_group(member(ALICE), **created(NOW.replace(tzinfo=None))), None),
        ("groups", changed_group(member(ALICE), createdDateTime="soon"), None),
        ("groups", changed_group(member(ALICE), createdDateTime=7), None),
        ("groups", {"id": identity("data"), **GONE}, None),
        ("groups", {"id": identity("data"), "members@delta": {}}, None),
        ("users", {"id": identity(ALICE), "accountEnabled": False}, {ALICE}),
        ("users", {"id": identity(ALICE), **GONE}, None),
        ("users", {"id": ""}, None),
        ("users", {}, None),
    ],
)
def test_who_is_affected(kind: str, item: dict[str, Any], users: set[str] | None) -> None:
    changes = DeltaChanges(followed_for(timedelta(days=1)))
    changes.add(kind, item, NOW)
    assert changes.is_all == (users is None)
    if users is not None:
        assert set(changes.ids) == set(map(identity, users))


@pytest.mark.parametrize(
    ("groups", "at"),
    [
        (followed_for(timedelta(minutes=4)), NOW),  # it was there before
        (NewGroups(), NOW),
        (followed_for(timedelta(days=1)), NOW + NEW_FOR),
    ],
    ids=["followed later", "not followed", "old"],
)
def test_a_group_that_may_have_been_renamed(groups: NewGroups, at: datetime) -> None:
    """The server sends properties that have not changed as well."""
    changes = DeltaChanges(groups)
    changes.add("groups", changed_group(member(ALICE), **NEW), at)
    assert changes.is_all


async def test_a_new_group_that_is_renamed(
    follower: Build, api: RestApi, tenant: FakeTenant
) -> None:
    """Our clock is an hour slow, so that the group seems to be new for longer."""
    now = datetime.now(UTC) + timedelta(hours=1)

    def ahead(request: Request) -> Reply | None:
        reply = tenant.answer(request)
        return dataclasses.replace(reply, headers={"Date": format_datetime(now, usegmt=True)})

    api.fault = ahead
    sink = Sink()
    async with following(await follower(), sink):
        new = changed_group(member(ALICE), **created(now + timedelta(seconds=5)))
        tenant.changes["groups"].append(new)
        await sink.until(ALICE)
        tenant.changes["groups"].append(new | {"displayName": "renamed"})
        await sink.until_all()
        old = created(now - timedelta(minutes=30))
        tenant.changes["groups"].append(changed_group(**old) | {"id": identity("old")})
        await sink.until_all()


async def test_members_and_users(follower: Build, tenant: FakeTenant) -> None:
    sink = Sink()
    tenant.changes["groups"].append(changed_group(displayName="before"))
    async with following(await follower(user_suffix="@example.com"), sink):
        assert sink.reports == []
        tenant.changes["groups"].append(changed_group(member(BOB, **GONE)))
        await sink.until("bob")  # whose account is disabled
        tenant.changes["users"].append({"id": identity(ALICE), "accountEnabled": True})
        await sink.until("alice")


async def test_the_old_name_of_a_renamed_user(follower: Build, tenant: FakeTenant) -> None:
    sink = Sink()
    asked = await follower(user_suffix="@example.com")
    async with following(asked, sink):
        await asked.resolve("alice")
        tenant.users[identity(ALICE)]["userPrincipalName"] = "alicia@example.com"
        tenant.changes["users"].append({"id": identity(ALICE), "userPrincipalName": "alicia"})
        await sink.until("alice", "alicia")


async def test_a_name_that_is_given_to_another_user(follower: Build, tenant: FakeTenant) -> None:
    """The old user was looked up by another replica, or not at all."""
    sink = Sink()
    async with following(await follower(user_suffix="@example.com"), sink):
        old = tenant.users[identity(ALICE)]
        tenant.users[identity("new")] = old | {"id": identity("new")}
        old["userPrincipalName"] = "alicia@example.com"
        tenant.changes["users"].append({"id": identity("new"), "accountEnabled": True})
        await sink.until("alice")


async def test_a_change_is_repeated(follower: Build, tenant: FakeTenant) -> None:
    sink = Sink()
    async with following(await follower(repeat_after=1), sink):
        tenant.changes["groups"].append(changed_group(member(ALICE)))
        await sink.until(ALICE)
        await sink.until(ALICE)


async def test_changes_come_in_pages(follower: Build, tenant: FakeTenant) -> None:
    sink = Sink()
    async with following(await follower(), sink):
        tenant.changes["groups"] += [changed_group(member(ALICE))] * 4
        tenant.changes["groups"].append(changed_group(member(BOB)))
        await sink.until(ALICE, BOB)


@pytest.mark.parametrize(
    "change",
    [
        lambda tenant: tenant.changes["groups"].append(changed_group(displayName="renamed")),
        lambda tenant: tenant.changes["users"].append({"id": identity("nobody")}),
        lambda tenant: setattr(tenant, "is_synced", False),
        lambda tenant: tenant.changes["users"].extend(
            [{"id": identity(ALICE)}] * (MAX_DELTA_PAGES * tenant.changes_per_page + 1)
        ),
    ],
    ids=["a group is renamed", "a user is unknown", "links are forgotten", "many pages"],
)
async def test_other_changes_concern_everybody(
    follower: Build, tenant: FakeTenant, change: Callable[[FakeTenant], None]
) -> None:
    sink = Sink()
    async with following(await follower(), sink):
        change(tenant)
        await sink.until_all()


async def test_names_in_any_case_concern_everybody(follower: Build, tenant: FakeTenant) -> None:
    sink = Sink()
    async with following(await follower(user_match="casefold"), sink):
        tenant.changes["groups"].append(changed_group(member(ALICE)))
        await sink.until_all()


async def test_the_next_follower_continues(follower: Build, tenant: FakeTenant) -> None:
    first = Sink()
    async with following(await follower(), first):
        pass
    tenant.changes["groups"].append(changed_group(member(ALICE)))
    second = Sink(first.position)
    async with following(await follower(), second):
        await second.until(ALICE)


@pytest.mark.parametrize("position", [b"", b"[]", b"{}", b"7", b'{"users": 1}', FOREIGN, b"\xff"])
async def test_a_position_that_cannot_be_used(follower: Build, position: bytes) -> None:
    sink = Sink(position)
    async with following(await follower(), sink):
        await sink.until_all()
    assert set(json.loads(sink.position or b"")) == {"users", "groups"}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (error(403, "Authorization_RequestDenied"), "grant the client"),
        (error(429, "TooManyRequests"), "throttling"),
        (Reply(200, {}), "no list of objects"),
        (Reply(200, {"value": []}), "no link to further changes"),
        (
            Reply(200, {"value": [], "@odata.deltaLink": f"https://evil.example{API}/users/delta"}),
            "another server",
        ),
        (Reply(200, {"value": [7], "@odata.deltaLink": ""}), "no list of objects"),
    ],
    ids=str,
)
async def test_faults(follower: Build, api: RestApi, reply: Reply, message: str) -> None:
    def fault(request: Request) -> Reply | None:
        return reply if request.path.endswith("/delta") else None

    api.fault = fault
    assert message in await why_not_followed(await follower())


async def test_off_by_default(follower: Build) -> None:
    assert (await follower(changes="none")).changes is None
