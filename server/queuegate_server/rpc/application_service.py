"""Checks about applications of YARN and Spark: from bytes to bytes."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from queuegate.policy.applications import (
    AccessList,
    AccessListKind,
    Action,
    Application,
    decide_application,
)
from queuegate.policy.decision import Decision
from queuegate.policy.spark import PROPERTIES, SparkError, spark_acls
from queuegate.policy.yarn_acl import parse_yarn
from queuegate.v1 import access_pb2
from queuegate_server.decisions.log import NUMBERS
from queuegate_server.engine import ApplicationQuery, Engine, ServedPartition, Snapshot
from queuegate_server.rpc import validation, wire
from queuegate_server.rpc.admission_queue import AdmissionQueue, Slot
from queuegate_server.rpc.batch import encode, error_reasons, failed, for_each, reasons_of
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.errors import InvalidRequest
from queuegate_server.rpc.messages import REASONS, explained_groups
from queuegate_server.rpc.response_cache import CheckResponse, answered

_Check = access_pb2.CheckApplicationAccessRequest

MAX_ACL_BYTES: Final = 1_048_576
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

    def __init__(self, engine: Engine, decisions: CallLog, queue: AdmissionQueue) -> None:
        """Use an engine, the log that counts and records decisions, and the queue of long calls."""
        self._engine = engine
        self._decisions = decisions
        self._queue = queue

    async def CheckApplicationAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide one check."""
        method = "CheckApplicationAccess"
        try:
            snapshot, query = await self._queue.in_turn(
                data, lambda: self._read(wire.parse(_Check, data), trusted=trusted)
            )
            explained = await self._engine.explain_application(query)
        except Exception as error:
            await self._decisions.failed(method, data, error)
            raise
        message = _decision(explained.decision, snapshot)
        response = message.SerializeToString()
        reason = NUMBERS[explained.decision.reason]
        await self._decisions.decided(method, data, response, reason)
        return response

    async def BatchCheckApplicationAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide a batch, on one snapshot; a check that fails does not affect the others."""
        method = "BatchCheckApplicationAccess"
        async with self._queue.for_call(data) as slot:
            try:
                checks = wire.batch_items(data)
                results = await self._results(checks, slot, trusted=trusted)
            except Exception as error:
                await slot.penalize()
                await self._decisions.failed(method, b"", error)
                raise
        return await self._batch_response(method, data, results)

    async def _results(
        self, checks: Sequence[bytes], slot: Slot, *, trusted: bool
    ) -> list[CheckResponse]:
        """Return the results of the checks of a batch, in their order."""
        snapshot = self._engine.snapshot
        budget = wire.search_budget()
        found: list[CheckResponse | None] = []
        waiting: list[tuple[int, ApplicationQuery]] = []

        def read(check: bytes) -> ApplicationQuery:
            return _query(wire.parse(_Check, check, budget), snapshot, trusted=trusted)

        for check in checks:
            response: CheckResponse | None = None
            try:
                query = await slot.run(check, partial(read, check))
                decision = self._engine.check_application(query)
                if decision is None:
                    waiting.append((len(found), query))
                else:
                    response = _response(decision, snapshot)
            except Exception as error:
                response = failed(error)
            found.append(response)
            await slot.pause_if_due()

        async def look_up(waiting: tuple[int, ApplicationQuery]) -> None:
            index, query = waiting
            try:
                explained = await self._engine.explain_application(query)
                found[index] = _response(explained.decision, snapshot)
            except Exception as error:
                found[index] = failed(error)

        if waiting:
            slot.release()
            await for_each(waiting, look_up, slot.pause_if_due)
        return found  # type: ignore[return-value] # no result is missing

    async def _batch_response(
        self, method: str, data: bytes, results: Sequence[CheckResponse]
    ) -> bytes:
        """Return the response to a batch, once its decisions are counted and recorded."""
        reasons = reasons_of(results)
        response = encode(results, reasons)
        errors = error_reasons(results)
        await self._decisions.decided_batch(method, data, response, reasons, errors)
        return response

    async def ExplainApplicationAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide one check, and show its evaluation."""
        method = "ExplainApplicationAccess"
        kind = access_pb2.ExplainApplicationAccessRequest
        try:
            snapshot, query = await self._queue.in_turn(
                data, lambda: self._read(wire.parse(kind, data).check, trusted=trusted)
            )
            explained = await self._engine.explain_application(query)
        except Exception as error:
            await self._decisions.failed(method, data, error)
            raise
        message = access_pb2.ExplainApplicationAccessResponse(
            decision=_decision(explained.decision, snapshot),
            steps=[
                _step(listed, granted=index in explained.evaluation.granting)
                for index, listed in enumerate(explained.evaluation.lists)
            ],
            groups=explained_groups(explained),
        )
        response = message.SerializeToString()
        reason = NUMBERS[explained.decision.reason]
        await self._decisions.decided(method, data, response, reason)
        return response

    def _read(
        self, request: access_pb2.CheckApplicationAccessRequest, *, trusted: bool
    ) -> tuple[Snapshot, ApplicationQuery]:
        snapshot = self._engine.snapshot
        return snapshot, _query(request, snapshot, trusted=trusted)


