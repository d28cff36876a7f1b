"""Questions about applications: from bytes to bytes."""

import asyncio
from collections.abc import Sequence
from typing import Final

from queuegate.policy.applications import (
    Action,
    Application,
    Judged,
    Listed,
    ListKind,
    NoApplications,
    decide_application,
)
from queuegate.policy.spark import SparkError, spark_acls
from queuegate.v1 import access_pb2
from queuegate_server.engine import Engine
from queuegate_server.questions import ApplicationQuery, Explained
from queuegate_server.rpc import convert, wire
from queuegate_server.rpc.decision_log import ERROR, DecisionLog
from queuegate_server.rpc.errors import InvalidRequest, to_status
from queuegate_server.snapshot import Snapshot

_DECIDED_AT_ONCE: Final = 200
_LOOKED_UP_AT_ONCE: Final = 16
_MAX_ACL_BYTES: Final = 1_048_576
_ACTIONS: Final = {
    access_pb2.APPLICATION_ACTION_VIEW: Action.VIEW,
    access_pb2.APPLICATION_ACTION_VIEW_LOGS: Action.VIEW_LOGS,
    access_pb2.APPLICATION_ACTION_MODIFY: Action.MODIFY,
    access_pb2.APPLICATION_ACTION_MOVE: Action.MOVE,
    access_pb2.APPLICATION_ACTION_ADMIN: Action.ADMIN,
}
_LISTS: Final = {
    ListKind.OWNER: access_pb2.APPLICATION_LIST_OWNER,
    ListKind.VIEW: access_pb2.APPLICATION_LIST_VIEW,
    ListKind.MODIFY: access_pb2.APPLICATION_LIST_MODIFY,
    ListKind.QUEUE_SUBMIT: access_pb2.APPLICATION_LIST_QUEUE_SUBMIT,
    ListKind.QUEUE_ADMIN: access_pb2.APPLICATION_LIST_QUEUE_ADMIN,
    ListKind.CLUSTER_ADMIN: access_pb2.APPLICATION_LIST_CLUSTER_ADMIN,
    ListKind.APPLICATION_ADMIN: access_pb2.APPLICATION_LIST_APPLICATION_ADMIN,
}


class Applications:
    """Answers single questions and batches. Used from one event loop."""

    def __init__(self, engine: Engine, decisions: DecisionLog) -> None:
        """Take the engine, and what counts and records decisions."""
        self._engine = engine
        self._decisions = decisions

    async def answer(self, data: bytes) -> bytes:
        """Return the answer to one question; raise what the engine raises, InvalidRequest,
        AuditUnavailable.
        """
        try:
            request = wire.parse(access_pb2.CheckApplicationAccessRequest, data)
            snapshot = self._engine.snapshot
            explained = await self._decide(request, snapshot)
        except Exception as error:
            await self._decisions.failed("CheckApplicationAccess", data, error)
            raise
        message = _decision(explained, snapshot)
        response = message.SerializeToString()
        await self._decisions.decided("CheckApplicationAccess", data, response, message.reason)
        return response

    async def answer_batch(self, data: bytes) -> bytes:
        """Return the results of a batch; an item that fails fails alone. Raises
        InvalidRequest if the batch as a whole is wrong, NotReady, AuditUnavailable.
        """
        counts = self._decisions.none_yet()
        try:
            response = (await self._results(data, counts)).SerializeToString()
        except Exception as error:
            await self._decisions.failed("BatchCheckApplicationAccess", b"", error)
            raise
        if due := self._decisions.add(counts):
            await self._decisions.record("BatchCheckApplicationAccess", data, response, due)
        return response

    async def _results(
        self, data: bytes, counts: list[int]
    ) -> access_pb2.BatchCheckApplicationAccessResponse:
        """Return the results of a batch, and count the decisions."""
        request = wire.parse(access_pb2.BatchCheckApplicationAccessRequest, data)
        if not request.checks:
            raise InvalidRequest([("checks", "is empty")])
        if len(request.checks) > convert.MAX_BATCH:
            raise InvalidRequest([("checks", f"has more than {convert.MAX_BATCH} questions")])
        snapshot = self._engine.snapshot
        response = access_pb2.BatchCheckApplicationAccessResponse()
        pairs = ((check, response.results.add()) for check in request.checks)

        async def work() -> None:
            for count, (check, result) in enumerate(pairs, start=1):
                try:
                    explained = await self._decide(check, snapshot)
                except Exception as error:
                    counts[ERROR] += 1
                    self._decisions.count_error(error)
                    result.error.CopyFrom(to_status(error))
                else:
                    result.decision.CopyFrom(_decision(explained, snapshot))
                    counts[result.decision.reason] += 1
                if count % _DECIDED_AT_ONCE == 0:
                    await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(_LOOKED_UP_AT_ONCE, len(request.checks))):
                group.create_task(work())
        return response

    async def explain(self, data: bytes) -> bytes:
        """Return an explained answer; raises as `answer` does."""
        try:
            request = wire.parse(access_pb2.ExplainApplicationAccessRequest, data)
            snapshot = self._engine.snapshot
            explained = await self._decide(request.check, snapshot)
        except Exception as error:
            await self._decisions.failed("ExplainApplicationAccess", data, error)
            raise
        message = access_pb2.ExplainApplicationAccessResponse(
            decision=_decision(explained, snapshot),
            steps=[_step(listed) for listed in explained.evaluation.lists],
            groups=convert.explain_groups(explained),
        )
        response = message.SerializeToString()
        reason = message.decision.reason
        await self._decisions.decided("ExplainApplicationAccess", data, response, reason)
        return response

    async def _decide(
        self, request: access_pb2.CheckApplicationAccessRequest, snapshot: Snapshot
    ) -> Explained[Judged]:
        try:
            return await self._engine.check_application(snapshot, _question(request, snapshot))
        except NoApplications:
            text = "is a partition of YuniKorn, which has no ACLs of applications"
            raise InvalidRequest([("partition", text)]) from None


