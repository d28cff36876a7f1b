"""The gates for Python, Go and Java have the same limits."""

import math
import re
from pathlib import Path
from typing import Final

import pytest

from queuegate.gate import bounds, reflector, replica, session, silence
from queuegate.policy.decision import RULES
from queuegate_server.rpc import sync_validation, validation
from queuegate_server.sync import change_log, compiler
from queuegate_server.sync import session as server

GO: Final = Path("client/go/queuegate")
JAVA: Final = Path("client/java/src/main/java/io/queuegate/internal")
UNITS: Final = {"time.Second": 1.0, "time.Millisecond": 0.001}


def go_constant(file: str, name: str) -> float:
    """Return a constant of Go: a number, a shifted number, or a duration in seconds."""
    text = (GO / file).read_text()
    found = re.search(rf"^(?:const |\t){name} += ([^/\n]+?)(?: +//.*)?$", text, re.MULTILINE)
    assert found is not None, name
    value = math.prod(_factor(each.strip()) for each in found[1].split("*"))
    assert value > 0
    return value


def java_constant(file: str, name: str) -> float:
    """Return a constant of Java: a number, a shifted number, or a duration in seconds."""
    text = (JAVA / file).read_text()
    value = r"(?:TimeUnit\.(MILLISECONDS|SECONDS)\.toNanos\()?([\d_.]+)(?: << (\d+))?\)?"
    found = re.search(rf" static final \w+ {name} = {value};", text)
    assert found is not None, name
    unit = {"MILLISECONDS": 0.001, "SECONDS": 1.0}.get(found[1], 1.0)
    return float(found[2]) * float(1 << int(found[3] or 0)) * unit


def table_of_go() -> dict[str, float]:
    """Return the constants of `bounds.go`, times in seconds."""
    file = "internal/gate/bounds.go"
    names = re.findall(r"^\t(\w+) += ", (GO / file).read_text(), re.MULTILINE)
    return {name: go_constant(file, name) for name in names}


def name_in_go(name: str) -> str:
    """Return the name that a constant of `bounds.py` has in Go."""
    first, *others = name.removesuffix("_SECONDS").lower().split("_")
    return first + "".join(map(str.capitalize, others))


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
        ("internal/gate/stream.go", "silence", silence.SILENCE),
        ("internal/gate/wants.go", "answerTime", session.WANT_AGAIN),
        ("internal/gate/session.go", "maxPings", session.MAX_PINGS),
        ("internal/gate/users.go", "maxUsers", replica.MAX_USERS),
        ("internal/gate/users.go", "refreshAfter", replica.REFRESH_AFTER),
    ],
)
def test_gates_have_equal_limits(file: str, name: str, expected: float) -> None:
    assert go_constant(file, name) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("file", "name", "expected"),
    [
        ("GateCore.java", "FIRST_PAUSE", reflector.FIRST_PAUSE),
        ("GateCore.java", "LONGEST_PAUSE", reflector.LONGEST_PAUSE),
        ("StreamLoop.java", "RELEASE_TIME", reflector.RELEASE_SECONDS),
        ("Liveness.java", "SILENCE", silence.SILENCE),
        ("Wants.java", "ANSWER_TIME", session.WANT_AGAIN),
        ("Session.java", "MAX_PINGS", session.MAX_PINGS),
        ("Users.java", "MAX_USERS", replica.MAX_USERS),
        ("Users.java", "REFRESH_AFTER", replica.REFRESH_AFTER),
        ("Names.java", "MAX_NAME_BYTES", validation.MAX_NAME_BYTES),
        ("Partition.java", "RULES", RULES),
    ],
)
def test_gates_for_java_have_equal_limits(file: str, name: str, expected: float) -> None:
    assert java_constant(file, name) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("file", "name", "limit"),
    [
        ("internal/policy/names.go", "maxNameBytes", validation.MAX_NAME_BYTES),
    ],
)
def test_the_gate_for_go_decides_what_a_server_accepts(file: str, name: str, limit: int) -> None:
    assert go_constant(file, name) == limit


def test_gates_share_one_table_of_bounds() -> None:
    table = {name_in_go(name): value for name, value in vars(bounds).items() if name.isupper()}
    table["maxGroupsOfUser"] = table.pop("maxGroups")  # a question has another limit of this name
    assert table_of_go() == pytest.approx(table)
    assert len(table) > 20
    text = (JAVA / "Bounds.java").read_text()
    of_java = re.findall(r" static final \w+ (\w+) = ", text)
    named = {name.removesuffix("_SECONDS"): value for name, value in vars(bounds).items()}
    named["MAX_GROUPS_OF_USER"] = named.pop("MAX_GROUPS")
    assert {name: java_constant("Bounds.java", name) for name in of_java} == pytest.approx(
        {name: value for name, value in named.items() if name.isupper()}
    )


def test_a_gate_believes_no_longer_lease_than_the_server_grants() -> None:
    assert bounds.MAX_LEASE_SECONDS == server.LEASE
    assert bounds.MIN_PING_SECONDS < server.PING_INTERVAL < bounds.MAX_PING_SECONDS
    assert bounds.MAX_DIGEST_BYTES == sync_validation.MAX_DIGEST_BYTES
    assert bounds.MAX_EPOCH_BYTES == change_log.EPOCH_BYTES
    assert bounds.MAX_ANNOUNCED_BYTES < sync_validation.MAX_PARTITION_CHARACTERS
    assert bounds.MAX_PARTITIONS == sync_validation.MAX_PARTITIONS
    assert bounds.MAX_FORGOTTEN >= change_log.MAX_INVALIDATED
    assert bounds.MAX_MESSAGE_BYTES > 2 * compiler.MAX_PART_BYTES
    assert bounds.MAX_PATH_BYTES == validation.MAX_QUEUE_BYTES
