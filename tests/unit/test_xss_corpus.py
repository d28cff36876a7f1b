"""The hostile names are what the formats accept, so that pages have to show them."""

from queuegate_server.formats.registry import load_policy
from queuegate_server.rpc.validation import is_valid_user_name
from tests.support import xss_corpus


def test_a_policy_has_all_names_as_queues_users_and_groups() -> None:
    text = xss_corpus.fair_scheduler().encode()
    found = load_policy("fair-scheduler", text, "fair-scheduler.xml")
    assert not [each for each in found.diagnostics if each.severity == "error"]
    [partition] = found.partitions.values()
    queues = {path.removeprefix("root.") for path in partition.queues}
    assert set(xss_corpus.QUEUES) <= queues
    users = {user for queue in partition.queues.values() for user in queue.submit_acl.users}
    groups = {group for queue in partition.queues.values() for group in queue.submit_acl.groups}
    assert set(xss_corpus.NAMES) <= users
    assert set(xss_corpus.NAMES) <= groups


def test_requests_may_name_nearly_all_of_them() -> None:
    refused = [name for name in xss_corpus.NAMES if not is_valid_user_name(name)]
    assert refused == []
