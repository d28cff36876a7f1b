"""The gates for Python and Go have the same limits."""

import math
import re
from pathlib import Path
from typing import Final

import pytest

from queuegate.gate import outbox, reflector, replica, session
from queuegate_server.rpc import validation

GO: Final = Path("client/go/queuegate")
UNITS: Final = {"time.Second": 1.0, "time.Millisecond": 0.001}


def go_constant(file: str, name: str) -> float:
    """Return a constant of Go: a number, a shifted number, or a duration in seconds."""
    text = (GO / file).read_text()
    found = re.search(rf"^(?:const |\t){name} += ([^/\n]+)$", text, re.MULTILINE)
    assert found is not None, name
    value = math.prod(_factor(each.strip()) for each in found[1].split("*"))
    assert value > 0
    return value


def _factor(text: str) -> float:
    if text in UNITS:
        return UNITS[text]
    number, _, shift = text.partition(" << ")
    return float(number) * float(1 << int(shift or 0))


@pytest.mark.parametrize(
    ("file", "name", "expected"),
    [
        ("internal/gate/gate.go", "firstPause", reflector.FIRST_PAUSE),
        ("internal/gate/gate.go", "longestPause", reflector.LONGEST_PAUSE),
        ("internal/gate/gate.go", "releaseTime", reflector.RELEASE_SECONDS),
        ("internal/gate/stream.go", "silence", reflector.SILENCE),
        ("internal/gate/wants.go", "answerTime", session.WANT_AGAIN),
        ("internal/gate/session.go", "maxPings", session.MAX_PINGS),
        ("internal/gate/users.go", "maxUsers", replica.MAX_USERS),
        ("internal/gate/users.go", "refreshAfter", replica.REFRESH_AFTER),
        ("internal/gate/outbox.go", "maxOutboxBytes", outbox.MAX_BYTES),
        ("internal/gate/outbox.go", "maxSegmentBytes", outbox.MAX_SEGMENT_BYTES),
    ],
)
def test_gates_have_equal_limits(file: str, name: str, expected: float) -> None:
    assert go_constant(file, name) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("file", "name", "limit"),
    [
        ("internal/gate/decider.go", "maxGroups", validation.MAX_GROUPS),
        ("internal/policy/names.go", "maxNameBytes", validation.MAX_NAME_BYTES),
    ],
)
def test_the_gate_for_go_decides_what_a_server_accepts(file: str, name: str, limit: int) -> None:
    assert go_constant(file, name) == limit
