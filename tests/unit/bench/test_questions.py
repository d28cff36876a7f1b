"""Questions of the benchmarks: the policies load, and the answers are as predicted."""

from collections import Counter

import pytest

from bench import policies, yarn
from bench.policies import QueueSpec
from bench.questions import MIX, Kind, Questions, batches, delimited, undelimited
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access, Reason
from queuegate_server.formats.registry import detect_format, load_policy

REASONS = {
    Kind.USER: Reason.USER,
    Kind.GROUP: Reason.GROUP,
    Kind.RESOLVED_GROUP: Reason.GROUP,
    Kind.WILDCARD: Reason.WILDCARD,
    Kind.DENIED: Reason.NO_MATCH,
    Kind.RESOLVED_DENIED: Reason.NO_MATCH,
    Kind.MISSING: Reason.USER,
}


@pytest.mark.parametrize(
    "specs", [policies.small(), policies.generate(policies.MEDIUM)], ids=["small", "medium"]
)
def test_generated_policy_loads_whole_and_decides_as_predicted(specs: list[QueueSpec]) -> None:
    loaded = load_policy("yunikorn", policies.to_yaml(specs).encode(), "queues.yaml")
    assert loaded.diagnostics == ()
    partition = loaded.partitions["default"]
    assert set(partition.queues) == {spec.path for spec in specs}
    assert sum(spec.entries for spec in specs) == sum(
        len(acl.users) + len(acl.groups) + acl.allows_all
        for queue in partition.queues.values()
        for acl in (queue.submit_acl, queue.admin_acl)
    )
    questions = Questions(specs)
    for kind in Kind:
        for asked in questions.of(kind, 20):
            # As the server of the benchmark does: no resolver, a user is in her own group.
            groups = asked.groups or (asked.user,)
            decision = decide(partition, asked.queue, Access.SUBMIT, asked.user, groups)
            assert decision is not None
            assert (decision.allowed, decision.reason) == (asked.allowed, REASONS[kind]), asked


@pytest.mark.parametrize("format_name", yarn.WRITERS)
def test_the_same_policy_in_the_formats_of_yarn(format_name: str) -> None:
    specs = policies.small()
    text = yarn.WRITERS[format_name](specs).encode()
    assert detect_format(text) == format_name
    loaded = load_policy(format_name, text, "file")
    same = load_policy("yunikorn", policies.to_yaml(specs).encode(), "queues.yaml")
    assert loaded.diagnostics == ()
    for path, queue in same.partitions["default"].queues.items():
        other = loaded.partitions["default"].queues[path]
        for acl, same_acl in (
            (other.submit_acl, queue.submit_acl),
            (other.admin_acl, queue.admin_acl),
        ):
            assert (acl.users, acl.groups) == (same_acl.users, same_acl.groups)
            assert acl.allows_all == same_acl.allows_all


def test_large_policy_has_the_promised_size() -> None:
    # Names are cheap to count and the rest follows from them: loading it takes seconds.
    specs = policies.generate(20_000)
    assert specs[-1].level == 7
    assert all(spec.path.startswith(f"{specs[spec.parent].path}.") for spec in specs[1:])
    assert sum(spec.entries for spec in specs) > 10 * len(specs)


def test_mixed_questions_are_all_different_and_mixed_as_said() -> None:
    asked = Questions(policies.generate(policies.MEDIUM)).mixed(10_000)
    assert len({one.message().SerializeToString() for one in asked}) == len(asked)
    share = Counter(one.kind for one in asked)
    for kind, percent in MIX.items():
        assert share[kind] == pytest.approx(percent * 100, rel=0.2)
    assert sum(not one.allowed for one in asked) == pytest.approx(2500, rel=0.1)


def test_batches_leave_out_what_does_not_fill_one() -> None:
    asked = Questions(policies.small()).of(Kind.DENIED, 7)
    assert [len(batch.checks) for batch in batches(asked, 3)] == [3, 3]


def test_delimited_messages_have_their_length_as_a_varint() -> None:
    assert delimited([b"a", b"b" * 300]) == b"\x01a\xac\x02" + b"b" * 300


def test_delimited_messages_can_be_taken_apart() -> None:
    messages = [b"", b"a", b"b" * 300, b"c" * 70_000]
    assert undelimited(delimited(messages)) == messages
