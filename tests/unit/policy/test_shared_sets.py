"""Large lists are not copied where a queue has only one of them."""

from queuegate.policy.acl import EMPTY, parse
from queuegate.policy.decision import Access
from queuegate.policy.tree import QueueAcls, build_partition


def test_one_list_is_shared() -> None:
    acl = parse("alice,bob devs,ops")
    partition = build_partition("default", "", [QueueAcls("root", acl, EMPTY)])
    chain = partition.chain("root", Access.SUBMIT)
    assert chain.users is acl.users
    assert chain.groups is acl.groups
