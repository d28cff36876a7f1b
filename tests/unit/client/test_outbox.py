"""Decisions on disk: none is lost, whatever happens to the process."""

from pathlib import Path

import pytest

from queuegate.gate import outbox as module
from queuegate.gate.outbox import Outbox
from queuegate.v1 import sync_pb2


def decision(number: int) -> sync_pb2.LocalDecision:
    return sync_pb2.LocalDecision(user=f"user {number}")


def take(box: Outbox) -> list[str]:
    """Report everything; return the users."""
    users: list[str] = []
    while (oldest := box.oldest()) is not None:
        segment, groups = oldest
        users += [each.user for group in groups for each in group]
        box.remove(segment)
    return users


def test_decisions_come_in_order_and_once(tmp_path: Path) -> None:
    box = Outbox(tmp_path / "a" / "b")
    assert take(box) == []
    for start in (0, 3_000):
        for number in range(start, start + 3_000):
            assert box.append(decision(number))
        assert take(box) == [f"user {number}" for number in range(start, start + 3_000)]
    box.close()
    assert not box.append(decision(1))


def test_what_was_not_confirmed_comes_again(tmp_path: Path) -> None:
    box = Outbox(tmp_path)
    box.append(decision(1))
    assert box.oldest() == box.oldest()
    box.append(decision(2))
    box.close()
    again = Outbox(tmp_path)
    again.append(decision(3))
    assert take(again) == ["user 1", "user 2", "user 3"]
    again.close()


@pytest.mark.parametrize("missing", range(1, 12))
def test_a_decision_that_was_not_written_completely_was_not_answered(
    tmp_path: Path, missing: int
) -> None:
    box = Outbox(tmp_path)
    for number in range(3):
        box.append(decision(number))
    box.close()
    (segment,) = tmp_path.glob("*.decisions")
    segment.write_bytes(segment.read_bytes()[:-missing])
    again = Outbox(tmp_path)
    assert take(again) == ["user 0", "user 1"] if missing < 9 else ["user 0"]
    again.close()


def test_the_size_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 25)
    box = Outbox(tmp_path)
    assert [box.append(decision(number)) for number in range(4)] == [True, True, False, False]
    assert take(box) == ["user 0", "user 1"]
    assert box.append(decision(5))
    box.close()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on the system
        Outbox(tmp_path / "file")
    box = Outbox(tmp_path / "box")
    (tmp_path / "box" / "00000000000000000001.decisions").touch()
    assert not box.append(decision(1))
    box.close()
