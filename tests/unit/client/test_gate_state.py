"""What a gate may decide from, message by message, at times of a scripted clock."""

from typing import Any

import pytest

from queuegate import Decision, StaleDecision
from queuegate.gate import local_partition
from queuegate.gate import replica as replica_module
from queuegate.gate import state as state_module
from queuegate.gate.decider import Decider
from queuegate.gate.replica import LocalReplica
from queuegate.gate.session import WANT_AGAIN, GateSession
from queuegate.policy.acl import EMPTY, parse
from queuegate.policy.decision import RULES, Access
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import build_partition
from queuegate.policy.yarn_acl import Cluster, Semantics, parse_yarn
from queuegate.v1 import cursor_pb2, sync_pb2, user_groups_pb2
from tests.support.compiled_policies import compiled, yunikorn_part
from tests.support.fakes.clock import ManualClock

LEASE, LIFETIME = 5.0, 100.0


class Gate:
    """The parts of a gate that decide, and a server that says what a test wants."""

    def __init__(self, partitions: tuple[str, ...] = ()) -> None:
        self.clock = ManualClock()
        self.wanted: list[tuple[str, str]] = []
        self.replica = LocalReplica(is_complete=not partitions)
        self.session = GateSession(self.replica, "gate", partitions)
        want = self.wanted.append
        self.decider = Decider(
            self.replica, self.session, lambda name, user, _: want((name, user)), None, self.clock
        )
        self.open()
        for name in partitions or ("default",):
            self.say(policy=policy(name))
        self.say(checkpoint=sync_pb2.SyncCheckpoint(sequence=1))

    def say(self, **message: Any) -> None:
        self.session.receive(sync_pb2.SyncResponse(**message), self.clock())

    def open(
        self,
        *,
        resumed: bool = False,
        assert_groups: bool = True,
        keep_groups_of: tuple[str, ...] = (),
    ) -> sync_pb2.SyncOpen:
        opened = self.session.open().open
        self.say(
            opened=sync_pb2.SyncOpened(
                epoch=b"e",
                resumed=resumed,
                lease_millis=int(LEASE * 1000),
                ping_interval_millis=1000,
                local_decisions=True,
                assert_groups=assert_groups,
                keep_groups_of=keep_groups_of,
            )
        )
        return opened

    def lease(self) -> None:
        ping = self.session.ping(self.clock()).ping
        self.say(pong=sync_pb2.SyncPong(id=ping.id))

    def learn(self, user: str, *groups: str, seconds: float = LIFETIME, later: float = 0) -> None:
        """Ask for the groups of a user; the answer comes some seconds later."""
        self.session.want("default", [user], self.clock())
        self.clock.advance(later)
        self.answer(user, *groups, seconds=seconds)

    def answer(self, user: str, *groups: str, seconds: float = LIFETIME) -> None:
        outcome = user_groups_pb2.RESOLVE_OUTCOME_RESOLVED
        self.say(
            user_groups=sync_pb2.UserGroups(
                partition="default",
                user=user,
                outcome=outcome,
                groups=groups,
                lifetime_millis=int(seconds * 1000),
            )
        )

    def check(
        self, user: str, queue: str = "root.team", partition: str = "default", *groups: str
    ) -> Decision | None:
        return self.decider.decide((user, queue, partition, "submit", groups or None, ""))


def policy(name: str) -> sync_pb2.PolicyPart:
    return yunikorn_part(name=name, use_given_groups=True, resolver_fingerprint=b"ldap")


@pytest.fixture
def gate() -> Gate:
    made = Gate()
    made.lease()
    return made


def test_without_a_lease_there_is_no_decision() -> None:
    gate = Gate()
    assert gate.check("alice") is None
    gate.lease()
    assert gate.check("alice")
    gate.clock.advance(LEASE)
    assert gate.check("alice") is None
    gate.lease()
    assert gate.check("alice")


