"""What a gate does not take from a server: each message beyond its bound, and what adds up."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from queuegate.gate import bounds, checks
from queuegate.gate.checks import BrokenProtocol
from queuegate.gate.stream_log import text_to_log
from queuegate.policy.decision import RULES
from queuegate.v1 import sync_pb2, user_groups_pb2
from tests.support.compiled_policies import yunikorn_part
from tests.support.hostile_tables import HOSTILE_TABLES, faulty
from tests.unit.client.test_gate_state import Gate

MAX_UINT32, MAX_UINT64 = 2**32 - 1, 2**64 - 1
LONG = "x" * (bounds.MAX_NAME_BYTES + 1)
DIGEST = bytes(bounds.MAX_DIGEST_BYTES + 1)


def opened(**fields: Any) -> dict[str, Any]:
    message = sync_pb2.SyncOpened(epoch=b"e", lease_millis=5_000, ping_interval_millis=1_000)
    message.MergeFrom(sync_pb2.SyncOpened(**fields))
    return {"opened": message}


def part(*paths: str, partition: str = "default", **fields: Any) -> dict[str, Any]:
    """Return a policy of queues without ACLs below the root."""
    tree = dict.fromkeys(("root", *paths), ("", ""))
    made = yunikorn_part(tree, partition, **fields)
    if not paths:
        for table in ("names", "levels", "configured_queues", "created_queues"):
            made.ClearField(table)
    return {"policy": made}


def twice() -> dict[str, Any]:
    message = part("root.a", "root.b")
    message["policy"].configured_queues.name[2] = "a"
    return message


WRONG: dict[str, Callable[[], dict[str, Any]]] = {
    "a lease of 5001 ms; the longest is 5000": lambda: opened(lease_millis=5_001),
    "a lease of 4294967295 ms": lambda: opened(lease_millis=MAX_UINT32),
    "a ping interval of 5001 ms": lambda: opened(ping_interval_millis=5_001),
    "a ping interval of 4294967295 ms": lambda: opened(ping_interval_millis=MAX_UINT32),
    "`opened.epoch` has 17 bytes": lambda: opened(epoch=bytes(17)),
    "`opened.partitions`: a name": lambda: opened(partitions=["a", LONG]),
    "`opened.partitions` has 10001 items": lambda: opened(partitions=["p"] * 10_001),
    "`opened.keep_groups_of`: a name": lambda: opened(keep_groups_of=[""]),
    "a position that this gate does not have": lambda: opened(epoch=b"other", resumed=True),
    "`policy.partition`: a name must have 1 to 1024": lambda: part(partition=""),
    "`policy.partition`: a name": lambda: part(partition="é" * 513),
    "`policy.checksum` has 65 bytes": lambda: part(checksum=DIGEST),
    "`policy.resolver_fingerprint`": lambda: part(resolver_fingerprint=DIGEST),
    "both removed and unchanged": lambda: part(removed=True, unchanged=True),
    "removed or unchanged, but has queues": lambda: part("root.a", removed=True),
    "contains a queue twice": twice,
    "this gate does not have it": lambda: part(unchanged=True, checksum=b"2"),
    "`forget.users` has 10001": lambda: {
        "forget": sync_pb2.Forget(partition="default", users=["u"] * 10_001)
    },
    "`checkpoint.fleet_cursor.epoch`": lambda: {
        "checkpoint": sync_pb2.SyncCheckpoint(fleet_cursor={"epoch": DIGEST})  # type: ignore[arg-type]
    },
}


@pytest.fixture
def gate() -> Gate:
    made = Gate()
    made.lease()
    return made


@pytest.mark.parametrize("fault", WRONG)
def test_messages_beyond_the_bounds(gate: Gate, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        gate.say(**WRONG[fault]())
    gate.session.drop_everything()
    assert gate.check("alice") is None


@pytest.mark.parametrize("fault", HOSTILE_TABLES)
def test_tables_that_no_server_sends(gate: Gate, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        gate.say(policy=faulty(HOSTILE_TABLES[fault]))
    gate.session.drop_everything()
    assert gate.check("alice") is None
    gate.open()
    gate.say(policy=faulty(lambda _: None))
    gate.lease()
    assert gate.check("bob", "root.a")


def test_a_queue_does_not_follow_those_that_will_be_created(gate: Gate) -> None:
    first = yunikorn_part(last=False)
    first.created_queues.MergeFrom(
        sync_pb2.CreatedQueueColumns(parent=[1], name=["*"], submit=[0], admin=[0])
    )
    gate.say(policy=first)
    second = sync_pb2.PolicyPart(
        partition="default", configured_queues=first.configured_queues, last=True
    )
    with pytest.raises(ValueError, match="a queue follows the created queues"):
        gate.say(policy=second)


@pytest.mark.parametrize("fields", [{"rules": RULES + 1}, {"naming": 99}, {"naming": 0}])
def test_a_policy_of_a_later_version_is_not_read(gate: Gate, fields: dict[str, int]) -> None:
    """Its tables may mean something else: the gate asks, and keeps the stream."""
    later = faulty(HOSTILE_TABLES["the first queue is not 'root'"])
    for name, value in fields.items():
        setattr(later, name, value)
    gate.say(policy=later)
    assert gate.check("alice") is None
    unchanged = sync_pb2.PolicyPart(partition="default", unchanged=True, checksum=b"1")
    gate.say(policy=unchanged)
    gate.lease()
    assert gate.check("alice") is None
    gate.say(policy=yunikorn_part())
    assert gate.check("alice")


@pytest.mark.parametrize("kind", ["pong", "checkpoint"])
def test_a_policy_must_be_complete_before_it_is_vouched_for(gate: Gate, kind: str) -> None:
    ping = gate.session.ping(gate.clock()).ping
    messages = {
        "pong": sync_pb2.SyncPong(id=ping.id),
        "checkpoint": sync_pb2.SyncCheckpoint(sequence=2),
    }
    gate.say(**part("root.a", last=False))
    with pytest.raises(ValueError, match=f"`{kind}` came before the policy of 'default' was"):
        gate.say(**{kind: messages[kind]})


def test_parts_do_not_outlive_a_reset(gate: Gate) -> None:
    gate.say(**part("root.a", last=False))
    gate.say(**opened())
    with pytest.raises(ValueError, match="are incomplete"):
        gate.say(policy=sync_pb2.PolicyPart(partition="default", last=True))


def test_a_partition_that_is_not_followed() -> None:
    gate = Gate(("default",))
    with pytest.raises(ValueError, match="does not follow the partition 'gpu'"):
        gate.say(**part("root.a", partition="gpu"))


def say_all(gate: Gate, messages: Iterable[dict[str, Any]]) -> None:
    for message in messages:
        gate.say(**message)


@pytest.mark.parametrize(
    ("bound", "what"),
    [("MAX_NAMES", "names"), ("MAX_LEVELS", "levels"), ("MAX_LISTED", "names in levels")],
)
def test_tables_are_bounded_over_all_policies(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, bound: str, what: str
) -> None:
    monkeypatch.setattr(bounds, bound, 100)
    acl = ",".join(f"u{number}" for number in range(40))
    tree = {"root": (acl, "")} | {f"root.q{number}": ("bob", "") for number in range(39)}
    for _ in range(2):  # one takes the place of the other
        gate.say(policy=yunikorn_part(tree))
    gate.say(policy=yunikorn_part({"root": ("alice", "")}, "gpu"))
    others = [yunikorn_part({"root": (f"a{each},b", "x")}, f"p{each}") for each in range(40)]
    with pytest.raises(ValueError, match=f"more than 100 {what}"):
        say_all(gate, ({"policy": each} for each in others))


def test_queues_are_bounded_over_all_policies(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_QUEUES", 100)
    large = [f"root.q{number}" for number in range(97)]
    for _ in range(2):  # one takes the place of the other
        gate.say(**part(*large))
        gate.say(**part("root.a", partition="gpu"))
    with pytest.raises(ValueError, match="more than 100 queues"):
        gate.say(**part("root.a", partition="tpu"))
    gate.say(**part(removed=True))
    gate.say(**part("root.a", partition="tpu"))
    rows = sync_pb2.QueueColumns(parent=[1] * 10, name=["a"] * 10, submit=[0] * 10, admin=[0] * 10)
    part_of_many = sync_pb2.PolicyPart(partition="default", configured_queues=rows)
    gate.say(**part("root.a", last=False))
    with pytest.raises(ValueError, match="more than 100 queues"):
        say_all(gate, [{"policy": part_of_many}] * 100)


def test_queues_that_will_be_created_are_bounded(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_QUEUES", 100)
    message = part("root.a")
    names = [f"q{number}" for number in range(101)]
    message["policy"].created_queues.MergeFrom(
        sync_pb2.CreatedQueueColumns(
            parent=[*range(1, 102)], name=names, submit=[0] * 101, admin=[0] * 101
        )
    )
    with pytest.raises(ValueError, match="more than 100 created queues"):
        gate.say(**message)


def test_bytes_are_bounded_over_all_policies(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_POLICY_BYTES", 10_000)
    gate.say(**part("root." + "a" * 4_000))
    gate.say(**part("root." + "a" * 4_000, partition="gpu"))
    with pytest.raises(ValueError, match="more than 10000 bytes"):
        gate.say(**part("root." + "a" * 4_000, partition="tpu"))


def test_the_paths_of_all_policies_are_bounded(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes may stand for a long path."""
    monkeypatch.setattr(bounds, "MAX_PATHS_BYTES", 10_000)
    line = ["root"]
    for _ in range(90):
        line.append(f"{line[-1]}.a")
    for _ in range(2):
        gate.say(**part(*line[1:]))
    with pytest.raises(ValueError, match="more than 10000 bytes in queue paths"):
        gate.say(**part(*line[1:], partition="gpu"))
    line += [f"{line[-1]}.{'a' * number}" for number in range(1, 60)]
    gate.say(**part(removed=True))
    with pytest.raises(ValueError, match="the paths have more than 10000 bytes"):
        gate.say(**part(*line[1:]))


