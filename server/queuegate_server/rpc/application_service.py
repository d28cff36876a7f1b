"""Access checks for YARN and Spark applications."""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from typing import Final, TypeVar

from google.protobuf.message import Message

from queuegate.policy.acl import Acl
from queuegate.policy.applications import (
    AccessListKind,
    Action,
    Application,
    ApplicationDecision,
    decide_application,
)
from queuegate.policy.decide import evaluated_instead
from queuegate.policy.decision import UNKNOWN_QUEUE, Decision
from queuegate.policy.spark import PROPERTIES, SparkError, spark_acls
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate.v1 import access_pb2
from queuegate_server.decisions.log import NUMBERS
from queuegate_server.engine import (
    ApplicationQuery,
    E,
    Engine,
    ExplainResult,
    Query,
    ServedPartition,
    Snapshot,
    Verdict,
)
from queuegate_server.rpc import validation, wire
from queuegate_server.rpc.batch import CheckSteps, decide_each, encode, error_reasons, reasons_of
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.errors import InvalidRequest
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.rpc.messages import decision_message, explain_groups
from queuegate_server.rpc.response_cache import CheckResponse, respond

_Check = access_pb2.CheckApplicationAccessRequest

MAX_ACL_BYTES: Final = 1_048_576
_MAX_SHORT_ACL: Final = 256
_parse_short_acl = lru_cache(maxsize=1_024)(parse_yarn)
_LISTS: Final = {
    kind: access_pb2.ApplicationList.Value(f"APPLICATION_LIST_{kind.name}")
    for kind in AccessListKind
}
Q = TypeVar("Q", Query, ApplicationQuery)


class ApplicationServicer:
    """Implements the application methods of AccessService."""

    def __init__(self, engine: Engine, call_log: CallLog, queue: LongCallQueue) -> None:
        self._engine = engine
        self._call_log = call_log
        self._queue = queue

    async def CheckApplicationAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide one application check."""
        return await self._explain(
            "CheckApplicationAccess",
            data,
            lambda: self._read(wire.parse(_Check, data), trusted=trusted),
            self._engine.explain_application,
            lambda query, result, revision: _decision(query, result.decision, revision),
        )

    async def ExplainApplicationAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide one application check and explain the decision."""
        kind = access_pb2.ExplainApplicationAccessRequest
        return await self._explain(
            "ExplainApplicationAccess",
            data,
            lambda: self._read(wire.parse(kind, data).check, trusted=trusted),
            self._engine.explain_application,
            _explanation,
        )

    async def _explain(
        self,
        method: str,
        data: bytes,
        read: Callable[[], tuple[Snapshot, Q]],
        explain: Callable[[Q], Awaitable[ExplainResult[E]]],
        message: Callable[[Q, ExplainResult[E], int], Message],
    ) -> bytes:
        """Decide and record a single check; return the response.

        `read` returns the snapshot on which to decide the check, and the check's query. `explain`
        decides it. `message` builds the response from the query, the result and the policy's
        revision.
        """
        try:
            snapshot, query = await self._queue.in_turn(data, read)
            result = await explain(query)
        except Exception as error:
            await self._call_log.record_failure(method, data, error)
            raise
        response = message(query, result, snapshot.policy.revision).SerializeToString()
        await self._call_log.record(method, data, response, NUMBERS[result.decision.reason])
        return response

    async def BatchCheckApplicationAccess(self, data: bytes, *, trusted: bool) -> bytes:
        """Decide a batch's checks on one snapshot. A failed check does not affect the others."""
        method = "BatchCheckApplicationAccess"
        async with self._queue.for_call(data) as slot:
            try:
                checks = wire.batch_items(data)
                steps = self._steps(checks, trusted=trusted)
                results = await decide_each(checks, [None] * len(checks), steps, slot)
            except Exception as error:
                await slot.penalize()
                await self._call_log.record_failure(method, b"", error)
                raise
        return await self._batch_response(method, data, results)

    def _steps(
        self, checks: Sequence[bytes], *, trusted: bool
    ) -> CheckSteps[ApplicationQuery, Verdict]:
        """Return functions that decide a batch's checks on the current snapshot."""
        snapshot = self._engine.snapshot
        budget = wire.search_budget()

        def check(query: ApplicationQuery) -> Verdict | None:
            decision = self._engine.check_application(query)
            return None if decision is None else verdict(query, decision)

        async def resolve(query: ApplicationQuery) -> Verdict:
            return verdict(query, (await self._engine.explain_application(query)).decision)

        def verdict(query: ApplicationQuery, decision: Decision) -> Verdict:
            return Verdict(decision, None, _evaluated_queue(query, decision))

        return CheckSteps(
            lambda indexes: [None] * len(indexes),
            lambda index: _query(
                wire.parse(_Check, checks[index], budget), snapshot, trusted=trusted
            ),
            check,
            resolve,
            partial(respond, snapshot),
            lambda _responses: None,
        )

    async def _batch_response(
        self, method: str, data: bytes, results: Sequence[CheckResponse]
    ) -> bytes:
        """Record a batch's decisions; return the encoded response."""
        reasons = reasons_of(results)
        response = encode(results, reasons)
        await self._call_log.record_batch(method, data, response, reasons, error_reasons(results))
        return response

    def _read(
        self, request: access_pb2.CheckApplicationAccessRequest, *, trusted: bool
    ) -> tuple[Snapshot, ApplicationQuery]:
        snapshot = self._engine.snapshot
        return snapshot, _query(request, snapshot, trusted=trusted)


