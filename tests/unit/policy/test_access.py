"""The kind of access is an `Access`; nothing else is taken for one."""

import pytest

import queuegate
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.explain import explain
from queuegate.policy.names import RECOVERY_QUEUE
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import build_partition

PARTITION = build_partition("default", "", [QueueAcls("root", "bob", "alice")])


def test_the_client_has_the_enumerations_of_the_core() -> None:
    assert queuegate.Access is Access


@pytest.mark.parametrize("access", ["submit", "admin", "", None])
def test_a_text_is_no_access(access: Access) -> None:
    for path in ("root", RECOVERY_QUEUE):
        with pytest.raises(TypeError, match=r"Access\.SUBMIT or Access\.ADMIN"):
            decide(PARTITION, path, access, "alice", ())
        with pytest.raises(TypeError, match=r"Access\.SUBMIT or Access\.ADMIN"):
            explain(PARTITION, path, access, "alice", ())
