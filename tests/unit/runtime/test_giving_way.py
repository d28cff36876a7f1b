"""Whoever parses a large document beside calls sleeps for as long as it works."""

import sys
from types import FrameType, SimpleNamespace

import pytest

from queuegate_server.formats.lint import lint
from queuegate_server.formats.registry import load_policy
from queuegate_server.runtime import giving_way as turns
from queuegate_server.runtime.giving_way import give_way, in_turns, taking_turns

QUEUES = 2_000
YUNIKORN = "partitions:\n  - queues:\n      - name: root\n        queues:\n" + "".join(
    f"          - {{name: q{number}, submitacl: 'u{number} g', resources: {{max: {{vcore: 1}}}}}}\n"
    for number in range(QUEUES)
)
FAIR = "".join(
    f"<queue name='q{number}'><aclSubmitApps>u{number} g</aclSubmitApps></queue>"
    for number in range(QUEUES)
)
PREFIX = "yarn.scheduler.capacity.root"
NAMES = ",".join(f"q{number}" for number in range(QUEUES))
CAPACITY = f"<property><name>{PREFIX}.queues</name><value>{NAMES}</value></property>" + "".join(
    f"<property><name>{PREFIX}.q{number}.acl_submit_applications</name>"
    f"<value>u{number} g</value></property>"
    for number in range(QUEUES)
)


class Clock:
    """Time passes only where it is asked for, or slept."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(turns, "time", made)
    return made


def test_it_sleeps_for_as_long_as_it_has_worked(clock: Clock) -> None:
    with taking_turns():
        for _ in in_turns(range(10)):
            clock.now += 0.001
    assert clock.slept == pytest.approx([0.002] * 4)


def test_what_was_long_is_followed_by_a_bounded_sleep(clock: Clock) -> None:
    with taking_turns():
        clock.now += 0.03
        give_way()
        clock.now += 3_600
        give_way()
    assert clock.slept == pytest.approx([0.03, 0.05])


def test_who_takes_no_turns_never_sleeps(clock: Clock) -> None:
    with taking_turns():
        pass
    clock.now += 1
    give_way()
    assert not clock.slept


@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        ("yunikorn", YUNIKORN),
        ("fair-scheduler", f"<allocations>{FAIR}</allocations>"),
        ("capacity-scheduler", f"<configuration>{CAPACITY}</configuration>"),
    ],
)
def test_no_loop_over_a_large_document_lasts_from_break_to_break(
    monkeypatch: pytest.MonkeyPatch, format_name: str, text: str
) -> None:
    """Time is counted in calls of functions, in which a machine's load does not matter."""
    calls = 0
    worked: list[float] = []

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    clock = SimpleNamespace(monotonic=lambda: calls, sleep=worked.append)
    monkeypatch.setattr(turns, "time", clock)
    monkeypatch.setattr(turns, "_WORK", 0)
    monkeypatch.setattr(turns, "_LONGEST_SLEEP", 1_000_000)
    with taking_turns():
        sys.setprofile(count)
        try:
            loaded = load_policy(format_name, text.encode(), "f")
            lint(format_name, text.encode(), "f")
        finally:
            sys.setprofile(None)
        give_way()
    assert len(loaded.partitions["default"].queues) == QUEUES + 1
    assert max(worked) < QUEUES
