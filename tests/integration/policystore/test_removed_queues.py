"""A queue that the file no longer has, whether or not YuniKorn still drains it."""

from pathlib import Path

from tests.support.servers.reloading_server import reloading_alice

OPEN = "partitions: [{name: default, queues: [{name: root, submitacl: '*'%s}]}]\n"
CLOSED = OPEN.replace("submitacl: '*'", "submitacl: ann")
WORK = ", queues: [{name: work, submitacl: bob}]"


def test_a_removed_queue_is_decided_as_one_that_never_existed(tmp_path: Path) -> None:
    """YuniKorn refuses new applications until the last one in the queue ends (YUNIKORN-2991)."""
    with reloading_alice(tmp_path) as reloading:
        for root, allowed in (
            (OPEN, {"ann", "bob", "eve"}),
            (CLOSED, {"ann"}),
        ):
            reloading.replace(root % WORK)
            assert reloading.reload().succeeded
            assert reloading.client.check("bob", "root.work", groups=[]).evaluated_queue == ""
            reloading.replace(root % "")
            assert reloading.reload().succeeded
            for user in ("ann", "bob", "eve"):
                removed = reloading.client.check(user, "root.work", groups=[])
                never = reloading.client.check(user, "root.never", groups=[])
                assert removed.evaluated_queue == "root"
                assert (removed.allowed, removed.reason) == (never.allowed, never.reason)
                assert removed.allowed == (user in allowed)
