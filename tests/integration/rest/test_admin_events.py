"""`changes: admin_events` with a fake of Keycloak; `tests/e2e/sources` follows a real one."""

import json
import time

import pytest

from queuegate_server.identity.resolver import CannotFollow
from queuegate_server.identity.resolvers.keycloak.admin_events import (
    MAX_PAGES,
    OVERLAP_MS,
    PAGE,
    AdminEvent,
    affected_by,
)
from queuegate_server.identity.rest.following import MAX_AFFECTED, AffectedUsers
from queuegate_server.identity.rest.paging import MAX_AT_ONCE
from tests.integration.rest.conftest import Build
from tests.support.change_sink import ALL, Sink, following, why_not_followed
from tests.support.fakes.keycloak import FakeRealm
from tests.support.fakes.rest_api import Reply, Request, RestApi

pytestmark = pytest.mark.usefixtures("no_task_left")

SETTINGS = {"changes": "admin_events", "changes_interval": 0.1}
JOIN = ("CREATE", "GROUP_MEMBERSHIP", "users/id-of-alice/groups/g1")
EVERYBODY = AffectedUsers(is_all=True)
ALICE = AffectedUsers(("1",))


@pytest.mark.parametrize(
    ("operation", "kind", "path", "affected"),
    [
        ("CREATE", "GROUP_MEMBERSHIP", "users/1/groups/2", ALICE),
        ("DELETE", "GROUP_MEMBERSHIP", "users/1/groups/2", ALICE),
        ("CREATE", "USER", "users/1", ALICE),
        ("UPDATE", "USER", "users/1", ALICE),
        ("ACTION", "USER", "users/1/reset-password", ALICE),
        ("DELETE", "USER", "users/1", EVERYBODY),
        ("CREATE", "GROUP", "groups/2", AffectedUsers()),
        ("CREATE", "GROUP", "groups/2/children", AffectedUsers()),
        ("UPDATE", "GROUP", "groups/2", EVERYBODY),
        ("UPDATE", "GROUP", "groups/2/children", EVERYBODY),
        ("DELETE", "GROUP", "groups/2", EVERYBODY),
        ("UPDATE", "REALM", "events/config", EVERYBODY),
        ("ACTION", "COMPONENT", "components/3/sync", EVERYBODY),
        ("ACTION", "USER_FEDERATION_PROVIDER", "user-storage/3/sync", EVERYBODY),
        ("UPDATE", "USER", "", EVERYBODY),
        ("UPDATE", "USER", "users/", EVERYBODY),
        ("UPDATE", "", "groups/2", EVERYBODY),
    ],
)
def test_who_is_affected(operation: str, kind: str, path: str, affected: AffectedUsers) -> None:
    assert affected_by([AdminEvent(1, operation, kind, path)]) == affected


async def test_many_users_are_everybody(resolver: Build, realm: FakeRealm) -> None:
    for number in range(MAX_AFFECTED + 1):
        realm.join(f"u{number}")
    sink = Sink()
    async with following(await resolver(**SETTINGS), sink):
        for number in range(MAX_AFFECTED + 1):
            realm.record("UPDATE", "USER", f"users/id-of-u{number}", time=1_000_000)
        await sink.until_all()


async def test_names_are_asked_for_a_few_at_a_time(
    resolver: Build, realm: FakeRealm, api: RestApi
) -> None:
    running: set[str] = set()
    counts: list[int] = []

    def slow(request: Request) -> Reply | None:
        if "/users/id-of-" in request.path:
            running.add(request.path)
            counts.append(len(running))
            time.sleep(0.05)
            running.discard(request.path)
        return None

    names = [f"u{number}" for number in range(3 * MAX_AT_ONCE)]
    for name in names:
        realm.join(name)
    sink = Sink()
    async with following(await resolver(**SETTINGS), sink):
        api.fault = slow
        for name in names:
            realm.record("UPDATE", "USER", f"users/id-of-{name}", time=1_000_000)
        await sink.until(*names)
    assert 1 < max(counts) <= MAX_AT_ONCE


async def test_a_name_that_cannot_be_asked_for(
    resolver: Build, realm: FakeRealm, api: RestApi
) -> None:
    sink = Sink()
    async with following(await resolver(**SETTINGS), sink) as task:
        position = sink.position
        api.fault = lambda request: Reply(500, {}) if "/users/id-of-" in request.path else None
        realm.record("UPDATE", "USER", "users/id-of-carol")
        realm.record(*JOIN)
        with pytest.raises(CannotFollow, match=r"user: .* \(500\)"):
            await task
    assert (sink.reports, sink.position) == ([], position)


async def test_a_change_is_reported_twice(resolver: Build, realm: FakeRealm) -> None:
    sink = Sink()
    realm.record(*JOIN)
    async with following(await resolver(**SETTINGS), sink):
        assert sink.reports == []
        realm.record("DELETE", "GROUP_MEMBERSHIP", "users/id-of-carol/groups/g1")
        await sink.until("carol")
        await sink.until("carol")
        for _ in range(3):
            await sink.until_reached()
        assert sink.reports == []


async def test_an_event_that_becomes_visible_late(resolver: Build, realm: FakeRealm) -> None:
    sink = Sink()
    realm.record(*JOIN, time=2 * OVERLAP_MS)
    async with following(await resolver(**SETTINGS), sink):
        realm.record("UPDATE", "USER", "users/id-of-carol", time=OVERLAP_MS)
        await sink.until("carol")


