"""What a gate tells its own program about its decisions."""

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable
from datetime import datetime

import pytest

import queuegate
from queuegate import aio
from queuegate.decision_record import Record
from queuegate.gate.reflector import Reflector
from queuegate.policy.decision import Decision, Reason
from queuegate.v1 import sync_pb2
from queuegate_server.decisions.log import DecidedCheck
from tests.support.servers.scripted_sync import opened, part, scripted_sync

ALICE = ("alice", "root", "[rm]default", "submit", ["a", "b"], "")


def deciding(on_decision: Callable[[Record], object] | None) -> Reflector:
    """Return a reflector that has a policy and a lease."""

    def nothing() -> None:
        """Stand for the other callbacks."""

    made = Reflector("shim", (), stale=60, on_change=nothing, on_decision=on_decision, wake=nothing)
    made.opened()
    made.receive(opened(lease_millis=5_000, assert_groups=True))
    made.receive(part(use_given_groups=True, revision=7))
    [ping] = made.due(made.stream)
    made.receive(sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=ping.ping.id)))
    return made


def test_a_record_has_the_fields_of_the_audit_record() -> None:
    told: list[Record] = []
    assert deciding(told.append).decider.decide(ALICE)
    question = {
        "user": "alice",
        "partition": "default",
        "groups_in_request": 2,
        "queue": "root",
        "access": "submit",
    }
    granted = Decision(True, Reason.USER, "root", "alice")
    record = DecidedCheck("CheckQueueAccess", 0.0, "gate:shim", question, granted, 7).record()
    [own] = told
    assert list(own) == list(record)
    assert abs(time.time() - datetime.fromisoformat(own["time"]).timestamp()) < 60
    assert json.loads(json.dumps(own)) == record | {"time": own["time"]}


def test_a_decision_without_a_lease_is_told_as_such() -> None:
    told: list[Record] = []
    reflector = deciding(told.append)
    reflector.session.lease_until = -1.0
    reflector.decider.grace = math.inf
    assert reflector.decider.decide(ALICE)
    assert told[0]["stale"] is True


def test_a_decision_whose_lease_ends_while_it_is_told_is_void() -> None:
    def slow(_record: Record) -> None:
        reflector.session.lease_until = -1.0

    reflector = deciding(slow)
    assert reflector.decider.decide(ALICE) is None
    assert reflector.decider.decided == 0


def test_a_repeated_decision_is_told_again() -> None:
    told: list[Record] = []
    decider = deciding(told.append).decider
    for _ in range(3):
        assert decider.decide(ALICE)
    assert [each["user"] for each in told] == ["alice"] * 3 == ["alice"] * decider.decided


def test_only_decisions_are_told() -> None:
    told: list[Record] = []
    decider = deciding(told.append).decider
    assert decider.decide(("bob", "root", "default", "submit", None, "")) is None
    assert decider.decide(("alice", "root", "other", "submit", None, "")) is None
    assert decider.queues(("alice", "root", "default", "submit", ("a",), "")) == ["root"]
    assert told == []


def test_a_callback_that_fails_changes_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_record: Record) -> None:
        raise ZeroDivisionError

    expected = deciding(None).decider.decide(ALICE)
    failing = deciding(fails).decider
    assert failing.decide(ALICE) == failing.decide(ALICE) == expected
    assert failing.decided == 2
    assert caplog.text.count("a gate's on_decision callback failed") == 2
    assert "ZeroDivisionError" in caplog.text


def test_decisions_are_logged_as_json(caplog: pytest.LogCaptureFixture) -> None:
    decider = deciding(queuegate.log_decision).decider
    caplog.set_level(logging.WARNING, "queuegate.decisions")
    assert decider.decide(ALICE)
    assert caplog.messages == []
    caplog.set_level(logging.INFO, "queuegate.decisions")
    assert decider.decide(ALICE)
    [logged] = caplog.records
    assert (logged.name, logged.levelno) == ("queuegate.decisions", logging.INFO)
    record = json.loads(logged.getMessage())
    assert (record["user"], record["decision"]) == ("alice", "allowed")


async def test_a_slow_logger_blocks_the_event_loop_only_for_one_record_at_a_time() -> None:
    recorded, most = 0, 0

    async def count() -> None:
        """Count the records between two turns of the event loop."""
        nonlocal most
        while True:
            before = recorded
            await asyncio.sleep(0)
            most = max(most, recorded - before)

    def slow(_record: Record) -> None:
        nonlocal recorded
        time.sleep(0.02)
        recorded += 1

    with scripted_sync() as server:
        async with aio.Gate(server.address, on_decision=slow) as gate:
            while gate.state != "live":  # noqa: ASYNC110 - a state, not an event
                await asyncio.sleep(0.01)
            counting = asyncio.create_task(count())
            checks = [queuegate.Check("alice", "root")] * 20
            assert all(await gate.check_many(checks))
            counting.cancel()
    assert recorded == len(checks)
    assert most == 1
