"""Decisions are counted and recorded without a call: from domain values."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from queuegate.policy.decision import NO_MATCH, Decision, Reason
from queuegate_server.decisions.log import (
    NUMBERS,
    AuditUnavailable,
    DecidedCheck,
    DecisionLog,
)
from queuegate_server.observe.audit import AuditLog

QUESTION = {"user": "ann", "partition": "default", "groups_in_request": 2, "queue": "root.a"}
GRANTED = Decision(True, Reason.GROUP, "root", "staff")


class Audit(AuditLog):
    """Keeps records in memory, as long as it has room."""

    is_half_full = False

    def __init__(self, *, has_room: bool = True) -> None:
        self.records: list[Mapping[str, Any]] = []
        self._has_room = has_room

    async def append(
        self, records: Callable[[], Iterable[Mapping[str, Any]]], number: int, size: int
    ) -> bool:
        del number, size
        self.records += records()
        return self._has_room


def checks() -> list[DecidedCheck]:
    return [
        DecidedCheck("Admit", 0.0, "webhook", QUESTION, outcome, 7)
        for outcome in (GRANTED, NO_MATCH, "resolver_unavailable")
    ]


@pytest.mark.parametrize(
    ("allowed", "recorded"),
    [
        (False, ["no_match", "resolver_unavailable"]),
        (True, ["group", "no_match", "resolver_unavailable"]),
    ],
)
async def test_only_decisions_that_are_due_are_recorded(allowed: bool, recorded: list[str]) -> None:
    audit = Audit()
    log = DecisionLog(audit, allowed=allowed)
    reasons = bytes([NUMBERS[Reason.GROUP], NUMBERS[Reason.NO_MATCH], 0])
    assert log.due(reasons) == len(recorded)
    await log.record(checks, log.due(reasons), 0)
    assert [each["reason"] for each in audit.records] == recorded


async def test_what_cannot_be_recorded_is_withheld() -> None:
    log = DecisionLog(Audit(has_room=False))
    with pytest.raises(AuditUnavailable):
        await log.record(checks, 2, 0)
    await DecisionLog().record(checks, 0, 0)  # there is no audit log


def test_counts_are_by_outcome_and_reason() -> None:
    log = DecisionLog()
    log.count(bytes([NUMBERS[Reason.GROUP]] * 3 + [NUMBERS[Reason.NO_MATCH], 0]), ["not_ready"])
    log.count_errors("audit_unavailable", 2)
    assert {each for each in log.tallied() if each[2]} == {
        ("allowed", "group", 3),
        ("denied", "no_match", 1),
        ("error", "not_ready", 1),
        ("error", "audit_unavailable", 2),
    }
