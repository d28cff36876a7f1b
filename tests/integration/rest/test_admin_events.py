"""`changes: admin_events` with a fake of Keycloak; `tests/e2e/sources` follows a real one."""

import time
from typing import Any

import pytest

from queuegate_server.identity.resolver import CannotFollow
from queuegate_server.identity.resolvers.keycloak.admin_events import (
    PAGE,
    READ_ALL_SECONDS,
    AdminEvent,
    AdminEvents,
    affected_by,
)
from queuegate_server.identity.rest.answer_limits import MAX_AFFECTED, MAX_EVENT_PAGES
from queuegate_server.identity.rest.change_queries import AffectedIds
from queuegate_server.identity.rest.faults import RequestFault
from queuegate_server.identity.rest.paging import MAX_AT_ONCE
from tests.integration.rest.conftest import Build
from tests.support.change_sink import ALL, Sink, following, why_not_followed
from tests.support.fakes.keycloak import FakeRealm
from tests.support.fakes.rest_api import Reply, Request, RestApi

pytestmark = pytest.mark.usefixtures("no_task_left")

SETTINGS = {"changes": "admin_events", "changes_interval": 0.1}
JOIN = ("CREATE", "GROUP_MEMBERSHIP", "users/id-of-alice/groups/g1")
EVERYBODY = AffectedIds(is_all=True)
ALICE = AffectedIds(("1",))


