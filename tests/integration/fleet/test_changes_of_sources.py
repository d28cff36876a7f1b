"""One replica follows the source; the others get its invalidations, and one continues its work."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from queuegate_server.fleet.keys import Keys
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, get_json, ops_address
from tests.support.servers.fleet import OTHERS, STAFF, Fleet, running_fleet

NAMES = ("a", "b", "c")
USERS = ("sam", "eve", "amy")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with running_fleet(tmp_path, *NAMES, arguments=LISTEN, resolver="followed") as running:
        running.directory.reset({user: dict(STAFF) for user in USERS})
        eventually(partial(states, running), ["following", "standby", "standby"])
        running.clients["a"].invalidate(wait=True)
        assert all(running.may(name, user) for name in NAMES for user in USERS)
        yield running


def changes_at(fleet: Fleet, name: str) -> dict[str, Any]:
    _, details = get_json(ops_address(fleet.servers[name]), "/readyz")
    [changes] = details["resolvers"]["changes"]
    found: dict[str, Any] = changes
    return found


def states(fleet: Fleet) -> list[str]:
    return sorted(changes_at(fleet, name)["state"] for name in fleet.clients)


def leader(fleet: Fleet) -> str:
    [name] = [each for each in fleet.clients if changes_at(fleet, each)["state"] == "following"]
    return name


def change(fleet: Fleet, user: str) -> None:
    fleet.directory.answer({user: dict(OTHERS)})
    fleet.directory.report(user)


def until_denied(fleet: Fleet, user: str) -> None:
    for name in fleet.clients:
        eventually(partial(fleet.may, name, user), expected=False)


def end(fleet: Fleet, name: str, *, kill: bool) -> None:
    process = fleet.servers[name].process
    process.kill() if kill else process.terminate()
    process.wait(60)
    del fleet.clients[name], fleet.servers[name]


def test_a_change_reaches_all_replicas(fleet: Fleet) -> None:
    change(fleet, "sam")
    until_denied(fleet, "sam")
    assert all(fleet.may(name, "eve") for name in NAMES), "only the user who was reported"


@pytest.mark.parametrize("kill", [True, False])
def test_the_next_leader_misses_no_change(fleet: Fleet, *, kill: bool) -> None:
    change(fleet, "sam")
    until_denied(fleet, "sam")
    asked = fleet.directory.asked("amy")
    end(fleet, leader(fleet), kill=kill)
    change(fleet, "eve")
    until_denied(fleet, "eve")
    eventually(partial(states, fleet), ["following", "standby"])
    assert all(fleet.may(name, "amy") for name in fleet.clients)
    assert fleet.directory.asked("amy") == asked, "the position was known"


def test_a_position_that_no_replica_signed_invalidates_everybody(fleet: Fleet) -> None:
    change(fleet, "sam")
    until_denied(fleet, "sam")
    store = redis.Redis(port=fleet.redis.port)
    [key] = store.keys(f"{Keys('queuegate').tag}:source:*:position".replace("{", "[{]"))
    eventually(lambda: bytes(store.get(key) or b"")[32:], b"1")  # type: ignore[arg-type]
    end(fleet, leader(fleet), kill=True)
    signed = bytes(store.get(key) or b"")  # type: ignore[arg-type]
    store.set(key, signed[:32] + b"999")
    asked = fleet.directory.asked("amy")
    fleet.directory.answer({"amy": dict(OTHERS)})
    until_denied(fleet, "amy")
    assert fleet.directory.asked("amy") > asked


def test_a_replica_that_loses_redis_is_replaced_by_none(fleet: Fleet) -> None:
    """Without Redis, groups are only used for seconds, so nobody needs to follow."""
    fleet.redis.kill()
    fleet.directory.answer({user: dict(OTHERS) for user in USERS})
    for user in USERS:
        until_denied(fleet, user)
    fleet.redis.start()
    eventually(partial(states, fleet), ["following", "standby", "standby"])
    fleet.directory.answer({"sam": dict(STAFF)})
    fleet.directory.report("sam")
    for name in NAMES:
        eventually(partial(fleet.may, name), expected=True)