def _query(
    request: access_pb2.CheckApplicationAccessRequest, snapshot: Snapshot, *, trusted: bool
) -> ApplicationQuery:
    """Validate a check and return its query. Raises the same exceptions as `validation.query`."""
    violations: validation.Violations = []
    served = validation.find_partition(request.partition, snapshot, violations)
    user, groups = validation.user_and_groups(request.user, served, violations)
    kind = request.WhichOneof("subject")
    real_user = request.real_user
    validation.check_name("real_user", real_user, violations)
    action = _action(request, violations)
    if kind is None:
        violations.append(("application", "is required"))
    if kind == "application":
        application, target = _application(request, action, served, violations)
    if violations or action is None or served is None:
        raise InvalidRequest(violations)
    asserted = validation.trusted_groups(user, groups, served, trusted=trusted)
    if kind == "spark":
        return _spark_query(request.spark, served, action, user, asserted)
    partition = served.partition
    if partition.cluster is None:
        text = "is a YuniKorn partition, which has no application ACLs"
        raise InvalidRequest([("partition", text)])
    semantics = partition.cluster.semantics
    split = application._replace(
        view_acl=_parse_acl(request.application.view_acl, semantics),
        modify_acl=_parse_acl(request.application.modify_acl, semantics),
    )
    return ApplicationQuery(
        user,
        asserted,
        served,
        split.queue,
        lambda known: decide_application(
            partition, split, action, user, known, target=target, real_user=real_user
        ),
    )


def _parse_acl(text: str, semantics: Semantics) -> Acl:
    """Parse an application's ACL. Short ACLs are memoized, because many recur."""
    return (_parse_short_acl if len(text) <= _MAX_SHORT_ACL else parse_yarn)(text, semantics)


def _application(
    request: access_pb2.CheckApplicationAccessRequest,
    action: Action | None,
    served: ServedPartition | None,
    violations: validation.Violations,
) -> tuple[Application, str]:
    """Validate and return the application and, for a move, the target queue."""
    stated = request.application
    queue = validation.queue("application.queue", stated.queue, served, violations)
    validation.check_required_name("application.owner", stated.owner, violations)
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
    action = validation.ACTIONS.get(request.action)
    is_spark = request.WhichOneof("subject") == "spark"
    if action is None:
        violations.append(("action", "must be an ApplicationAction other than UNSPECIFIED"))
    elif is_spark and action is Action.MOVE:
        violations.append(("action", "does not exist in Spark"))
    elif not is_spark and action is Action.ADMIN:
        violations.append(("action", "exists only in Spark"))
    if request.target_queue and action is not Action.MOVE:
        violations.append(("target_queue", "is used only for a move"))
    return action


def _spark_query(
    stated: access_pb2.SparkApplication,
    served: ServedPartition,
    action: Action,
    user: str,
    groups: Sequence[str] | None,
) -> ApplicationQuery:
    properties = {name: stated.properties[name] for name in PROPERTIES if name in stated.properties}
    try:
        acls = spark_acls(
            {**served.spark_defaults, **properties}, stated.spark_user, stated.process_user
        )
    except SparkError as error:
        raise InvalidRequest([("spark.properties", str(error))]) from None
    return ApplicationQuery(
        user, groups, served, "", lambda known: acls.decide(action, user, known)
    )


def _decision(
    query: ApplicationQuery, decision: Decision, revision: int
) -> access_pb2.CheckApplicationAccessResponse:
    message = access_pb2.CheckApplicationAccessResponse
    return decision_message(message, decision, _evaluated_queue(query, decision), revision)


def _evaluated_queue(query: ApplicationQuery, decision: Decision) -> str:
    if query.queue and decision is not UNKNOWN_QUEUE:
        return evaluated_instead(query.served.partition, query.queue, decision)
    return ""


def _explanation(
    query: ApplicationQuery, result: ExplainResult[ApplicationDecision], revision: int
) -> access_pb2.ExplainApplicationAccessResponse:
    steps = [
        access_pb2.ApplicationStep(
            list=_LISTS[each.kind],
            queue=each.queue,
            acl_text=each.acl.text,
            granted=index in result.evaluation.granting,
        )
        for index, each in enumerate(result.evaluation.lists)
    ]
    return access_pb2.ExplainApplicationAccessResponse(
        decision=_decision(query, result.decision, revision),
        steps=steps,
        groups=explain_groups(result),
    )
