"""Bounds that both sides of SyncService know."""

import re
from pathlib import Path

from queuegate import _channel
from queuegate.gate import reflector, session, silence
from queuegate.policy.decision import RULES
from queuegate_server.rpc import sync_service, sync_validation
from queuegate_server.sync import compiler
from queuegate_server.sync import session as server

GO = Path(__file__).resolve().parents[3] / "client" / "go" / "queuegate"
_UNITS = {"": 1, "time.Second": 1, "time.Millisecond": 0.001}


def go(name: str) -> float:
    """Return the value of a constant of the Go client; times in seconds."""
    pattern = re.compile(rf"\b{name}\s*=\s*([\d_]+)(?: \* (time\.\w+))?\s*(?://.*)?$", re.MULTILINE)
    paths = [path for path in GO.rglob("*.go") if not path.name.endswith("_test.go")]
    [(number, unit)] = {each for path in paths for each in pattern.findall(path.read_text())}
    return int(number.replace("_", "")) * _UNITS[unit]


def test_both_sides_decide_by_the_same_rules() -> None:
    assert go("Rules") == RULES


def test_gates_ask_for_no_more_than_servers_take() -> None:
    assert reflector.MAX_WANTED == go("maxWanted") == sync_validation.MAX_WANTED
    assert reflector.MAX_WAITING == go("maxWaiting") == sync_service.MAX_WAITING
    assert go("maxPartitions") <= sync_validation.MAX_PARTITIONS
    assert go("maxGateName") == sync_validation.MAX_NAME_BYTES


def test_a_dead_stream_is_noticed_before_its_lease_ends() -> None:
    for seconds in (silence.SILENCE, go("silence")):
        assert 2 * server.PING_INTERVAL < seconds < server.LEASE
    assert server.LEASE < sync_service.MAX_SILENCE
    # A ping that may still grant a lease has not been forgotten.
    for pings in (session.MAX_PINGS, go("maxPings")):
        assert pings * server.PING_INTERVAL > server.LEASE


def test_parts_of_policies_are_received() -> None:
    assert 2 * compiler.MAX_PART_BYTES < _channel.MAX_RECEIVE_BYTES
