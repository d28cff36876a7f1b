"""Repeated reports: each change is repeated, positions wait for it, and storms are bounded."""

import random

import pytest

from queuegate_server.identity.repeated_reports import MAX_REPEATED, RepeatedReports
from tests.support.change_sink import ALL, Sink
from tests.support.fakes.clock import ManualClock

AFTER = 8.0


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def reports(sink: Sink, clock: ManualClock) -> RepeatedReports:
    return RepeatedReports(sink, AFTER, clock)


def test_a_report_is_repeated_before_its_position_counts(
    reports: RepeatedReports, sink: Sink, clock: ManualClock
) -> None:
    reports.report((), b"1")
    assert (sink.reports, sink.position) == ([], b"1")
    reports.report({"ann"}, b"2")
    clock.advance(AFTER - 1)
    reports.repeat()
    assert (sink.reports, sink.position) == ([{"ann"}], b"1")
    clock.advance(1)
    reports.repeat()
    assert (sink.reports, sink.position) == ([{"ann"}] * 2, b"2")
    assert reports.due_at is None


def test_a_position_without_changes_waits_for_earlier_repetitions(
    reports: RepeatedReports, sink: Sink, clock: ManualClock
) -> None:
    reports.report({"ann"}, b"1")
    clock.advance(AFTER / 2)
    reports.report((), b"2")
    assert (sink.count, sink.position) == (2, None)
    clock.advance(AFTER / 2)
    reports.repeat()
    assert (sink.reports, sink.position) == ([{"ann"}] * 2, b"2")


def test_reports_without_repetition(sink: Sink, clock: ManualClock) -> None:
    reports = RepeatedReports(sink, 0, clock)
    reports.report(None, b"1")
    clock.advance(1)
    reports.repeat()
    assert (sink.reports, sink.position) == ([ALL], b"1")


def test_more_users_than_are_kept_are_everybody(
    reports: RepeatedReports, sink: Sink, clock: ManualClock
) -> None:
    reports.report([str(number) for number in range(MAX_REPEATED)], b"1")
    clock.advance(AFTER / 2)
    reports.report({"ann"}, b"2")
    sink.reports.clear()
    clock.advance(AFTER)
    reports.repeat()
    assert [len(each) for each in sink.reports] == [MAX_REPEATED, len(ALL)]
    assert sink.position == b"2"


def test_a_storm_adds_up_to_few_repetitions(
    reports: RepeatedReports, sink: Sink, clock: ManualClock
) -> None:
    """No report is repeated early, none much later than asked for, and none is lost."""
    chance = random.Random(39)
    waiting: dict[str, float] = {}
    most = 0
    for number in range(5_000):
        clock.advance(chance.random() / 50)
        sink.reports.clear()
        reports.repeat()
        most = max(most, len(sink.reports))
        for name in sink.names():
            assert AFTER <= clock() - waiting.pop(name) <= AFTER * 1.15
        name = f"user{number}"
        waiting[name] = clock()
        reports.report({name}, str(number).encode())
        assert sink.position is None or int(sink.position) < min(int(each[4:]) for each in waiting)
    assert most == 1
    assert len(waiting) < 1_000
    clock.advance(AFTER)
    sink.reports.clear()
    reports.repeat()
    assert len(sink.reports) <= 10
    assert sink.names() == waiting.keys()
    assert sink.position == b"4999"
