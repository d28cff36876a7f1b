"""Three replicas that share groups: races, and somebody who can write to Redis."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from queuegate import GroupsOrigin
from tests.support.eventually import eventually
from tests.support.servers.fleet import OTHERS, STAFF, Fleet, running_fleet

NAMES = ("a", "b", "c")
KEY = "{queuegate}:user:default:"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with running_fleet(folder, *NAMES, read_timeout="10s") as running:
        running.until_barriers_are_quick()
        yield running


@pytest.fixture
def fleet(shared: Fleet) -> Fleet:
    shared.directory.reset({"sam": dict(STAFF), "eve": dict(STAFF)})
    shared.redis.command("DEL", f"{KEY}sam", f"{KEY}eve")
    eventually(lambda: shared.confirms("a"), True)
    return shared


def ask_until_stored(fleet: Fleet, name: str = "a") -> bytes:
    """Have a replica look sam up; return the value that it stores."""
    fleet.may(name)
    eventually(lambda: fleet.redis.get(f"{KEY}sam") is not None, True)
    value = fleet.redis.get(f"{KEY}sam")
    assert value is not None
    return value


def test_the_directory_is_asked_by_one_replica(fleet: Fleet) -> None:
    ask_until_stored(fleet)
    assert all(fleet.may(name) for name in NAMES)
    assert fleet.directory.asked("sam") == 1


def test_a_replica_does_not_say_that_it_resolved_what_another_one_did(fleet: Fleet) -> None:
    assert not fleet.clients["a"].resolve("sam").cached
    eventually(lambda: fleet.redis.get(f"{KEY}sam") is not None, True)
    assert fleet.clients["b"].resolve("sam").cached
    assert fleet.clients["c"].explain("sam", "root.work").groups.origin is GroupsOrigin.CACHE
    assert not fleet.clients["c"].resolve("sam", bypass_cache=True).cached
    assert fleet.directory.asked("sam") == 2


def test_a_slow_lookup_from_before_an_invalidation_comes_back_nowhere(fleet: Fleet) -> None:
    fleet.directory.answer({"sam": {**STAFF, "held": True}})
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(fleet.may, "a")
        eventually(lambda: fleet.directory.asked("sam"), 1)
        fleet.directory.answer({"sam": dict(OTHERS)})
        fleet.clients["b"].invalidate(["sam"], wait=True)
        fleet.directory.release()
        assert slow.result(), "it began before the invalidation"
    assert [fleet.may(name) for name in NAMES] == [False] * 3


@pytest.mark.parametrize("value", [b"", b"\0" * 100, b'[1,"",["staff"]]'])
def test_garbage_in_redis_changes_nothing(fleet: Fleet, value: bytes) -> None:
    fleet.directory.answer({"sam": dict(OTHERS)})
    fleet.redis.command("SET", f"{KEY}sam", value)
    assert not fleet.may("a")
    assert fleet.directory.asked("sam") == 1


@pytest.mark.parametrize("place", ["*", "{head}-1", "{next}-0"])
def test_a_stray_entry_among_the_events_is_dropped(fleet: Fleet, place: str) -> None:
    """Every replica would read it again and again, because it lies after the newest event."""
    stops = [_stops(fleet, name) for name in NAMES]
    head = int(fleet.redis.get("{queuegate}:seq") or b"")
    place = place.format(head=head, next=head + 1)
    answer = fleet.redis.command("XADD", "{queuegate}:events", place, "foo", "bar")
    assert answer.startswith(b"$")
    fleet.until_agreed()
    fleet.until_barriers_are_quick()
    fleet.until_agreed()
    for before, name in zip(stops, NAMES, strict=True):
        assert _stops(fleet, name) - before <= 3
        assert fleet.may(name)


def _stops(fleet: Fleet, name: str) -> int:
    return sum("stopped following" in each.get("event", "") for each in fleet.servers[name].logs)


def test_the_value_of_somebody_else_changes_nothing(fleet: Fleet) -> None:
    value = ask_until_stored(fleet)
    fleet.directory.answer({"eve": dict(OTHERS)})
    fleet.redis.command("SET", f"{KEY}eve", value)
    assert [fleet.may(name, "eve") for name in NAMES] == [False] * 3


def test_an_old_value_that_is_put_back_changes_nothing(fleet: Fleet) -> None:
    value = ask_until_stored(fleet)
    fleet.directory.answer({"sam": dict(OTHERS)})
    fleet.clients["b"].invalidate(["sam"], wait=True)
    fleet.redis.command("SET", f"{KEY}sam", value)
    assert not fleet.may("c")
    # Neither does a value of a history that has ended.
    value = ask_until_stored(fleet, "b")
    fleet.redis.command("FLUSHALL")
    fleet.until_barriers_are_quick()
    fleet.directory.answer({"sam": dict(STAFF)})
    fleet.clients["a"].invalidate(["sam"], wait=True)
    fleet.redis.command("SET", f"{KEY}sam", value)
    assert [fleet.may(name) for name in NAMES] == [True] * 3