def test_a_lease_begins_when_the_ping_was_sent(gate: Gate) -> None:
    gate.clock.advance(LEASE)
    ping = gate.session.ping(gate.clock()).ping
    gate.clock.advance(LEASE)
    gate.say(pong=sync_pb2.SyncPong(id=ping.id))
    assert gate.check("alice") is None


def test_old_state_decides_only_after_there_was_a_lease() -> None:
    gate = Gate()
    gate.decider.grace = 1e9
    assert gate.check("alice") is None
    gate.lease()
    gate.clock.advance(LEASE)
    made = gate.check("alice")
    assert made
    assert made.stale


def test_another_replica_may_let_a_gate_keep_groups(gate: Gate) -> None:
    fleet = cursor_pb2.Cursor(epoch=b"fleet", sequence=7)
    gate.say(checkpoint=sync_pb2.SyncCheckpoint(sequence=1, fleet_cursor=fleet))
    gate.learn("sam", "staff")
    gate.learn("eve", "staff")
    opened = gate.open(keep_groups_of=("default",))
    assert opened.fleet_cursor == fleet
    assert [each.resolver_fingerprint for each in opened.held] == [b"ldap"]
    gate.say(forget=sync_pb2.Forget(partition="default", users=["eve"]))
    gate.say(
        policy=sync_pb2.PolicyPart(
            partition="default", unchanged=True, checksum=b"1", resolver_fingerprint=b"ad"
        )
    )
    gate.say(checkpoint=sync_pb2.SyncCheckpoint(sequence=9))
    assert gate.check("sam") is None, "the lease of another server"
    gate.lease()
    assert gate.check("sam")
    assert gate.check("eve") is None
    opened = gate.open(keep_groups_of=("other",))
    assert not opened.HasField("fleet_cursor"), "the last checkpoint had none"
    assert [each.resolver_fingerprint for each in opened.held] == [b"ad"]
    gate.say(policy=sync_pb2.PolicyPart(partition="default", unchanged=True, checksum=b"1"))
    gate.lease()
    assert gate.check("sam") is None


def test_a_fleet_cursor_is_only_good_for_the_groups_that_came_before_it(gate: Gate) -> None:
    fleet = cursor_pb2.Cursor(epoch=b"fleet", sequence=7)
    for end in (gate.session.reset, gate.session.drop_everything, gate.open):
        gate.say(checkpoint=sync_pb2.SyncCheckpoint(sequence=1, fleet_cursor=fleet))
        assert gate.open(resumed=True).HasField("fleet_cursor")
        assert gate.open(resumed=True).HasField("fleet_cursor")
        end()
        assert not gate.open().HasField("fleet_cursor")


def test_a_gate_keeps_its_fleet_cursor_until_the_next_checkpoint(gate: Gate) -> None:
    """The stream to another replica, which drains, say, may end before that."""
    fleet = cursor_pb2.Cursor(epoch=b"fleet", sequence=7)
    gate.say(checkpoint=sync_pb2.SyncCheckpoint(sequence=1, fleet_cursor=fleet))
    gate.learn("sam", "staff")
    gate.open(keep_groups_of=("default",))
    assert gate.open(keep_groups_of=("default",)).fleet_cursor == fleet
    gate.say(policy=sync_pb2.PolicyPart(partition="default", unchanged=True, checksum=b"1"))
    gate.lease()
    assert gate.check("sam")


def test_groups_that_have_expired_are_wanted_again(gate: Gate) -> None:
    assert gate.check("sam") is None
    assert gate.wanted == [("default", "sam")]
    gate.learn("sam", "staff")
    assert gate.check("sam")
    for remembered in (True, False):
        gate.clock.advance(LIFETIME)
        gate.lease()
        gate.wanted.clear()
        if not remembered:
            gate.replica.state.cache.clear()
        assert gate.check("sam") is None
        assert gate.wanted == [("default", "sam")]


def test_groups_are_as_old_as_the_question(gate: Gate) -> None:
    gate.learn("sam", "staff", later=LIFETIME)
    gate.lease()
    assert gate.check("sam") is None