def test_partitions_are_bounded(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_PARTITIONS", 10)
    for number in range(9):
        gate.say(**part("root.a", partition=f"p{number}"))
    gate.say(**part("root"))
    with pytest.raises(ValueError, match="more than 10 partitions"):
        gate.say(**part("root.a", partition="another"))


def test_announced_policies_are_bounded(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server refuses a gate that announces more, for ever."""
    monkeypatch.setattr(bounds, "MAX_ANNOUNCED_BYTES", 1_000)
    for number in range(100):
        gate.say(**part("root.a", partition=f"{number:0100}"))
    assert 5 < len(gate.session.open().open.held) <= 10


RESOLVED = user_groups_pb2.RESOLVE_OUTCOME_RESOLVED


@pytest.mark.parametrize(
    ("outcome", "groups"),
    [
        (RESOLVED, ["staff"] * (bounds.MAX_GROUPS + 1)),
        (RESOLVED, ["staff", LONG]),
        (77, ["staff"]),
        (-1, ["staff"]),
        (user_groups_pb2.RESOLVE_OUTCOME_UNSPECIFIED, ["staff"]),
    ],
)
def test_answers_that_cannot_be_used_are_asked_about(
    gate: Gate, outcome: Any, groups: list[str]
) -> None:
    gate.session.want("default", ["sam"], gate.clock())
    answer = sync_pb2.UserGroups(
        partition="default", user="sam", outcome=outcome, groups=groups, lifetime_millis=50
    )
    gate.say(user_groups=answer)
    assert gate.check("sam") is None
    assert gate.session.is_wanted("default", "sam", gate.clock()), "not at once"
    gate.clock.advance(bounds.MIN_LOOKUP_SECONDS)
    assert not gate.session.is_wanted("default", "sam", gate.clock())
    assert gate.check("alice"), "the stream continues"


def test_lifetimes_have_a_ceiling(gate: Gate) -> None:
    gate.session.want("default", ["sam"], gate.clock())
    answer = sync_pb2.UserGroups(
        partition="default",
        user="sam",
        outcome=RESOLVED,
        groups=["staff"],
        lifetime_millis=MAX_UINT64,
    )
    gate.say(user_groups=answer)
    gate.clock.advance(bounds.MAX_LIFETIME_SECONDS - 1)
    gate.lease()
    assert gate.check("sam")
    gate.clock.advance(1)
    gate.lease()
    assert gate.check("sam") is None


def test_an_outage_lends_no_later_lifetime(gate: Gate) -> None:
    """Groups are as old as the question, also if the answer before was an outage of years."""
    gate.session.want("default", ["sam"], gate.clock())
    away = user_groups_pb2.RESOLVE_OUTCOME_UNAVAILABLE
    outage = sync_pb2.UserGroups(
        partition="default", user="sam", outcome=away, lifetime_millis=MAX_UINT64
    )
    gate.say(user_groups=outage)
    gate.answer("sam", "staff")
    assert gate.check("sam") is None, "nobody asked again"


def test_groups_are_bounded_over_all_users(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_GROUP_BYTES", 1_000)
    for number in range(20):
        gate.learn(f"u{number}", "x" * 136)
        assert gate.replica._group_bytes <= 1_000
    assert len(gate.replica.users) == 5
    gate.say(forget=sync_pb2.Forget(partition="default"))
    assert gate.replica._group_bytes == 0


def test_the_ping_interval_has_a_floor(gate: Gate) -> None:
    gate.say(**opened(ping_interval_millis=1))
    assert gate.session.ping_interval == bounds.MIN_PING_SECONDS


def test_what_is_no_message_is_named() -> None:
    large = checks.read_response(bytes(bounds.MAX_MESSAGE_BYTES + 1))
    assert isinstance(large, BrokenProtocol)
    assert str(large) == "a message has 4194305 bytes; the limit is 4194304"
    assert isinstance(checks.read_response(b"\xff"), BrokenProtocol)
    pong = sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=1))
    assert checks.read_response(pong.SerializeToString()) == pong


def test_texts_of_a_server_are_cut_and_escaped() -> None:
    assert text_to_log("no\nWARNING é") == "no\\nWARNING é"
    assert len(text_to_log("x" * 9_999)) == bounds.MAX_TEXT_CHARACTERS + 3


def test_a_gate_without_a_position_resumes_nothing(gate: Gate) -> None:
    gate.session.drop_everything()
    gate.session.open()
    greeting = sync_pb2.SyncOpened(lease_millis=5_000, ping_interval_millis=1_000, resumed=True)
    with pytest.raises(ValueError, match="a position that this gate does not have"):
        gate.say(opened=greeting)


def test_unknown_fields_of_a_cursor_are_not_sent_back() -> None:
    gate = Gate()
    checkpoint = sync_pb2.SyncCheckpoint(sequence=2)
    unknown = b"\xc2\x3e\x80\x80\x40" + bytes(1 << 20)
    checkpoint.fleet_cursor.MergeFromString(b"\x0a\x05fleet\x10\x07" + unknown)
    gate.say(checkpoint=checkpoint)
    again = gate.session.open()
    assert again.open.fleet_cursor.epoch == b"fleet"
    assert again.open.fleet_cursor.sequence == 7
    assert again.ByteSize() < 1_000