def _query(
    request: access_pb2.CheckApplicationAccessRequest, snapshot: Snapshot, *, trusted: bool
) -> ApplicationQuery:
    """Return the query of a check, with all lists of names split; raises as
    `validation.query` does.
    """
    violations: validation.Violations = []
    served = validation.find_partition(request.partition, snapshot, violations)
    user, groups = validation.user_and_groups(request.user, served, violations)
    kind = request.WhichOneof("subject")
    real_user = validation.check_real_user(request.real_user, violations)
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
    if partition.cluster is None:
        text = "is a partition of YuniKorn, which has no ACLs for applications"
        raise InvalidRequest([("partition", text)])
    semantics = partition.cluster.semantics
    split = application._replace(
        view_acl=parse_yarn(request.application.view_acl, semantics),
        modify_acl=parse_yarn(request.application.modify_acl, semantics),
    )
    return ApplicationQuery(
        user,
        asserted,
        served,
        lambda known: decide_application(
            partition, split, action, user, known, target=target, real_user=real_user
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
    validation.required_name("application.owner", stated.owner, violations)
    for field, text in (("view_acl", stated.view_acl), ("modify_acl", stated.modify_acl)):
        if len(text) > MAX_ACL_BYTES:
            violations.append((f"application.{field}", f"is longer than {MAX_ACL_BYTES} bytes"))
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
    groups: Sequence[str] | None,
) -> ApplicationQuery:
    given = stated.properties
    known = {name: given[name] for name in PROPERTIES if name in given}
    properties = {**served.spark_defaults, **known}
    try:
        acls = spark_acls(properties, stated.spark_user, stated.process_user)
    except SparkError as error:
        raise InvalidRequest([("spark.properties", str(error))]) from None
    return ApplicationQuery(user, groups, served, lambda known: acls.decide(action, user, known))


def _decision(decision: Decision, snapshot: Snapshot) -> access_pb2.CheckApplicationAccessResponse:
    return access_pb2.CheckApplicationAccessResponse(
        allowed=decision.allowed,
        reason=REASONS[decision.reason],
        matched_queue=decision.matched_queue,
        matched_subject=decision.matched_subject,
        policy_revision=snapshot.policy.revision,
    )


def _response(decision: Decision, snapshot: Snapshot) -> CheckResponse:
    message = _decision(decision, snapshot)
    return answered(message.SerializeToString(), NUMBERS[decision.reason])


def _step(listed: AccessList, *, granted: bool) -> access_pb2.ApplicationStep:
    return access_pb2.ApplicationStep(
        list=_LISTS[listed.kind], queue=listed.queue, acl_text=listed.acl.text, granted=granted
    )
