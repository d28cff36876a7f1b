"""The contract over a real socket: what each call answers."""

from typing import Any

import grpc
import pytest

from queuegate.v1 import (
    access_pb2,
    access_pb2_grpc,
    policy_pb2,
    policy_pb2_grpc,
    user_group_information_pb2,
    user_groups_pb2,
    user_groups_pb2_grpc,
)
from tests.support.rows import rows
from tests.support.servers.contract import (
    QUEUES,
    SUBMIT,
    check,
    request,
    violations,
)

pytestmark = pytest.mark.both_transports


@rows
def test_decisions(
    channel: grpc.Channel, fields: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    for _ in range(2):  # the second answer is the kept one
        answer = check(channel, **fields)
        assert (
            answer.allowed,
            answer.reason,
            answer.matched_queue,
            answer.matched_subject,
        ) == expected
        assert answer.policy_revision == 1


@rows
def test_a_missing_queue_is_said_where_it_is_decided(
    channel: grpc.Channel, fields: dict[str, Any], expected: str
) -> None:
    asked = request(**fields)
    stub = access_pb2_grpc.AccessServiceStub(channel)
    batch = access_pb2.BatchCheckQueueAccessRequest(checks=[asked, asked])
    columns = access_pb2.CheckQueueAccessColumnsRequest(
        access=asked.access,
        users=[asked.user],
        queues=[asked.queue],
        user_indexes=[0],
        queue_indexes=[0],
        with_decisions=True,
    )
    explained = access_pb2.ExplainQueueAccessRequest(
        user=asked.user, queue=asked.queue, access=asked.access
    )
    answer = stub.CheckQueueAccess(asked, timeout=60)
    assert answer.evaluated_queue == expected
    same = [
        *(result.decision for result in stub.BatchCheckQueueAccess(batch, timeout=60).results),
        *stub.CheckQueueAccessColumns(columns, timeout=60).decisions,
        stub.ExplainQueueAccess(explained, timeout=60).decision,
    ]
    assert same == [answer] * 4


def test_a_partial_group_list_is_no_answer(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        check(channel, user="testuser5", queue="root.dev")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert violations(caught.value) == []
    # A queue open to everyone needs no groups, and works without them.
    assert check(channel, user="testuser5", queue="root.open").allowed


def test_explain_returns_each_step(channel: grpc.Channel) -> None:
    stub = access_pb2_grpc.AccessServiceStub(channel)
    asked = access_pb2.ExplainQueueAccessRequest(
        user=user_group_information_pb2.UserGroupInformation(user="testuser1"),
        queue="root.dev.deep.er",
        access=SUBMIT,
    )
    answer = stub.ExplainQueueAccess(asked, timeout=60)
    assert answer.decision.allowed
    assert answer.evaluated_queue == "root.dev.deep"
    assert [(step.queue, step.acl, step.acl_text, step.outcome) for step in answer.steps] == [
        ("root.dev.deep", SUBMIT, "", access_pb2.STEP_OUTCOME_EMPTY),
        ("root.dev.deep", access_pb2.ACCESS_TYPE_ADMIN, "", access_pb2.STEP_OUTCOME_EMPTY),
        ("root.dev", SUBMIT, "alice group1001", access_pb2.STEP_OUTCOME_GROUP),
    ]
    assert list(answer.groups.groups) == ["group1000", "group1001"]
    assert answer.groups.resolver == "test"


def test_list_queues_by_pages(channel: grpc.Channel) -> None:
    stub = access_pb2_grpc.AccessServiceStub(channel)
    information = user_group_information_pb2.UserGroupInformation(user="testuser1")

    def page(**fields: Any) -> access_pb2.ListQueuesResponse:
        asked = access_pb2.ListQueuesRequest(user=information, access=SUBMIT, **fields)
        return stub.ListQueues(asked, timeout=60)

    assert list(page().queues) == ["root.dev", "root.dev.deep", "root.open"]
    assert list(page(prefix="ROOT.dev").queues) == ["root.dev", "root.dev.deep"]
    first = page(page_size=2)
    assert list(first.queues) == ["root.dev", "root.dev.deep"]
    last = page(page_size=2, page_token=first.next_page_token)
    assert list(last.queues) == ["root.open"]
    assert last.next_page_token == ""
    with pytest.raises(grpc.RpcError) as caught:
        page(page_size=-1)
    assert violations(caught.value) == ["page_size"]


def test_list_queues_with_the_entries_that_decide(channel: grpc.Channel) -> None:
    stub = access_pb2_grpc.AccessServiceStub(channel)

    def page(user: str, **fields: Any) -> access_pb2.ListQueuesResponse:
        asked = access_pb2.ListQueuesRequest(
            user=user_group_information_pb2.UserGroupInformation(user=user),
            access=fields.pop("access", SUBMIT),
            **fields,
        )
        return stub.ListQueues(asked, timeout=60)

    def entries(found: access_pb2.ListQueuesResponse) -> list[tuple[str, str, int, int, str]]:
        return [
            (queue, via.queue, via.acl, via.kind, via.name)
            for queue, via in zip(found.queues, found.via, strict=True)
        ]

    group, user = access_pb2.SUBJECT_KIND_GROUP, access_pb2.SUBJECT_KIND_USER
    everyone, administer = access_pb2.SUBJECT_KIND_EVERYONE, access_pb2.ACCESS_TYPE_ADMIN
    assert not page("testuser1").via
    assert entries(page("testuser1", with_via=True)) == [
        ("root.dev", "root.dev", SUBMIT, group, "group1001"),
        ("root.dev.deep", "root.dev", SUBMIT, group, "group1001"),
        ("root.open", "root.open", SUBMIT, everyone, "*"),
    ]
    assert entries(page("testuser1", with_via=True, page_size=1, page_token="root.dev.deep")) == [
        ("root.open", "root.open", SUBMIT, everyone, "*")
    ]
    boss = entries(page("boss", with_via=True, access=administer))
    assert boss
    assert {entry[1:] for entry in boss} == {("root", administer, user, "boss")}
    for queue, *_ in boss:
        assert check(channel, user="boss", queue=queue, access=administer).matched_queue == "root"


def test_resolve_and_invalidate(channel: grpc.Channel) -> None:
    stub = user_groups_pb2_grpc.UserGroupServiceStub(channel)

    def resolve(user: str, **fields: Any) -> user_groups_pb2.ResolveUserGroupsResponse:
        asked = user_groups_pb2.ResolveUserGroupsRequest(user=user, **fields)
        return stub.ResolveUserGroups(asked, timeout=60)

    first = resolve("testuser3")
    assert list(first.user_group.groups) == ["group1001", "group1002", "group1003", "group1004"]
    assert first.outcome == user_groups_pb2.RESOLVE_OUTCOME_RESOLVED
    assert (first.resolver, first.cached, first.stale) == ("test", False, False)
    assert first.expires_at.ToSeconds() > first.resolved_at.ToSeconds()
    assert resolve("testuser3").cached
    assert not resolve("testuser3", bypass_cache=True).cached
    assert resolve("nouser").outcome == user_groups_pb2.RESOLVE_OUTCOME_NOT_FOUND
    assert resolve("testuser5").outcome == user_groups_pb2.RESOLVE_OUTCOME_UNAVAILABLE
    assert list(resolve("bob", partition="gpu").user_group.groups) == ["bob"]
    asked = user_groups_pb2.InvalidateUserGroupsRequest(users=["testuser3", "never-seen"])
    assert stub.InvalidateUserGroups(asked, timeout=60).dropped == 1
    assert not resolve("testuser3").cached
    everyone = user_groups_pb2.InvalidateUserGroupsRequest()
    assert stub.InvalidateUserGroups(everyone, timeout=60).dropped >= 2
    assert not resolve("testuser3").cached


def test_get_policy(channel: grpc.Channel) -> None:
    stub = policy_pb2_grpc.PolicyServiceStub(channel)
    answer = stub.GetPolicy(policy_pb2.GetPolicyRequest(), timeout=60)
    assert [queue.path for queue in answer.queues] == [
        "root",
        "root.open",
        "root.dev",
        "root.dev.deep",
    ]
    assert answer.queues[0].admin_acl == "boss"
    assert answer.queues[2].submit_acl == "alice group1001"
    assert answer.revision == 1
    assert len(answer.checksum) == 64
    assert answer.checksum == answer.checksum.upper()
    assert list(answer.partitions) == ["default", "gpu"]
    assert answer.resolver == "test"
    below = stub.GetPolicy(policy_pb2.GetPolicyRequest(prefix="root.dev"), timeout=60)
    assert [queue.path for queue in below.queues] == ["root.dev", "root.dev.deep"]


def test_validate_policy(channel: grpc.Channel) -> None:
    stub = policy_pb2_grpc.PolicyServiceStub(channel)
    good = stub.ValidatePolicy(policy_pb2.ValidatePolicyRequest(content=QUEUES), timeout=60)
    assert good.valid
    assert list(good.diagnostics) == []
    bad = QUEUES.replace("adminacl: boss", "adminacl: a b c")
    answer = stub.ValidatePolicy(
        policy_pb2.ValidatePolicyRequest(format="yunikorn", content=bad), timeout=60
    )
    assert not answer.valid
    (finding,) = answer.diagnostics
    assert finding.severity == policy_pb2.SEVERITY_ERROR
    assert (finding.line, finding.column) == (7, 19)
    assert finding.queue == "root"
    assert finding.message
    assert finding.remedy
