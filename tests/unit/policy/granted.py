"""The grants of an ACL, by the decision about a queue that has no other."""

from collections.abc import Sequence

from queuegate.policy.acl import EMPTY, Acl
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import build_partition


def is_granted(acl: Acl, user: str, groups: Sequence[str], real_user: str = "") -> bool:
    partition = build_partition("default", "", [QueueAcls("root", acl, EMPTY)])
    decision = decide(partition, "root", Access.SUBMIT, user, groups, real_user=real_user)
    assert decision is not None
    return decision.allowed
