"""The numbered changes that gates must learn of."""

import pytest

from queuegate_server.sync import change_log
from queuegate_server.sync.change_log import POLICY_CHANGED, GateLog, StateChange

SERVER = b"8 bytes."


def test_changes_are_numbered_and_kept() -> None:
    log = GateLog(SERVER)
    assert log.head == 0
    assert log.policy_changed() == 1
    assert log.invalidate("default", ["a", "b"]) == 2
    assert log.invalidate("default") == 3
    assert log.since(3) == []
    assert log.since(1) == [StateChange("default", frozenset("ab")), StateChange("default")]
    assert log.since(0)[0] == POLICY_CHANGED


@pytest.mark.parametrize(
    ("sequence", "kept"), [(-1, False), (0, False), (1, True), (4, True), (5, False)]
)
def test_the_oldest_changes_are_dropped(sequence: int, *, kept: bool) -> None:
    log = GateLog(SERVER, max_changes=3)
    for _ in range(4):
        log.policy_changed()
    assert log.has_all_since(sequence) is kept


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "MAX_NAMES", 5)
    log = GateLog(SERVER)
    for users in (["a", "b"], ["c", "d"], ["e"]):
        log.invalidate("default", users)
    assert log.has_all_since(0)
    log.invalidate("default", ["f"])
    assert not log.has_all_since(0)
    assert log.has_all_since(1)


def test_many_names_are_all_users() -> None:
    log = GateLog(SERVER)
    log.invalidate("default", [str(number) for number in range(change_log.MAX_INVALIDATED + 1)])
    assert log.since(0) == [StateChange("default")]


def test_groups_are_valid_until_they_are_forgotten() -> None:
    log = GateLog(SERVER, max_changes=3)
    log.invalidate("other", ["alice"])
    log.invalidate("default", ["bob"])
    assert log.is_valid("default", "alice", 0)
    assert not log.is_valid("default", "bob", 0)
    assert log.is_valid("default", "bob", 2)
    assert not log.is_valid("other", "alice", 0)
    log.invalidate("default")
    assert not log.is_valid("default", "alice", 2)
    assert log.is_valid("other", "bob", 2)
    log.policy_changed()
    assert not log.is_valid("other", "bob", 0), "a change that is not kept may concern anybody"


def test_a_change_is_known_to_its_process_and_to_all_workers() -> None:
    log, colleague, stranger = GateLog(SERVER), GateLog(SERVER), GateLog(b"another.")
    log.policy_changed()
    assert log.epoch != colleague.epoch
    assert log.has_seen(log.epoch, 1)
    assert not log.has_seen(log.epoch, 2)
    assert log.has_seen(colleague.epoch, 99)
    assert not log.has_seen(stranger.epoch, 0)
    assert not log.has_seen(SERVER, 0)
    assert not log.has_seen(b"", 0)
