"""Checks about applications of YARN and Spark: from bytes to bytes."""

from collections.abc import Sequence
from typing import Final

from queuegate.policy.applications import (
    AccessList,
    AccessListKind,
    Action,
    Application,
    ApplicationDecision,
    ApplicationsUnsupported,
    decide_application,
)
from queuegate.policy.spark import SparkError, spark_acls
from queuegate.v1 import access_pb2
from queuegate_server.engine import ApplicationQuery, Engine, Explained, ServedPartition, Snapshot
from queuegate_server.rpc import validation, wire
from queuegate_server.rpc.batch import for_each
from queuegate_server.rpc.decision_log import DecisionLog
from queuegate_server.rpc.errors import InvalidRequest, reason_name, to_status
from queuegate_server.rpc.messages import REASONS, explained_groups

_MAX_ACL_BYTES: Final = 1_048_576
_ACTIONS: Final = {
    access_pb2.APPLICATION_ACTION_VIEW: Action.VIEW,
    access_pb2.APPLICATION_ACTION_VIEW_LOGS: Action.VIEW_LOGS,
    access_pb2.APPLICATION_ACTION_MODIFY: Action.MODIFY,
    access_pb2.APPLICATION_ACTION_MOVE: Action.MOVE,
    access_pb2.APPLICATION_ACTION_ADMIN: Action.ADMIN,
}
_LISTS: Final = {
    AccessListKind.OWNER: access_pb2.APPLICATION_LIST_OWNER,
    AccessListKind.VIEW: access_pb2.APPLICATION_LIST_VIEW,
    AccessListKind.MODIFY: access_pb2.APPLICATION_LIST_MODIFY,
    AccessListKind.QUEUE_SUBMIT: access_pb2.APPLICATION_LIST_QUEUE_SUBMIT,
    AccessListKind.QUEUE_ADMIN: access_pb2.APPLICATION_LIST_QUEUE_ADMIN,
    AccessListKind.CLUSTER_ADMIN: access_pb2.APPLICATION_LIST_CLUSTER_ADMIN,
    AccessListKind.APPLICATION_ADMIN: access_pb2.APPLICATION_LIST_APPLICATION_ADMIN,
}


