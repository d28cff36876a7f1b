"""The server's side of the protocol, message by message."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from queuegate.policy.decision import RULES
from queuegate.v1 import cursor_pb2, sync_pb2, user_groups_pb2
from queuegate_server.fleet.fence import OrderFence
from queuegate_server.sync import session as module
from queuegate_server.sync.change_log import POLICY_CHANGED, GateLog, StateChange
from queuegate_server.sync.session import (
    InvalidSync,
    Session,
    ShippedPolicy,
    SyncRights,
)
from tests.support.rows import rows

RIGHTS = SyncRights(local_decisions=True, assert_groups=True)
OLD_REPORT = sync_pb2.SyncRequest.FromString(b"\x2a\x02\x08\x01")
"""Field 5, in which gates with an outbox reported their decisions."""


class Policies:
    """Partitions with a version each. The groups of `gpu` are not shared."""

    may_decide = True

    def __init__(self, **versions: int) -> None:
        self.versions = versions

    @property
    def shipped(self) -> Mapping[str, ShippedPolicy]:
        return {name: _shipped(name, version) for name, version in self.versions.items()}


def _shipped(name: str, version: int) -> ShippedPolicy:
    def part(**fields: Any) -> sync_pb2.SyncResponse:
        return sync_pb2.SyncResponse(policy=sync_pb2.PolicyPart(partition=name, **fields))

    checksum = b"%d" % version
    parts = [part(first=True, checksum=checksum), part(last=True)]
    unchanged = part(unchanged=True, checksum=checksum)
    source = b"" if name == "gpu" else b"ldap"
    return ShippedPolicy(checksum, version, parts, unchanged, source)


def request(kind: str, **fields: Any) -> sync_pb2.SyncRequest:
    found = sync_pb2.SyncRequest()
    getattr(found, kind).SetInParent()
    getattr(found, kind).MergeFrom(type(getattr(found, kind))(**fields))
    return found


def kinds(session: Session) -> list[str]:
    """Return what the session sends now."""
    found = []
    while (response := session.next_response()) is not None:
        kind: str = response.WhichOneof("message") or ""
        if kind == "policy":
            part = response.policy
            state = "removed" if part.removed else "unchanged" if part.unchanged else "part"
            kind = f"{part.partition} {state}"
        if kind == "forget":
            kind = f"forget {response.forget.partition} {' '.join(sorted(response.forget.users))}"
        found.append(kind.rstrip())
    return found


@pytest.fixture
def log() -> GateLog:
    return GateLog(b"12345678")


@pytest.fixture
def policies() -> Policies:
    return Policies(default=1, gpu=1)


def opened(log: GateLog, policies: Policies, **fields: Any) -> Session:
    session = Session(log, policies, RIGHTS)
    assert session.next_response() is None
    session.receive(request("open", **fields), 0)
    return session


def test_a_new_caller_gets_everything(log: GateLog, policies: Policies) -> None:
    session = opened(log, policies)
    assert kinds(session) == [
        "opened", "default part", "default part", "gpu part", "gpu part", "checkpoint",
    ]  # fmt: skip


def test_a_caller_gets_the_partitions_that_it_names(log: GateLog, policies: Policies) -> None:
    session = opened(log, policies, partitions=["gpu", "no"])
    assert kinds(session) == ["opened", "gpu part", "gpu part", "checkpoint"]
    log.invalidate("default", ["alice"])
    assert kinds(session) == ["checkpoint"]


@rows
def test_a_mistyped_partition_names_those_that_exist(
    log: GateLog, policies: Policies, named: list[str], expected: list[str]
) -> None:
    first = opened(log, policies, partitions=named).next_response()
    assert first is not None
    assert [*first.opened.partitions] == expected


def test_a_greeting_names_few_partitions_that_the_caller_did_not_name(log: GateLog) -> None:
    policies = Policies(**{f"p{number}": 1 for number in range(100)})
    first = opened(log, policies, partitions=["p99", "no"]).next_response()
    assert first is not None
    assert len(first.opened.partitions) == 1 + 11
    named = [f"p{number}" for number in range(99)] + [f"n{number}" for number in range(9_901)]
    first = opened(log, policies, partitions=named).next_response()
    assert first is not None
    assert len(first.opened.partitions) <= 10_000


def test_a_policy_that_the_caller_holds_is_not_sent(log: GateLog, policies: Policies) -> None:
    held = [
        sync_pb2.HeldPolicy(partition="default", checksum=b"1"),
        sync_pb2.HeldPolicy(partition="old", checksum=b"9"),
    ]
    session = opened(log, policies, held=held)
    assert kinds(session) == [
        "opened", "old removed", "default unchanged", "gpu part", "gpu part", "checkpoint",
    ]  # fmt: skip


def test_a_caller_that_resumes_gets_the_changes(log: GateLog, policies: Policies) -> None:
    log.policy_changed()
    held = [sync_pb2.HeldPolicy(partition=name, checksum=b"1") for name in ("default", "gpu")]
    resume = {"epoch": log.epoch, "sequence": log.head}
    log.invalidate("default", ["b", "a"])
    policies.versions["gpu"] = 2
    log.policy_changed()
    session = opened(log, policies, held=held, resume=resume)
    assert kinds(session) == [
        "opened", "forget default a b", "default unchanged", "gpu part", "gpu part", "checkpoint",
    ]  # fmt: skip
    session.receive(request("applied", sequence=log.head), 0)
    assert session.applied == log.head


def test_a_policy_that_the_caller_does_not_get_is_removed_at_once(
    log: GateLog, policies: Policies
) -> None:
    held = [sync_pb2.HeldPolicy(partition=name, checksum=b"1") for name in ("default", "old")]
    resume = {"epoch": log.epoch, "sequence": log.head}
    session = opened(log, policies, partitions=["default"], held=held, resume=resume)
    assert kinds(session) == ["opened", "old removed"]
    log.policy_changed()
    assert kinds(session) == ["default unchanged", "checkpoint"]


@pytest.mark.parametrize("resume", [{"epoch": b"other", "sequence": 0}, {"sequence": 9}])
def test_a_caller_of_another_process_starts_anew(
    log: GateLog, policies: Policies, resume: dict[str, Any]
) -> None:
    session = opened(log, policies, resume={"epoch": log.epoch, **resume})
    first = session.next_response()
    assert first is not None
    assert not first.opened.resumed


def test_a_caller_that_is_too_slow_starts_anew(policies: Policies) -> None:
    log = GateLog(b"12345678", max_changes=2)
    session = opened(log, policies)
    kinds(session)
    for _ in range(3):
        log.policy_changed()
    assert kinds(session) == ["opened", "default unchanged", "gpu unchanged", "checkpoint"]


class ScriptedFleetEvents(OrderFence):
    """Events of a fleet, numbered from 1, of which the newest are known."""

    cursor: cursor_pb2.Cursor | None = None

    def __init__(self, *events: StateChange) -> None:
        self.events = events
        self.known_after = 0
        self.cursor = self.at(len(events))

    @staticmethod
    def at(sequence: int) -> cursor_pb2.Cursor:
        return cursor_pb2.Cursor(epoch=b"fleet", sequence=sequence)

    def since(self, cursor: cursor_pb2.Cursor) -> Sequence[StateChange] | None:
        is_known = cursor.epoch == b"fleet" and cursor.sequence >= self.known_after
        return self.events[cursor.sequence :] if is_known else None


EVENTS = ScriptedFleetEvents(
    StateChange("default", frozenset(("eve",))),
    StateChange("default", frozenset(("sue",))),
    POLICY_CHANGED,
    StateChange("gpu", frozenset(("sam",))),
    StateChange("default", frozenset(("sam", "sue"))),
)


def opened_after_a_move(
    policies: Policies,
    sources: Mapping[str, bytes],
    fleet: ScriptedFleetEvents = EVENTS,
    **fields: Any,
) -> tuple[list[str], list[str]]:
    """Open a stream of a caller that comes from another replica.

    Returns:
        The partitions whose groups it keeps, and what it is sent.
    """
    session = Session(GateLog(b"12345678"), policies, RIGHTS, "", fleet)
    held = [
        sync_pb2.HeldPolicy(partition=name, checksum=b"1", resolver_fingerprint=source)
        for name, source in sources.items()
    ]
    session.receive(request("open", held=held, **fields), 0)
    first = session.next_response()
    assert first is not None
    assert not first.opened.resumed
    return list(first.opened.keep_groups_of), kinds(session)


UNCHANGED = ["default unchanged", "gpu unchanged", "checkpoint"]
HELD = {"default": b"ldap", "gpu": b""}


def test_a_caller_of_another_replica_keeps_the_groups_that_are_valid(policies: Policies) -> None:
    kept, sent = opened_after_a_move(policies, HELD, fleet_cursor=EVENTS.at(1))
    assert kept == ["default"]
    assert sent == ["forget default sam sue", *UNCHANGED]
    assert opened_after_a_move(policies, HELD, fleet_cursor=EVENTS.at(5)) == (
        ["default"],
        UNCHANGED,
    )


def test_a_caller_keeps_no_groups_of_which_changes_may_be_missing(policies: Policies) -> None:
    fleet = ScriptedFleetEvents(*EVENTS.events)
    fleet.known_after = 2
    other = cursor_pb2.Cursor(epoch=b"other", sequence=5)
    for cursor in (fleet.at(1), other, None):
        assert opened_after_a_move(policies, HELD, fleet, fleet_cursor=cursor) == ([], UNCHANGED)


@pytest.mark.parametrize("source", [b"", b"another ldap"])
def test_a_caller_keeps_no_groups_from_elsewhere(policies: Policies, source: bytes) -> None:
    sources = {"default": source, "gpu": source}
    assert opened_after_a_move(policies, sources, fleet_cursor=EVENTS.at(5)) == ([], UNCHANGED)


def test_a_caller_keeps_no_groups_of_partitions_that_it_does_not_get(policies: Policies) -> None:
    sources = {"default": b"ldap", "old": b"ldap"}
    cursor = EVENTS.at(1)
    kept, sent = opened_after_a_move(
        policies, sources, fleet_cursor=cursor, partitions=["gpu", "old"]
    )
    assert kept == []
    assert not any("forget" in each for each in sent)
    kept, sent = opened_after_a_move(policies, sources, fleet_cursor=cursor, partitions=["default"])
    assert kept == ["default"]
    assert "forget default sam sue" in sent


def test_a_checkpoint_names_the_change_of_the_fleet(log: GateLog, policies: Policies) -> None:
    fleet = ScriptedFleetEvents(*EVENTS.events)
    session = Session(log, policies, RIGHTS, "", fleet)
    session.receive(request("open"), 0)

    def checkpoint() -> sync_pb2.SyncCheckpoint:
        responses = iter(session.next_response, None)
        return [each.checkpoint for each in responses if each.HasField("checkpoint")][-1]

    assert checkpoint().fleet_cursor == fleet.at(5)
    fleet.cursor = None
    log.invalidate("default", ["sam"])
    assert not checkpoint().HasField("fleet_cursor")


def test_a_lease_comes_after_the_newest_change_of_the_fleet(
    log: GateLog, policies: Policies
) -> None:
    """The event of a change of this server is applied after the change was sent."""
    fleet = ScriptedFleetEvents(*EVENTS.events)
    fleet.cursor = None
    session = Session(log, policies, RIGHTS, "", fleet)
    session.receive(request("open"), 0)
    kinds(session)

    def answers() -> list[str]:
        session.receive(request("ping", id=1), 0)
        return kinds(session)

    assert answers() == ["pong"]
    for position in (4, 5):
        fleet.cursor = fleet.at(position)
        assert answers() == ["checkpoint", "pong"]
        assert answers() == ["pong"]
    fleet.cursor = None
    assert answers() == ["pong"], "what it has been sent before is still true"


def forgotten(session: Session, log: GateLog, users: Iterable[list[str]]) -> list[str]:
    kinds(session)
    for names in users:
        log.invalidate("default", names)
    return kinds(session)


def test_a_storm_becomes_all_users(
    log: GateLog, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_INVALIDATED", 3)
    few = forgotten(opened(log, policies), log, [["a"], ["b"], ["a", "b"]])
    assert few == ["forget default a b", "checkpoint"]
    many = forgotten(opened(log, policies), log, [["a", "b"], ["c", "d"], ["e"]])
    assert many == ["forget default", "checkpoint"]


def test_a_pong_comes_after_all_changes(log: GateLog, policies: Policies) -> None:
    session = opened(log, policies)
    session.receive(request("ping", id=7), 100.0)
    log.invalidate("default", ["a"])
    assert kinds(session)[-3:] == ["forget default a", "checkpoint", "pong"]
    assert session.lease_until == 100.0 + module.LEASE + module.CLOCK_MARGIN


def test_groups_that_were_forgotten_are_not_sent(log: GateLog, policies: Policies) -> None:
    session = opened(log, policies)
    kinds(session)
    for user in ("a", "b"):
        groups = sync_pb2.UserGroups(
            partition="default",
            user=user,
            outcome=user_groups_pb2.RESOLVE_OUTCOME_NOT_FOUND,
        )
        session.offer(groups, log.head)
    log.invalidate("default", ["a"])
    assert kinds(session) == ["forget default a", "checkpoint", "user_groups"]
    assert session.invalidated == [("default", "a")]


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([request("ping", id=1)], "must be the first"),
        ([request("open"), request("open")], "must not be repeated"),
        ([request("open"), sync_pb2.SyncRequest()], "must be set"),
        ([request("open"), request("applied", sequence=1)], "at most 0"),
        ([request("open"), OLD_REPORT], "must be set"),
    ],
)
def test_messages_that_have_no_place(
    log: GateLog, policies: Policies, messages: list[sync_pb2.SyncRequest], fault: str
) -> None:
    session = Session(log, policies, RIGHTS)
    *valid, wrong = messages
    for message in valid:
        session.receive(message, 0)
    with pytest.raises(InvalidSync, match=fault):
        session.receive(wrong, 0)


def test_a_caller_that_drains_or_gives_up_gets_no_lease(log: GateLog, policies: Policies) -> None:
    session = opened(log, policies, rules=[RULES])
    kinds(session)
    session.receive(request("ping", id=1), 100.0)
    assert kinds(session) == ["pong"]
    session.drain()
    session.receive(request("ping", id=2), 101.0)
    log.invalidate("default", ["a"])
    assert kinds(session) == ["draining", "forget default a", "checkpoint"]
    session.receive(request("release"), 102.0)
    assert session.has_released
    assert session.lease_until == 102.0


@pytest.mark.parametrize(("rules", "may"), [([RULES], True), ([RULES + 1], False), ([], False)])
def test_only_a_caller_that_knows_the_rules_may_decide(
    log: GateLog, policies: Policies, rules: list[int], *, may: bool
) -> None:
    session = opened(log, policies, rules=rules)
    first = session.next_response()
    assert first is not None
    assert first.opened.local_decisions is may


def test_the_size_of_groups_that_wait_is_known(log: GateLog, policies: Policies) -> None:
    session = opened(log, policies)
    kinds(session)
    for user in ("a", "b"):
        groups = sync_pb2.UserGroups(partition="default", user=user, groups=["g" * 1_000])
        session.offer(groups, log.head)
    assert 2_000 < session.offered_bytes < 2_100
    assert session.next_response()
    assert 1_000 < session.offered_bytes < 1_050
    log.invalidate("default", ["b"])
    kinds(session)
    assert session.offered_bytes == 0