def _question(
    request: access_pb2.CheckApplicationAccessRequest, snapshot: Snapshot
) -> ApplicationQuery:
    faults: convert.Violations = []
    partition = convert.partition_of(request.partition, snapshot, faults)
    user, groups = convert.who(request.user, partition, faults)
    kind = request.WhichOneof("subject")
    convert.check_real_user(request.real_user, faults)
    action = _action(request, faults)
    if kind == "spark":
        return _spark_question(request, snapshot, action, (user, groups), faults)
    if kind is None:
        raise InvalidRequest([*faults, ("application", "is required")])
    stated = request.application
    queue = convert.queue_field("application.queue", stated.queue, partition, faults)
    convert.check_user("application.owner", stated.owner, faults)
    for field, text in (("view_acl", stated.view_acl), ("modify_acl", stated.modify_acl)):
        if len(text) > _MAX_ACL_BYTES:
            faults.append((f"application.{field}", f"is longer than {_MAX_ACL_BYTES} bytes"))
    target = ""
    if action is Action.MOVE:
        target = convert.queue_field("target_queue", request.target_queue, partition, faults)
    if faults or action is None:
        raise InvalidRequest(faults)
    application = Application(queue, stated.owner, stated.view_acl, stated.modify_acl)
    return ApplicationQuery(
        user,
        groups,
        request.partition,
        lambda found, known: decide_application(
            found,
            application,
            action,
            user,
            known,
            target=target,
            real_user=request.real_user,
        ),
    )


def _action(
    request: access_pb2.CheckApplicationAccessRequest, faults: convert.Violations
) -> Action | None:
    action = _ACTIONS.get(request.action)
    is_spark = request.WhichOneof("subject") == "spark"
    if action is None:
        faults.append(("action", "must be an action"))
    elif is_spark and action is Action.MOVE:
        faults.append(("action", "is none of Spark's"))
    elif not is_spark and action is Action.ADMIN:
        faults.append(("action", "is one of Spark's only"))
    if request.target_queue and action is not Action.MOVE:
        faults.append(("target_queue", "is only for a move"))
    return action


def _spark_question(
    request: access_pb2.CheckApplicationAccessRequest,
    snapshot: Snapshot,
    action: Action | None,
    who: tuple[str, Sequence[str]],
    faults: convert.Violations,
) -> ApplicationQuery:
    user, groups = who
    if faults or action is None:
        raise InvalidRequest(faults)
    stated = request.spark
    properties = {
        **snapshot.find(request.partition).spark_defaults,
        **stated.properties,
    }
    try:
        acls = spark_acls(properties, stated.spark_user, stated.process_user)
    except SparkError as error:
        raise InvalidRequest([("spark.properties", str(error))]) from None
    return ApplicationQuery(
        user, groups, request.partition, lambda _, known: acls.decide(action, user, known)
    )


def _decision(
    explained: Explained[Judged], snapshot: Snapshot
) -> access_pb2.CheckApplicationAccessResponse:
    decision = explained.decision
    return access_pb2.CheckApplicationAccessResponse(
        allowed=decision.allowed,
        reason=convert.REASONS[decision.reason],
        matched_queue=decision.matched_queue,
        matched_subject=decision.matched_subject,
        policy_revision=snapshot.policy.revision,
    )


def _step(listed: Listed) -> access_pb2.ApplicationStep:
    return access_pb2.ApplicationStep(
        list=_LISTS[listed.kind], queue=listed.queue, acl_text=listed.acl.text
    )
