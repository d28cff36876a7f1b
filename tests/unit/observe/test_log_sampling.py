"""Sampling of equal warnings."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from queuegate_server.observe import log_sampling
from queuegate_server.observe.log_sampling import (
    MAX_LINES,
    LogSampler,
    shorten_foreign_message,
)
from tests.support.fakes.clock import ManualClock


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def lines(clock: ManualClock) -> Iterator[_Lines]:
    handler = _Lines()
    handler.addFilter(LogSampler(clock))
    logger = logging.getLogger("queuegate_server")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def warn(count: int, name: str = "rpc", message: str = "call failed", **fields: Any) -> None:
    for number in range(count):
        logging.getLogger(f"queuegate_server.{name}").warning(
            message, extra={**fields, "request_id": str(number)}
        )


def suppressed(record: logging.LogRecord) -> int:
    return int(record.__dict__.get("suppressed", 0))


def test_the_first_lines_of_a_second_pass_and_the_others_are_counted(
    lines: _Lines, clock: ManualClock
) -> None:
    warn(2000, method="Check", code="UNAVAILABLE")
    assert len(lines.records) == MAX_LINES
    clock.advance(1)
    warn(2000, method="Check", code="UNAVAILABLE")
    assert [suppressed(record) for record in lines.records[MAX_LINES:]] == [
        2000 - MAX_LINES,
        0,
        0,
        0,
        0,
    ]
    clock.advance(1)
    warn(1, method="Check", code="UNAVAILABLE")
    assert suppressed(lines.records[-1]) == 2000 - MAX_LINES


def test_lines_that_differ_do_not_hide_each_other(lines: _Lines) -> None:
    warn(100, method="Check", code="UNAVAILABLE")
    warn(1, method="Check", code="INTERNAL")
    warn(1, method="Explain", code="UNAVAILABLE")
    warn(1, name="identity", message="resolver %s fails")
    assert len(lines.records) == MAX_LINES + 3


def test_lines_that_callers_do_not_cause_are_never_suppressed(lines: _Lines) -> None:
    warn(50, name="reload", message="policy diagnostic")
    assert len(lines.records) == 50


def test_lines_below_warning_are_never_suppressed(lines: _Lines) -> None:
    logger = logging.getLogger("queuegate_server.rpc")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    for _ in range(50):
        logger.debug("call")
    logger.setLevel(before)
    assert len(lines.records) == 50


def test_the_number_of_windows_is_bounded(lines: _Lines) -> None:
    limit = lines.filters[0]
    assert isinstance(limit, LogSampler)
    for number in range(5000):
        warn(1, message=f"message {number}")
    assert len(limit._windows) == log_sampling.MAX_WINDOWS


async def test_the_count_is_logged_when_no_other_line_follows(
    lines: _Lines, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[tuple[Any, ...]] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda *arguments: later.append(arguments))
    warn(2000, method="Check", code="UNAVAILABLE")
    # Other handlers of the process may have samplers of their own.
    [(_, report, key)] = [each for each in later if each[1].__self__ is lines.filters[0]]
    clock.advance(1)
    report(key)
    summary = lines.records[-1]
    assert summary.getMessage() == "similar log lines were suppressed"
    assert (summary.__dict__["like"], suppressed(summary)) == ("call failed", 2000 - MAX_LINES)
    assert (summary.__dict__["method"], summary.__dict__["code"]) == ("Check", "UNAVAILABLE")
    report(key)
    assert lines.records[-1] is summary


def test_a_line_is_counted_before_it_is_built(lines: _Lines, clock: ManualClock) -> None:
    limit = lines.filters[0]
    assert isinstance(limit, LogSampler)
    about = {"method": "Check", "code": "UNAVAILABLE"}

    def suppresses(level: int = logging.WARNING, **fields: str) -> bool:
        name = "queuegate_server.rpc"
        return limit.suppresses(name, level, "call failed", {**about, **fields})

    assert not suppresses()
    warn(MAX_LINES, **about)
    assert not suppresses(code="INTERNAL")
    assert not suppresses(level=logging.ERROR)
    assert suppresses(request_id="any")
    assert suppresses()
    clock.advance(1)
    assert not suppresses()
    warn(1, **about)
    assert suppressed(lines.records[-1]) == 2


def test_a_library_whose_arguments_do_not_fit_its_message() -> None:
    record = logging.LogRecord("grpc", logging.WARNING, "", 0, "%d calls", ("many",), None)
    assert shorten_foreign_message(record)
    assert record.getMessage() == "%d calls"