async def test_events_that_were_deleted_concern_everybody(
    resolver: Build, realm: FakeRealm
) -> None:
    sink = Sink()
    realm.record(*JOIN)
    async with following(await resolver(**SETTINGS), sink):
        realm.events.clear()
        await sink.until_all()


async def test_more_events_than_are_read_concern_everybody(
    resolver: Build, realm: FakeRealm
) -> None:
    sink = Sink()
    async with following(await resolver(**SETTINGS), sink):
        now = 10 * OVERLAP_MS
        event = {"time": now, "operationType": "UPDATE", "resourceType": "USER"}
        realm.events += [
            {**event, "resourcePath": f"users/{number}"} for number in range(MAX_PAGES * PAGE)
        ]
        await sink.until_all()


async def test_a_user_who_is_gone_concerns_everybody(resolver: Build, realm: FakeRealm) -> None:
    sink = Sink()
    async with following(await resolver(**SETTINGS), sink):
        realm.record("UPDATE", "USER", "users/id-of-nobody")
        await sink.until_all()


async def test_names_in_any_case_concern_everybody(resolver: Build, realm: FakeRealm) -> None:
    sink = Sink()
    async with following(await resolver(**SETTINGS, user_match="casefold"), sink):
        realm.record(*JOIN)
        await sink.until_all()


async def test_names_are_those_of_callers(resolver: Build, realm: FakeRealm) -> None:
    sink = Sink()
    names = {"user_name": "email", "user_suffix": "@example.com"}
    async with following(await resolver(**SETTINGS, **names), sink):
        realm.record("UPDATE", "USER", "users/id-of-alice")  # has no address
        realm.record("UPDATE", "USER", "users/id-of-dave")
        await sink.until("dave")


async def test_the_old_name_of_a_renamed_user(resolver: Build, realm: FakeRealm) -> None:
    sink = Sink()
    asked = await resolver(**SETTINGS)
    async with following(asked, sink):
        await asked.resolve("alice")
        user = realm.users.pop("alice")
        user.key, realm.users["alicia"] = "id-of-alice", user
        await asked.resolve("alicia")  # before the change is known
        realm.record("UPDATE", "USER", "users/id-of-alice")
        await sink.until("alice", "alicia")


async def test_names_are_attributes(resolver: Build, realm: FakeRealm) -> None:
    sink = Sink()
    realm.users["alice"].attributes = {"unixName": ["al", "ally"]}
    names = {"user_name": "attribute", "user_attribute": "unixName"}
    async with following(await resolver(**SETTINGS, **names), sink):
        realm.record("UPDATE", "USER", "users/id-of-carol")  # has no such name
        realm.record("UPDATE", "USER", "users/id-of-alice")
        await sink.until("al", "ally")


async def test_the_next_follower_continues(resolver: Build, realm: FakeRealm) -> None:
    realm.record(*JOIN)
    first = Sink()
    async with following(await resolver(**SETTINGS), first):
        pass
    realm.record("UPDATE", "USER", "users/id-of-carol")
    assert first.position is not None
    second = Sink(first.position)
    async with following(await resolver(**SETTINGS), second):
        await second.until("alice", "carol")  # events of the last minute are repeated
    realm.events.clear()
    third = Sink(second.position)
    async with following(await resolver(**SETTINGS), third):
        await third.until_all()


@pytest.mark.parametrize(
    "position",
    [b"", b"{}", b"[]", b"[1]", b'["x", 1, 2, 3]', b"[1e999, 1, 2, 3]", b"7", b"\xff"],
)
async def test_a_position_that_cannot_be_used(
    resolver: Build, realm: FakeRealm, position: bytes
) -> None:
    realm.record(*JOIN)
    sink = Sink(position)
    async with following(await resolver(**SETTINGS), sink):
        await sink.until_all()
        await sink.until_all()  # the repetition, after which the position counts
    assert json.loads(sink.position or b"")[1:] == list(JOIN)


async def test_nothing_has_ever_happened(resolver: Build, realm: FakeRealm) -> None:
    first = Sink()
    async with following(await resolver(**SETTINGS), first):
        pass
    realm.record(*JOIN)
    second = Sink(first.position)
    async with following(await resolver(**SETTINGS), second):
        await second.until("alice")


async def test_events_that_are_not_recorded(resolver: Build, realm: FakeRealm) -> None:
    realm.records = False
    asked = await resolver(**SETTINGS)
    assert "does not record admin events (turn on" in await why_not_followed(asked)
    realm.records = True
    sink = Sink()
    async with following(asked, sink):
        realm.records = False
        with pytest.raises(CannotFollow, match="does not record"):
            await sink.until("alice")
    assert ALL not in sink.reports


@pytest.mark.parametrize(
    ("path", "reply", "message"),
    [
        ("/events/config", Reply(403, {"error": "HTTP 403 Forbidden"}), "the role view-events"),
        ("/admin-events", Reply(500, {"error": "unknown_error"}), "unknown_error"),
        ("/admin-events", Reply(200, {}), "no list of objects"),
        ("/admin-events", Reply(200, [{"time": "now"}]), "no usable time"),
        ("/admin-events", Reply(429, {}), "throttling"),
        ("/token", Reply(401, {"error": "invalid_client"}), "invalid_client"),
    ],
    ids=str,
)
async def test_faults(resolver: Build, api: RestApi, path: str, reply: Reply, message: str) -> None:
    def fault(request: Request) -> Reply | None:
        return reply if request.path.endswith(path) else None

    api.fault = fault
    assert message in await why_not_followed(await resolver(**SETTINGS))


async def test_off_by_default(resolver: Build) -> None:
    assert (await resolver()).changes is None
