"""A batch of application checks has the responses of single checks."""

from itertools import product

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.rpc.application_service import _MAX_SHORT_ACL
from tests.support.snapshots import serving

ACLS = ("", " ", "*", "alice ops", "bob dev", "~hive", "alice," * _MAX_SHORT_ACL)


def test_both_types_of_check_have_the_same_response_fields() -> None:
    """The server encodes the responses to both in the same way."""
    queue, application = (
        {(field.name, field.number, field.type) for field in message.DESCRIPTOR.fields}
        for message in (
            access_pb2.CheckQueueAccessResponse,
            access_pb2.CheckApplicationAccessResponse,
        )
    )
    assert queue == application


async def test_a_batch_has_the_responses_of_single_checks() -> None:
    _, access = serving()
    actions = (access_pb2.APPLICATION_ACTION_VIEW, access_pb2.APPLICATION_ACTION_MODIFY)
    checks = [
        access_pb2.CheckApplicationAccessRequest(
            user=UserGroupInformation(user=user, groups=groups),
            partition="yarn",
            action=action,
            real_user=real_user,
            application=access_pb2.Application(
                queue=queue, owner="carol", view_acl=view, modify_acl=modify
            ),
        )
        for user, groups, action, real_user, queue, view, modify in product(
            ("alice", "carol"), ((), ("dev",)), actions, ("", "hive"),
            ("root.b", "root.b.new"), ACLS, ACLS,
        )
    ]  # fmt: skip
    batch = access_pb2.BatchCheckApplicationAccessRequest(checks=checks).SerializeToString()
    response = await access.BatchCheckApplicationAccess(batch, trusted=True)
    results = access_pb2.BatchCheckApplicationAccessResponse.FromString(response).results
    for check, result in zip(checks, results, strict=True):
        single = await access.CheckApplicationAccess(check.SerializeToString(), trusted=True)
        assert result.decision.SerializeToString() == single
    assert {result.decision.allowed for result in results} == {True, False}
    assert {result.decision.evaluated_queue for result in results} == {"", "root.b"}
