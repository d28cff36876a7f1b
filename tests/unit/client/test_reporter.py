"""Every decision is reported until it is confirmed; one that is refused does not stop the rest."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuegate.gate.outbox import Outbox
from queuegate.gate.reporter import MAX_REPORTED, Reporter
from queuegate.v1 import sync_pb2
from tests.unit.client.test_outbox import decision


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Outbox]:
    opened = Outbox(tmp_path)
    yield opened
    opened.close()


def confirmed(number: int, *refused: int) -> sync_pb2.SyncReported:
    """Return the confirmation of a report, but for the decisions at these places."""
    faults = [sync_pb2.RefusedDecision(index=index, fault="poison") for index in refused]
    return sync_pb2.SyncReported(id=number, refused=faults)


def users(reporter: Reporter, stream: int, number: int) -> tuple[int, list[str]]:
    report = reporter.next(stream, confirmed(number))
    return (0, []) if report is None else (report.id, [each.user for each in report.decisions])


def test_a_report_waits_for_the_confirmation_of_the_one_before(box: Outbox) -> None:
    reporter = Reporter(box)
    reporter.restart(1)
    assert reporter.next(1, confirmed(0)) is None
    box.append(decision(1))
    first, found = users(reporter, 1, 0)
    assert found == ["user 1"]
    box.append(decision(2))
    assert reporter.next(1, confirmed(0)) is None
    assert reporter.next(1, confirmed(first + 5)) is None
    second, found = users(reporter, 1, first)
    assert found == ["user 2"]
    assert reporter.next(1, confirmed(second)) is None
    assert box.counts.confirmed == 2
    assert box.counts.waiting_bytes == 0


def test_another_stream_reports_again(box: Outbox) -> None:
    reporter = Reporter(box)
    reporter.restart(1)
    box.append(decision(1))
    first, _ = users(reporter, 1, 0)
    reporter.restart(2)
    assert reporter.next(1, confirmed(0)) is None
    again, found = users(reporter, 2, 0)
    assert again > first
    assert found == ["user 1"]


def test_a_rejected_decision_is_set_aside(box: Outbox) -> None:
    reporter = Reporter(box)
    reporter.restart(1)
    for number in range(4):
        box.append(decision(number))
    report, _ = users(reporter, 1, 0)
    assert reporter.next(1, confirmed(report, 1, 3, 9)) is None
    assert (box.counts.confirmed, box.counts.rejected) == (2, 2)


def test_long_segments_are_divided(box: Outbox) -> None:
    reporter = Reporter(box)
    reporter.restart(1)
    for number in range(MAX_REPORTED + 1):
        box.append(decision(number))
    first, found = users(reporter, 1, 0)
    assert len(found) == MAX_REPORTED
    _, found = users(reporter, 1, first)
    assert found == [f"user {MAX_REPORTED}"]


@pytest.mark.parametrize("seed", range(5))
def test_only_decisions_that_end_streams_are_set_aside(box: Outbox, seed: int) -> None:
    chance = random.Random(seed)
    everyone = [f"user {number}" for number in range(300)]
    poison = set(chance.sample(everyone, seed))
    reporter = Reporter(box)
    for number in range(300):
        box.append(decision(number))
    arrived: list[str] = []
    last = streams = 0
    reporter.restart(streams)
    while True:
        number, found = users(reporter, streams, last)
        if not found:
            break
        if poison.intersection(found):
            reporter.split("poison")
            streams += 1
            reporter.restart(streams)
        else:
            arrived += found
            last = number
    assert arrived == [user for user in everyone if user not in poison]
    assert box.counts.rejected == len(poison)
    assert box.counts.confirmed == 300 - len(poison)
    assert streams <= 10 * len(poison)


def test_a_failure_without_a_report_divides_nothing(box: Outbox) -> None:
    reporter = Reporter(box)
    reporter.restart(1)
    box.append(decision(1))
    reporter.split("no")
    assert box.counts.rejected == 0
    assert users(reporter, 1, 0)[1] == ["user 1"]
