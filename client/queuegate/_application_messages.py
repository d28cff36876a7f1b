"""Questions about applications <-> protobuf."""

from collections.abc import Iterable, Iterator
from typing import Final

from queuegate import _responses
from queuegate._applications import (
    Action,
    ApplicationCheck,
    ApplicationExplanation,
    ApplicationList,
    ApplicationStep,
    SparkApplication,
)
from queuegate._requests import MAX_BATCH, MAX_REQUEST_BYTES
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation

_ITEM_OVERHEAD: Final = 5
_ACTIONS: Final = {
    Action.VIEW: access_pb2.APPLICATION_ACTION_VIEW,
    Action.VIEW_LOGS: access_pb2.APPLICATION_ACTION_VIEW_LOGS,
    Action.MODIFY: access_pb2.APPLICATION_ACTION_MODIFY,
    Action.MOVE: access_pb2.APPLICATION_ACTION_MOVE,
    Action.ADMIN: access_pb2.APPLICATION_ACTION_ADMIN,
}
_LISTS: Final = {
    number: ApplicationList[name.removeprefix("APPLICATION_LIST_")]
    for name, number in access_pb2.ApplicationList.items()
}


def check(question: ApplicationCheck) -> access_pb2.CheckApplicationAccessRequest:
    """Return the request of one question."""
    stated = question.application
    request = access_pb2.CheckApplicationAccessRequest(
        user=UserGroupInformation(user=question.user, groups=question.groups),
        partition=question.partition,
        action=_ACTIONS[Action(question.action)],
        target_queue=question.target_queue,
        real_user=question.real_user,
    )
    if isinstance(stated, SparkApplication):
        request.spark.SetInParent()
        request.spark.properties.update(stated.properties)
        request.spark.spark_user = stated.spark_user
        request.spark.process_user = stated.process_user
    else:
        request.application.queue = stated.queue
        request.application.owner = stated.owner
        request.application.view_acl = stated.view_acl
        request.application.modify_acl = stated.modify_acl
    return request


def explain(question: ApplicationCheck) -> access_pb2.ExplainApplicationAccessRequest:
    """Return the request to explain one question."""
    return access_pb2.ExplainApplicationAccessRequest(check=check(question))


def batches(
    questions: Iterable[ApplicationCheck],
) -> Iterator[access_pb2.BatchCheckApplicationAccessRequest]:
    """Return requests with the questions in order, as few as the limits allow.

    Raises ValueError for a question that is too large for any request.
    """
    batch = access_pb2.BatchCheckApplicationAccessRequest()
    size = 0
    for index, question in enumerate(questions):
        item = check(question)
        item_size = item.ByteSize() + _ITEM_OVERHEAD
        if item_size > MAX_REQUEST_BYTES:
            raise ValueError(f"checks[{index}] is larger than a request may be (4 MiB)")
        if len(batch.checks) == MAX_BATCH or size + item_size > MAX_REQUEST_BYTES:
            yield batch
            batch = access_pb2.BatchCheckApplicationAccessRequest()
            size = 0
        batch.checks.append(item)
        size += item_size
    if batch.checks:
        yield batch


def explanation(response: access_pb2.ExplainApplicationAccessResponse) -> ApplicationExplanation:
    """Return an explained decision."""
    return ApplicationExplanation(
        _responses.decision(response.decision),
        tuple(
            ApplicationStep(
                _LISTS.get(step.list, ApplicationList.UNSPECIFIED), step.queue, step.acl_text
            )
            for step in response.steps
        ),
        _responses.groups(response.groups),
    )
