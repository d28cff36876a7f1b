"""`changes: admin_events` with a real Keycloak."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.e2e.sources import realms
from tests.e2e.sources.conftest import FOR_ENG, Build, served
from tests.support.change_sink import Sink, following, why_not_followed
from tests.support.eventually import eventually
from tests.support.maven import BUILD_SECONDS
from tests.support.servers.keycloak import Keycloak

pytestmark = [pytest.mark.usefixtures("no_task_left"), pytest.mark.timeout(2 * BUILD_SECONDS)]

REALM = "changing"
API = f"/admin/realms/{REALM}"
SETTINGS = {"changes": "admin_events", "changes_interval": 0.2}


class Administrator:
    """Changes the realm, as its administrator does."""

    def __init__(self, keycloak: Keycloak) -> None:
        self._keycloak = keycloak

    def send(self, method: str, path: str, body: Any = None) -> Any:
        return self._keycloak.admin(method, f"{API}/{path}", body)

    def user(self, name: str) -> str:
        """Return the path of a user."""
        [found] = self.send("GET", f"users?username={name}&exact=true")
        return f"users/{found['id']}"

    def group(self, name: str) -> str:
        """Return the path of a group."""
        [found] = self.send("GET", f"groups?search={name}&exact=true&populateHierarchy=false")
        return f"groups/{found['id']}"

    def record(self, *, on: bool) -> None:
        """Turn the recording of admin events on or off."""
        self.send("PUT", "events/config", {"adminEventsEnabled": on, "eventsEnabled": False})


@pytest.fixture(scope="module")
def realm(keycloak: Keycloak) -> Keycloak:
    rights = (*realms.RIGHTS, "view-events")
    groups = [
        realms.group(name) for name in ("joined", "future", "renamed", "moved", "gone", "eng")
    ]
    users = [realms.user(name, "/moved") for name in ("ann", "bob", "cid", "deleted")]
    keycloak.add_realm(realms.realm(REALM, groups, users, rights) | {"adminEventsEnabled": True})
    return keycloak


@pytest.fixture
def administrator(realm: Keycloak) -> Administrator:
    return Administrator(realm)


@pytest.fixture
def given(realm: Keycloak, ca: trustme.CA, tmp_path: Path) -> dict[str, Any]:
    return realms.settings(tmp_path, realm, ca, REALM) | SETTINGS


async def test_who_joins_and_leaves(resolver: Build, administrator: Administrator) -> None:
    sink = Sink()
    async with following(await resolver(), sink):
        path = f"{administrator.user('ann')}/{administrator.group('joined')}"
        for method in ("PUT", "DELETE"):
            administrator.send(method, path)
            await sink.until("ann")
            await sink.until("ann")  # the repetition


@pytest.mark.parametrize("minutes", [2, 60 * 24])
async def test_events_after_one_of_the_future(
    resolver: Build, administrator: Administrator, realm: Keycloak, minutes: int
) -> None:
    """A clock was ahead and has been corrected: the newest event is older than its time."""
    path = f"{administrator.user('ann')}/{administrator.group('future')}"
    administrator.send("PUT", path)
    [newest] = administrator.send("GET", "admin-events?max=1")
    time = newest["time"] + minutes * 60_000
    table = "UPDATE ADMIN_EVENT_ENTITY SET ADMIN_EVENT_TIME"
    realm.change_database(f"{table} = {time} WHERE ADMIN_EVENT_TIME = {newest['time']}")
    sink = Sink()
    async with following(await resolver(), sink):
        administrator.send("DELETE", path)
        [first] = administrator.send("GET", "admin-events?max=1")
        assert first["time"] == time
        await sink.until("ann")
        await sink.until("ann")  # the repetition
        administrator.send("PUT", administrator.user("cid"), {"lastName": str(minutes)})
        await sink.until("cid")


async def test_a_user_who_is_changed(resolver: Build, administrator: Administrator) -> None:
    sink = Sink()
    async with following(await resolver(), sink):
        bob = administrator.user("bob")
        for enabled in (False, True):
            administrator.send("PUT", bob, {"enabled": enabled})
            await sink.until("bob")
            await sink.until("bob")
        administrator.send("POST", "users", {"username": "new", "enabled": True})
        await sink.until("new")


@pytest.mark.parametrize(
    "change",
    [
        lambda to: to.send("PUT", to.group("renamed"), {"name": "new"}),
        lambda to: to.send(
            "POST",
            f"{to.group('eng')}/children",
            {"id": to.group("moved").partition("/")[2], "name": "moved"},
        ),
        lambda to: to.send("DELETE", to.user("deleted")),
        lambda to: to.send("DELETE", to.group("gone")),
        lambda to: to.send("DELETE", "admin-events"),
    ],
    ids=[
        "a group is renamed",
        "a group is moved",
        "a user is deleted",
        "a group is deleted",
        "the events are deleted",
    ],
)
async def test_changes_that_concern_everybody(
    resolver: Build, administrator: Administrator, change: Callable[[Administrator], None]
) -> None:
    sink = Sink()
    administrator.send("PUT", administrator.user("cid"), {"lastName": "Doe"})
    async with following(await resolver(), sink):
        change(administrator)
        await sink.until_all()


async def test_changes_while_nothing_was_recorded(
    resolver: Build, administrator: Administrator
) -> None:
    sink = Sink()
    asked = await resolver()
    async with following(asked, sink):
        pass
    administrator.record(on=False)
    assert "does not record admin events" in await why_not_followed(asked)
    administrator.record(on=True)
    async with following(asked, sink):
        await sink.until_all()


async def test_a_client_without_the_right(resolver: Build) -> None:
    assert "403" in await why_not_followed(await resolver(client_id="only-query-users"))


def test_a_server_denies_who_has_left(
    given: dict[str, Any], administrator: Administrator, tmp_path: Path
) -> None:
    path = f"{administrator.user('cid')}/{administrator.group('eng')}"
    administrator.send("PUT", path)
    settings = {key: given[key] for key in given if key != "changes_interval"}
    with served(tmp_path, FOR_ENG, type="keycloak", group_name="name", **settings) as client:
        assert client.check("cid", "root").allowed
        administrator.send("DELETE", path)
        eventually(lambda: client.check("cid", "root").allowed, expected=False)
