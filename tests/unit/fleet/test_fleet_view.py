"""What a replica says of its fleet."""

from dataclasses import replace

from queuegate_server.fleet.barrier import HEARTBEAT_TIMEOUT, Peer
from queuegate_server.fleet.events import ReplicaStatus
from queuegate_server.fleet.health import fleet_view
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.view import FleetView

NEWEST = LogPosition(b"e" * 16, 3, b"3")
ONE = ReplicaStatus("1", "one", 1, epoch=NEWEST.epoch.hex(), sequence=3, checksum="c")
TWO = replace(ONE, instance="2", name="two")


def view(
    own: ReplicaStatus,
    other: ReplicaStatus,
    *,
    newest: LogPosition | None = NEWEST,
    silent: float = 0.0,
    cause: str = "",
    has_tried: bool = True,
) -> FleetView:
    peers = {other.instance: Peer(other, 100.0, 90.0)}
    return fleet_view(
        *(own, peers, newest, 100.0 + silent),
        has_tried=has_tried,
        mistakes=(),
        cause=cause,
    )


def test_a_fleet_without_problems() -> None:
    assert view(ONE, TWO).problems == []


def test_a_replica_that_follows_nothing_says_so_of_itself_only() -> None:
    joining = replace(ONE, epoch="", sequence=0)
    assert view(joining, TWO, newest=None).problems == [
        "replicas that do not follow the fleet yet: one"
    ]


def test_a_replica_that_has_just_been_started_is_no_problem_but_the_fleet_does_not_agree_yet() -> (
    None
):
    starting = replace(ONE, epoch="", sequence=0, checksum="", is_starting=True)
    for shown in (
        view(starting, TWO, newest=None),
        view(starting, TWO, newest=None, cause="it is closed", has_tried=False),
        view(TWO, starting),
    ):
        states = {each.name: each.state for each in shown.replicas}
        assert (states, shown.problems) == ({"one": "starting", "two": "following"}, [])
        assert not shown.agreed
    assert view(starting, replace(TWO, checksum="d")).problems == []


def test_a_replica_that_starts_without_redis_or_for_too_long_is_a_problem() -> None:
    starting = replace(ONE, epoch="", sequence=0, is_starting=True)
    [problem] = view(starting, TWO, newest=None, cause="it is closed").problems
    assert problem.startswith("replica one cannot use Redis")
    too_long = replace(starting, is_starting=False)
    [problem] = view(too_long, TWO, newest=None, cause="it is closed", has_tried=False).problems
    assert problem.startswith("replica one cannot use Redis")
    [problem] = view(TWO, too_long).problems
    assert problem == "replicas that do not follow the fleet yet: one"


def test_a_replica_that_is_cut_off_says_nothing_of_the_others() -> None:
    cut_off = replace(ONE, epoch="", sequence=0)
    shown = view(cut_off, TWO, newest=None, silent=HEARTBEAT_TIMEOUT + 1, cause="it is closed")
    assert shown.problems == ["replica one cannot use Redis and works alone: it is closed"]


def test_each_kind_of_problem_is_named() -> None:
    assert view(ONE, replace(TWO, epoch="ff", checksum="")).problems == [
        "replicas that do not follow the fleet yet: two",
        "replicas that have not loaded their policy yet: two",
    ]
    assert view(ONE, replace(TWO, checksum="d")).problems == [
        "the replicas serve different policies: compare their files"
    ]
    assert view(ONE, TWO, silent=HEARTBEAT_TIMEOUT + 1).problems == [
        "replicas that send no heartbeats: two: they have stopped, or cannot reach Redis"
    ]