def test_expired_groups_are_stale_while_the_server_is_away(gate: Gate) -> None:
    gate.learn("sam", "staff", seconds=LEASE / 2)
    gate.clock.advance(LEASE / 2)
    gate.decider.grace = 10
    made = gate.check("sam")
    assert made
    assert made.stale


def test_groups_that_nobody_asked_for_are_ignored(gate: Gate) -> None:
    gate.answer("sam", "staff")
    assert gate.check("sam") is None


def test_a_user_is_not_asked_for_twice(gate: Gate) -> None:
    gate.session.want("default", ["sam"], gate.clock())
    assert gate.session.is_wanted("default", "sam", gate.clock())
    gate.clock.advance(WANT_AGAIN)
    assert not gate.session.is_wanted("default", "sam", gate.clock())
    gate.learn("sam", "staff")
    assert not gate.session.is_wanted("default", "sam", gate.clock())


def test_a_failed_look_up_is_not_repeated_at_once(gate: Gate) -> None:
    gate.session.want("default", ["sam"], gate.clock())
    failed = user_groups_pb2.RESOLVE_OUTCOME_UNAVAILABLE
    gate.say(
        user_groups=sync_pb2.UserGroups(
            partition="default", user="sam", outcome=failed, lifetime_millis=3_000
        )
    )
    assert gate.session.is_wanted("default", "sam", gate.clock())
    gate.clock.advance(3)
    assert not gate.session.is_wanted("default", "sam", gate.clock())


def test_an_evicted_user_decides_nothing(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "MAX_USERS", 1)
    gate.learn("sam", "staff")
    assert gate.check("sam")
    gate.learn("eve")
    assert gate.check("sam") is None


def test_other_rights_end_what_was_decided_with_them(gate: Gate) -> None:
    assert gate.check("eve", "root.team", "default", "staff")
    gate.open(resumed=True, assert_groups=False)
    assert gate.check("eve", "root.team", "default", "staff") is None
    gate.learn("eve")
    denied = gate.check("eve", "root.team", "default", "staff")
    assert denied is not None
    assert not denied


def test_a_grant_by_groups_ends_with_the_groups(gate: Gate) -> None:
    """Also that of a group of administrators, whose reason does not name a group."""
    cluster = Cluster(Semantics.DOCUMENTED, parse_yarn(" ops", Semantics.DOCUMENTED))
    queues = [QueueAcls("root", EMPTY, EMPTY), QueueAcls("root.team", parse("alice staff"), EMPTY)]
    gate.say(policy=compiled(build_partition("default", "", queues, cluster)))
    for user, group, reason in (("sam", "staff", "group"), ("olga", "ops", "cluster_admin")):
        gate.learn(user, group)
        made = gate.check(user)
        assert made
        assert made.reason == reason
        gate.say(forget=sync_pb2.Forget(partition="default", users=[user]))
        assert gate.check(user) is None


def test_rights_are_a_part_of_the_state(gate: Gate) -> None:
    """A decision may not mix the rights of two moments: each state has its own."""
    before = gate.replica.state
    assert gate.check("alice")
    gate.open(resumed=True)
    assert gate.replica.state is before
    gate.open(resumed=True, assert_groups=False)
    after = gate.replica.state
    assert after.policies == before.policies
    assert (before.rights.assert_groups, after.rights.assert_groups) == (True, False)
    assert not after.cache


def test_a_policy_that_is_not_held_cannot_be_unchanged(gate: Gate) -> None:
    part = sync_pb2.PolicyPart(partition="no", first=True, last=True, unchanged=True)
    with pytest.raises(ValueError, match="does not have it"):
        gate.say(policy=part)


def test_parts_must_be_complete(gate: Gate) -> None:
    with pytest.raises(ValueError, match="are incomplete"):
        gate.say(policy=sync_pb2.PolicyPart(partition="default", last=True))


