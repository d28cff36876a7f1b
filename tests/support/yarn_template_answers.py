"""Compares our answers about queues that YARN will create with Hadoop's."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions


def agrees(
    scheduler: str, questions: Sequence[dict[str, Any]], create: str, answer: dict[str, Any]
) -> Counter[str]:
    """Compare our answers with Hadoop's.

    Args:
        scheduler: The text of the capacity-scheduler.xml.
        questions: The questions that Hadoop answered.
        create: The path of the queue that Hadoop was then asked to create.
        answer: Hadoop's answer to `created`.

    Returns:
        The number of answers of each kind.
    """
    options = FormatOptions(yarn=YarnOptions(semantics=Semantics.HADOOP))
    loaded = load_policy("capacity-scheduler", scheduler.encode(), "cs.xml", options)
    assert loaded.partitions, loaded.diagnostics
    partition = loaded.partitions["default"]
    counts: Counter[str] = Counter()
    for asked, theirs in zip(questions, answer["answers"], strict=True):
        path = asked["queue"]
        said = f"{asked} {theirs}\n{scheduler}"
        assert bool(partition.created(path)) is theirs["created"], said
        for access, expected in (
            (Access.SUBMIT, theirs["SUBMIT_APPLICATIONS"] or theirs["ADMINISTER_QUEUE"]),
            (Access.ADMIN, theirs["ADMINISTER_QUEUE"]),
        ):
            decision = decide(partition, path, access, asked["user"], tuple(asked["groups"]))
            assert decision, said
            assert decision.allowed is expected, f"{access} {decision} {said}"
            kind = "created" if theirs["created"] else "not created"
            counts[f"{kind}, {'allowed' if expected else 'denied'}"] += 1
    if acls := answer.get("acls"):
        queue = partition.nearest(create)
        for ours, text in (
            (queue.submit_acl, acls["SUBMIT_APPLICATIONS"]),
            (queue.admin_acl, acls["ADMINISTER_QUEUE"]),
        ):
            expected_acl = parse_yarn(text, Semantics.HADOOP)
            assert (ours.allows_all, ours.users, ours.groups) == (
                expected_acl.allows_all,
                expected_acl.users,
                expected_acl.groups,
            ), f"{create} {acls}\n{scheduler}"
        counts["ACLs of a queue that was created"] += 1
    return counts
