"""What one ACL grants, by the decision about a queue that has no other."""

from collections.abc import Sequence

from queuegate_server.policy.acl import EMPTY, Acl
from queuegate_server.policy.decide import decide
from queuegate_server.policy.decision import Access
from queuegate_server.policy.queue import QueueAcls
from queuegate_server.policy.tree import build_partition


def is_granted(acl: Acl, user: str, groups: Sequence[str], real_user: str = "") -> bool:
    partition = build_partition("default", "", [QueueAcls("root", acl, EMPTY)])
    decision = decide(partition, "root", Access.SUBMIT, user, groups, real_user=real_user)
    assert decision is not None
    return decision.allowed