@pytest.mark.parametrize(
    ("operation", "kind", "path", "affected"),
    [
        ("CREATE", "GROUP_MEMBERSHIP", "users/1/groups/2", ALICE),
        ("DELETE", "GROUP_MEMBERSHIP", "users/1/groups/2", ALICE),
        ("CREATE", "USER", "users/1", ALICE),
        ("UPDATE", "USER", "users/1", ALICE),
        ("ACTION", "USER", "users/1/reset-password", ALICE),
        ("DELETE", "USER", "users/1", EVERYBODY),
        ("CREATE", "GROUP", "groups/2", AffectedIds()),
        ("CREATE", "GROUP", "groups/2/children", AffectedIds()),
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
def test_who_is_affected(operation: str, kind: str, path: str, affected: AffectedIds) -> None:
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


@pytest.mark.parametrize("minutes", [1, 10, 60 * 24])
async def test_a_clock_that_was_corrected(resolver: Build, realm: FakeRealm, minutes: int) -> None:
    """An event is newer than all that follow it, so these are never the newest ones."""
    sink = Sink()
    now = 60_000 * 60 * 48
    realm.record("UPDATE", "USER", "users/id-of-dave", time=now)
    async with following(await resolver(**SETTINGS), sink):
        realm.record("UPDATE", "USER", "users/id-of-bob", time=now + 60_000 * minutes + 1_000)
        await sink.until("bob")
        await sink.until("bob")
        for name in ("carol", "alice"):
            now += 1_000
            realm.record("UPDATE", "USER", f"users/id-of-{name}", time=now)
            await sink.until(name)
            await sink.until(name)
        # The clock of another node is slow.
        realm.record("UPDATE", "USER", "users/id-of-bob", time=1)
        await sink.until("bob")


def event(number: int, at: int) -> dict[str, Any]:
    return {
        "time": at,
        "operationType": "UPDATE",
        "resourceType": "USER",
        "resourcePath": f"users/{number}",
    }


class Log:
    """The events of a realm, the newest one first."""

    def __init__(self, count: int) -> None:
        self.events = [event(number, -number) for number in range(count)]
        self.pages = 0
        self.now = 0.0
        self.unix_time = 1_000_000.0
        self.is_down = False
        self.records = True
        self.server_time = 1_000.0

    async def fetch(self, first: int, size: int) -> tuple[list[dict[str, Any]], float]:
        self.pages += 1
        if self.is_down and first > 0:
            raise RequestFault("down")
        return self.events[first:][:size], self.server_time

    def query(self) -> AdminEvents:
        async def recorded() -> None:
            if not self.records:
                raise RequestFault("off")

        return AdminEvents(
            recorded, self.fetch, lambda: self.now, lambda: self.unix_time + self.now
        )

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.server_time += seconds


@pytest.mark.parametrize("count", [1, PAGE - 1, PAGE, PAGE + 1, MAX_EVENT_PAGES * PAGE + 50])
@pytest.mark.parametrize("new", [1, PAGE - 1, PAGE, PAGE + 1, MAX_EVENT_PAGES * PAGE - 1])
async def test_every_new_event_is_read_once(count: int, new: int) -> None:
    log = Log(count)
    query = log.query()
    await query.begin()
    assert await query.changed() == AffectedIds()
    log.events[:0] = [event(count + number, 7) for number in range(new)]
    assert len((await query.changed()).ids) == new
    assert await query.changed() == AffectedIds()
    log.now += READ_ALL_SECONDS
    assert await query.changed() == AffectedIds()
    # Another follower continues.
    log.events.insert(0, event(-1, 8))
    another = log.query()
    another.resume(query.position)
    assert await another.changed() == AffectedIds(("-1",))
    log.now += READ_ALL_SECONDS
    assert await another.changed() == AffectedIds()


async def test_an_event_below_many_newer_ones(caplog: pytest.LogCaptureFixture) -> None:
    """The clock was set back by more than a page of events."""
    log = Log(MAX_EVENT_PAGES * PAGE - 10)
    query = log.query()
    await query.begin()
    log.pages = 0
    log.events.insert(PAGE * 3 + 50, event(-1, 7))
    assert await query.changed() == AffectedIds()
    assert log.pages == 1
    log.now += READ_ALL_SECONDS
    assert await query.changed() == AffectedIds(("-1",))
    assert not caplog.records


@pytest.mark.parametrize("past", [0, 50])
async def test_an_event_below_all_that_are_read(
    caplog: pytest.LogCaptureFixture, past: int
) -> None:
    """The clock was set back by more than the time of all events that are read."""
    log = Log(past)
    future = MAX_EVENT_PAGES * PAGE - past
    log.events[:0] = [event(past + number, 5_000_000 - number) for number in range(future)]
    query = log.query()
    await query.begin()
    log.events.insert(future, event(-1, 1_000_000))
    assert await query.changed() == AffectedIds()
    log.now += READ_ALL_SECONDS
    expected = AffectedIds(("-1",)) if past else EVERYBODY
    assert await query.changed() == expected
    warnings = ["the newest 1000 are all newer than" in each for each in caplog.messages]
    assert warnings == ([] if past else [True])
    assert await query.changed() == AffectedIds()
    log.server_time = 5_040.0
    log.now += READ_ALL_SECONDS
    assert await query.changed() == AffectedIds()


@pytest.mark.parametrize("back", [10, 25])
async def test_a_clock_that_was_set_back_after_many_events(back: int) -> None:
    """It has caught up when all pages are read."""
    log = Log(0)
    log.events = [event(number, 1_000_000 - number) for number in range(MAX_EVENT_PAGES * PAGE)]
    query = log.query()
    await query.begin()
    log.events.append(event(-1, (1_000 - back) * 1_000))
    log.server_time += READ_ALL_SECONDS - back
    log.now += READ_ALL_SECONDS
    assert await query.changed() == EVERYBODY
    log.server_time += READ_ALL_SECONDS
    log.now += READ_ALL_SECONDS
    assert await query.changed() == AffectedIds()


def busy_log() -> Log:
    """Its 1,000 events are of the last 900 s, and there are older ones."""
    log = Log(0)
    all_read = MAX_EVENT_PAGES * PAGE
    log.events = [event(number, 1_000_000 - 900 * number) for number in range(all_read + PAGE)]
    return log


def record_during_an_outage(log: Log) -> None:
    """Record events for an hour, and one below all that are read, because a clock was set back."""
    log.pass_time(3_600)
    count = MAX_EVENT_PAGES * PAGE - 1
    log.events[:0] = [event(10_000 + i, 4_600_000 - 3_500 * i) for i in range(count)]
    log.events.insert(MAX_EVENT_PAGES * PAGE, event(-1, 999_500))


@pytest.mark.parametrize("fault", ["page", "events"])
async def test_a_full_read_that_fails_is_not_the_last_one(fault: str) -> None:
    log = busy_log()
    query = log.query()
    await query.begin()
    record_during_an_outage(log)
    log.is_down, log.records = fault == "page", fault != "events"
    with pytest.raises(RequestFault):
        await query.changed()
    log.is_down, log.records = False, True
    log.pass_time(1)
    assert await query.changed() == EVERYBODY
    log.pass_time(READ_ALL_SECONDS)
    assert await query.changed() == AffectedIds()


async def test_an_outage_before_the_next_follower() -> None:
    log = busy_log()
    query = log.query()
    await query.begin()
    record_during_an_outage(log)
    another = log.query()
    another.resume(query.position)
    assert await another.changed() == EVERYBODY
    assert await another.changed() == AffectedIds()


@pytest.mark.parametrize(
    ("clock_error", "expected"), [(0, AffectedIds()), (3_600, EVERYBODY), (-3_600, EVERYBODY)]
)
async def test_the_next_follower_knows_the_last_full_read(
    clock_error: float, expected: AffectedIds
) -> None:
    log = busy_log()
    query = log.query()
    await query.begin()
    log.pass_time(60)
    log.unix_time += clock_error
    another = log.query()
    another.resume(query.position)
    assert await another.changed() == expected
    third = log.query()
    third.resume(another.position)
    log.pass_time(READ_ALL_SECONDS)
    assert await third.changed() == AffectedIds()


async def test_many_events_below_one_in_the_future() -> None:
    log = Log(PAGE)
    log.events.insert(0, event(-1, 9))
    query = log.query()
    await query.begin()
    log.events[1:1] = [event(PAGE + number, 7) for number in range(PAGE + 50)]
    assert len((await query.changed()).ids) == PAGE + 50


async def test_events_that_may_be_missing(caplog: pytest.LogCaptureFixture) -> None:
    log = Log(PAGE)
    query = log.query()
    await query.begin()
    log.events[:0] = [event(-number, 7) for number in range(MAX_EVENT_PAGES * PAGE)]
    assert await query.changed() == EVERYBODY
    assert "may be missing, because none of the newest 1000" in caplog.text
    assert await query.changed() == AffectedIds()
    log.events.clear()
    assert await query.changed() == EVERYBODY
    assert await query.changed() == AffectedIds()


async def test_events_of_the_same_moment(resolver: Build, realm: FakeRealm) -> None:
    sink = Sink()
    realm.record("UPDATE", "USER", "users/id-of-dave", time=7)
    async with following(await resolver(**SETTINGS), sink):
        for name in ("carol", "alice"):
            realm.record("UPDATE", "USER", f"users/id-of-{name}", time=7)
            await sink.until(name)
            await sink.until(name)


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
        realm.events += [event(number, 2_000_000) for number in range(MAX_EVENT_PAGES * PAGE)]
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
        await second.until("carol")
    realm.events.clear()
    third = Sink(second.position)
    async with following(await resolver(**SETTINGS), third):
        await third.until_all()


@pytest.mark.parametrize(
    "position",
    [
        *(b"", b"[1,2,3,4]", b"7", b"\xff", b"2" + b"x" * 16),
        *(b"3" + b"x" * size for size in (0, 7, 15, 8 * (MAX_EVENT_PAGES * PAGE + 2))),
    ],
)
async def test_a_position_that_cannot_be_used(
    resolver: Build, realm: FakeRealm, position: bytes
) -> None:
    realm.record(*JOIN)
    sink = Sink(position)
    async with following(await resolver(**SETTINGS), sink):
        await sink.until_all()
        await sink.until_all()  # the repetition, after which the position counts
    assert sink.position is not None
    second = Sink(sink.position)
    async with following(await resolver(**SETTINGS), second):
        assert second.reports == []


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
        ("/events/config", Reply(403, {"error": "HTTP 403 Forbidden"}), "the view-events role"),
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
