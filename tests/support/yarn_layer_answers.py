"""Compares our answers about a yarn-site.xml and a capacity-scheduler.xml with Hadoop's."""

import re
from typing import Any, Final

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions

QUESTIONS: Final[list[dict[str, Any]]] = [
    {"user": user, "groups": groups, "queue": queue}
    for queue in ("root", "root.a", "root.b", "root.a.c")
    for user, groups in (("bob", []), ("ann", ["ops"]), ("eve", ["bob"]))
]
_VARIABLE: Final = re.compile(r"\$\{[^}$ ]+\}")


def agrees(site: str, scheduler: str, answer: dict[str, Any]) -> str:
    """Compare our answer with Hadoop's.

    Args:
        site: The text of the yarn-site.xml.
        scheduler: The text of the capacity-scheduler.xml.
        answer: Hadoop's answer to `queues` with QUESTIONS.

    Returns:
        The kind of our answer.
    """
    options = YarnOptions(semantics=Semantics.HADOOP, site=(site.encode(), "yarn-site.xml"))
    loaded = load_policy(
        "capacity-scheduler", scheduler.encode(), "cs.xml", FormatOptions(yarn=options)
    )
    said = f"{site}{scheduler}{answer}\n{loaded.diagnostics}"
    if not loaded.partitions:
        assert _is_refusable(site + scheduler, answer), said
        return "refused"
    partition = loaded.partitions["default"]
    cluster = partition.cluster
    assert cluster, said
    assert cluster.acls_enabled is answer["enabled"], said
    admins = parse_yarn(answer["admins"], Semantics.HADOOP)
    assert (cluster.admins.users, cluster.admins.groups) == (admins.users, admins.groups), said
    assert set(partition.queues) == set(answer["queues"]), said
    for path, queue in partition.queues.items():
        acls = answer["queues"][path]
        for ours, theirs in (
            (queue.submit_acl, acls["SUBMIT_APPLICATIONS"]),
            (queue.admin_acl, acls["ADMINISTER_QUEUE"]),
        ):
            expected = parse_yarn(theirs, Semantics.HADOOP)
            assert ours.allows_all is expected.allows_all, said
            assert (ours.users, ours.groups) == (expected.users, expected.groups), said
    if not cluster.acls_enabled:
        return "not enforced"
    for asked, theirs in zip(QUESTIONS, answer["answers"], strict=True):
        path = asked["queue"]
        for access, expected in (
            (Access.SUBMIT, theirs["SUBMIT_APPLICATIONS"] or theirs["ADMINISTER_QUEUE"]),
            (Access.ADMIN, theirs["ADMINISTER_QUEUE"]),
        ):
            decision = decide(partition, path, access, asked["user"], tuple(asked["groups"]))
            assert decision, said
            assert decision.allowed is expected, f"{asked} {access}\n{said}"
    return "enforced"


def _is_refusable(texts: str, answer: dict[str, Any]) -> bool:
    """Return whether queuegate may refuse the files: Hadoop refuses them, would not start without a
    queue, or leaves a variable in a value, perhaps for an unlisted queue.
    """
    return "error" in answer or len(answer["queues"]) == 1 or _VARIABLE.search(texts) is not None
