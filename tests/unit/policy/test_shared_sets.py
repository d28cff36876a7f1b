"""Large lists are not copied where a queue has only one of them."""

from queuegate.policy.acl import EMPTY, parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import build_partition


def test_one_list_is_shared() -> None:
    acl = parse("alice,bob devs,ops")
    partition = build_partition("default", "", [QueueAcls("root", acl, EMPTY)])
    submit = partition.queues["root"].submit
    assert submit.users[0] is acl.users
    assert submit.groups[0] is acl.groups