class ApplicationServicer:
    """The methods of AccessService that are about applications."""

    def __init__(self, engine: Engine, decisions: DecisionLog) -> None:
        """Use an engine, and the log that counts and records decisions."""
        self._engine = engine
        self._decisions = decisions

    async def CheckApplicationAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide one check."""
        method = "CheckApplicationAccess"
        try:
            request = wire.parse(access_pb2.CheckApplicationAccessRequest, data)
            snapshot = self._engine.snapshot
            explained = await self._decide(request, snapshot, trusted=trusted)
        except Exception as error:
            await self._decisions.failed(method, data, error)
            raise
        message = _decision(explained, snapshot)
        response = message.SerializeToString()
        await self._decisions.decided(method, data, response, message.reason)
        return response

    async def BatchCheckApplicationAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide a batch, on one snapshot; a check that fails does not affect the others."""
        method = "BatchCheckApplicationAccess"
        try:
            request = wire.parse(access_pb2.BatchCheckApplicationAccessRequest, data)
            wire.batch_items(data)
            response, errors = await self._results(request, trusted=trusted)
        except Exception as error:
            await self._decisions.failed(method, b"", error)
            raise
        reasons = bytes([result.decision.reason for result in response.results])
        due = self._decisions.count(reasons, errors)
        result = response.SerializeToString()
        if due:
            await self._decisions.record(method, data, result, due)
        return result

    async def _results(
        self, request: access_pb2.BatchCheckApplicationAccessRequest, *, trusted: bool
    ) -> tuple[access_pb2.BatchCheckApplicationAccessResponse, list[str]]:
        """Return the results, and the error reasons of the checks that failed."""
        snapshot = self._engine.snapshot
        response = access_pb2.BatchCheckApplicationAccessResponse()
        errors: list[str] = []

        async def decide(check: access_pb2.CheckApplicationAccessRequest) -> None:
            result = response.results.add()
            try:
                explained = await self._decide(check, snapshot, trusted=trusted)
            except Exception as error:
                errors.append(reason_name(error))
                result.error.CopyFrom(to_status(error).proto)
            else:
                result.decision.CopyFrom(_decision(explained, snapshot))

        # Items are taken in order, so the results are in the order of the checks.
        await for_each(request.checks, decide)
        return response, errors

    async def ExplainApplicationAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide one check, and show its evaluation."""
        method = "ExplainApplicationAccess"
        try:
            request = wire.parse(access_pb2.ExplainApplicationAccessRequest, data)
            snapshot = self._engine.snapshot
            explained = await self._decide(request.check, snapshot, trusted=trusted)
        except Exception as error:
            await self._decisions.failed(method, data, error)
            raise
        message = access_pb2.ExplainApplicationAccessResponse(
            decision=_decision(explained, snapshot),
            steps=[_step(listed) for listed in explained.evaluation.lists],
            groups=explained_groups(explained),
        )
        response = message.SerializeToString()
        await self._decisions.decided(method, data, response, message.decision.reason)
        return response

    async def _decide(
        self,
        request: access_pb2.CheckApplicationAccessRequest,
        snapshot: Snapshot,
        *,
        trusted: bool,
    ) -> Explained[ApplicationDecision]:
        try:
            return await self._engine.check_application(_query(request, snapshot, trusted=trusted))
        except ApplicationsUnsupported:
            text = "is a partition of YuniKorn, which has no ACLs for applications"
            raise InvalidRequest([("partition", text)]) from None


def _query(
    request: access_pb2.CheckApplicationAccessRequest, snapshot: Snapshot, *, trusted: bool
) -> ApplicationQuery:
    violations: validation.Violations = []
    served = validation.find_partition(request.partition, snapshot, violations)
    user, groups = validation.user_and_groups(request.user, served, violations)
    kind = request.WhichOneof("subject")
    validation.check_real_user(request.real_user, violations)
    action = _action(request, violations)
    if kind is None:
        violations.append(("application", "is required"))
    if kind == "application":
        application, target = _application(request, action, served, violations)
    if violations or action is None or served is None:
        raise InvalidRequest(violations)
    asserted = validation.believed(groups, served, trusted=trusted)
    if kind == "spark":
        return _spark_query(request.spark, served, action, user, asserted)
    partition = served.partition
    return ApplicationQuery(
        user,
        asserted,
        served,
        lambda known: decide_application(
            partition, application, action, user, known, target=target, real_user=request.real_user
        ),
    )


def _application(
    request: access_pb2.CheckApplicationAccessRequest,
    action: Action | None,
    served: ServedPartition | None,
    violations: validation.Violations,
) -> tuple[Application, str]:
    """Return the application and the queue that it is to be moved to, if it is."""
    stated = request.application
    queue = validation.queue("application.queue", stated.queue, served, violations)
    validation.user_name("application.owner", stated.owner, violations)
    for field, text in (("view_acl", stated.view_acl), ("modify_acl", stated.modify_acl)):
        if len(text) > _MAX_ACL_BYTES:
            violations.append((f"application.{field}", f"is longer than {_MAX_ACL_BYTES} bytes"))
    target = ""
    if action is Action.MOVE:
        target = validation.queue("target_queue", request.target_queue, served, violations)
    return Application(queue, stated.owner, stated.view_acl, stated.modify_acl), target


def _action(
    request: access_pb2.CheckApplicationAccessRequest, violations: validation.Violations
) -> Action | None:
    action = _ACTIONS.get(request.action)
    is_spark = request.WhichOneof("subject") == "spark"
    if action is None:
        violations.append(("action", "must be an ApplicationAction other than UNSPECIFIED"))
    elif is_spark and action is Action.MOVE:
        violations.append(("action", "does not exist in Spark"))
    elif not is_spark and action is Action.ADMIN:
        violations.append(("action", "exists in Spark only"))
    if request.target_queue and action is not Action.MOVE:
        violations.append(("target_queue", "is only used for a move"))
    return action


def _spark_query(
    stated: access_pb2.SparkApplication,
    served: ServedPartition,
    action: Action,
    user: str,
    groups: Sequence[str],
) -> ApplicationQuery:
    properties = {**served.spark_defaults, **stated.properties}
    try:
        acls = spark_acls(properties, stated.spark_user, stated.process_user)
    except SparkError as error:
        raise InvalidRequest([("spark.properties", str(error))]) from None
    return ApplicationQuery(user, groups, served, lambda known: acls.decide(action, user, known))


def _decision(
    explained: Explained[ApplicationDecision], snapshot: Snapshot
) -> access_pb2.CheckApplicationAccessResponse:
    decision = explained.decision
    return access_pb2.CheckApplicationAccessResponse(
        allowed=decision.allowed,
        reason=REASONS[decision.reason],
        matched_queue=decision.matched_queue,
        matched_subject=decision.matched_subject,
        policy_revision=snapshot.policy.revision,
    )


def _step(listed: AccessList) -> access_pb2.ApplicationStep:
    return access_pb2.ApplicationStep(
        list=_LISTS[listed.kind], queue=listed.queue, acl_text=listed.acl.text
    )