def test_the_id_of_a_resource_manager_is_ignored_where_all_partitions_are_known() -> None:
    complete, named = Gate(), Gate(("default",))
    for gate in (complete, named):
        gate.lease()
        assert gate.check("alice", "root.team", "")
        assert gate.check("alice", "root.team", "DEFAULT") is None
    assert complete.check("alice", "root.team", "[rm]default")
    assert named.check("alice", "root.team", "[rm]default") is None


@pytest.mark.parametrize(
    "question",
    [
        ("", "root", "default", "submit", None, ""),
        ("a\nb", "root", "default", "submit", None, ""),
        ("x" * 300, "root", "default", "submit", None, ""),
        ("alice", "no.root", "default", "submit", None, ""),
        ("alice", "root", "[\n]default", "submit", None, ""),
        ("alice", "root", "no", "submit", None, ""),
        ("alice", "root", "default", "write", None, ""),
        ("alice", "root", "default", "submit", ("",), ""),
        ("alice", "root", "default", "submit", ("a",) * 10_001, ""),
        ("alice", "root", "default", "submit", "staff", ""),
        ("al:/ce!", "root", "default", "submit", ("a",), ""),
        ("alice", "root", "default", "submit", None, "a\nb"),
        (b"alice", "root", "default", "submit", None, ""),
        ("alice", 5, "default", "submit", None, ""),
        ("alice", "root", "default", "submit", ([],), ""),
    ],
)
def test_questions_that_a_server_may_refuse_are_left_to_it(gate: Gate, question: Any) -> None:
    assert gate.decider.decide(question) is None


@pytest.mark.parametrize(
    "question",
    [
        ("alice", "root.missing\n", "default", "submit", None, ""),
        ("alice", "root." + "x" * 252, "default", "submit", None, ""),
        ("x" * 250, "root.team", "default", "submit", ("a",), ""),
        ("alice", b"root", "default", "submit", None, ""),
        ("al.:/ce!", "root.team", "default", "submit", (), ""),
    ],
)
def test_a_cached_queue_does_not_make_other_names_valid(gate: Gate, question: Any) -> None:
    assert gate.check("alice", "root.team")
    assert gate.decider.decide(question) is None


def test_the_cache_of_missing_queues_is_bounded(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_partition, "MAX_MISSING_PATHS", 3)
    policy = gate.replica.state.policies["default"].partition
    assert policy is not None
    for number in range(20):
        decision = gate.check("alice", f"root.team.new{number}")
        assert decision
        assert decision.evaluated_queue == "root.team"
        assert len(policy.targets[Access.SUBMIT]) <= len(policy.queues) + 3


def test_shared_decisions_are_bounded(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "MAX_DISTINCT_DECISIONS", 3)
    for number in range(20):
        queue = f"root.q{number}.x" if number % 2 else f"root.team.new{number}"
        gate.check("alice", queue, "default", f"g{number}")
        gate.check("bob", "root.team", "default", "staff", f"g{number}")
        scopes = gate.replica.state.scopes.values()
        assert sum(len(each.evaluations) for each in scopes) <= 3


def test_rules_that_are_not_known_are_not_decided_by(gate: Gate) -> None:
    assert gate.session.open().open.rules == [RULES]
    gate.open(resumed=True)
    later = policy("default")
    later.rules = RULES + 1
    gate.say(policy=later)
    assert gate.check("alice") is None
    gate.say(policy=policy("default"))
    assert gate.check("alice")


def test_a_server_that_drains_gets_its_lease_back(gate: Gate) -> None:
    ping = gate.session.ping(gate.clock())
    response = sync_pb2.SyncResponse(draining=sync_pb2.SyncDraining())
    answer = gate.session.receive(response, gate.clock())
    assert answer is not None
    assert answer.HasField("release")
    assert gate.check("alice") is None
    gate.decider.grace = 1.0
    assert isinstance(gate.check("alice"), StaleDecision)
    gate.decider.grace = 0.0
    gate.say(pong=sync_pb2.SyncPong(id=ping.ping.id))
    assert gate.check("alice") is None
    opened = [gate.session.open().open.instance for _ in range(2)]
    assert len(opened[0]) == 16
    assert opened[0] == opened[1]
